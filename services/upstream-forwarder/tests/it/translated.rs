//! Callers of each dialect before upstreams of each other (DIAL-1): answers, failures before and after content, errors in the
//! caller's own form, and who answers when another dialect's upstream fails (FWD-3, FWD-4, DIAL-4).

use fake_upstream::Script;
use serde_json::{Value, json};
use switchboard_common::error::Reason;
use switchboard_proto::{billing::v1::Ending, scheduler::v1::Parameters};

use crate::{
    dialects::{SAID, Spoken, Vendor, streaming},
    every_dialect::{TOO_LONG, says_too_long},
    rig::{Rig, SECRET, config},
};

fn translated() -> Vec<Spoken> {
    let names = ["chat", "responses", "messages", "gemini"];
    let spoken = streaming().filter(|spoken| names.contains(&spoken.name));
    spoken.collect()
}

/// Every caller with every upstream of another dialect.
fn pairs() -> Vec<(Spoken, Spoken)> {
    let all = translated();
    let others = |caller: &Spoken| {
        let others = all.iter().filter(|other| other.name != caller.name);
        let pair = |other: &Spoken| (caller.clone(), other.clone());
        others.map(pair).collect::<Vec<_>>()
    };
    all.iter().flat_map(others).collect()
}

const fn provider(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::OpenAi => "openai_compatible",
        Vendor::Anthropic => "anthropic",
        Vendor::Google => "gemini",
    }
}

/// A forwarder whose accounts, `one` and `two`, speak these.
async fn rig([one, two]: [&Spoken; 2]) -> Rig {
    let mut config = config();
    config.retries_in_hand = 10_000;
    Rig::with(config, |state| {
        for (candidate, spoken) in state.candidates.iter_mut().zip([one, two]) {
            candidate.dialect = spoken.dialect as i32;
            provider(spoken.vendor).clone_into(&mut candidate.provider);
        }
    })
    .await
}

/// An error in the form of the caller's vendor.
fn is_error_of(vendor: Vendor, body: &Value, what: &str) {
    let error = &body["error"];
    assert!(error["message"].is_string(), "{what}: {body}");
    match vendor {
        Vendor::OpenAi => assert!(
            error["type"].is_string() && error.get("code").is_some(),
            "{what}: {body}"
        ),
        Vendor::Anthropic => assert!(
            body["type"] == "error" && error["type"].is_string(),
            "{what}: {body}"
        ),
        Vendor::Google => assert!(
            error["code"].is_u64() && error["status"].is_string(),
            "{what}: {body}"
        ),
    }
}

#[tokio::test]
async fn every_caller_is_answered_by_every_upstream_in_its_own_form() {
    for (caller, upstream) in pairs() {
        let rig = rig([&upstream, &upstream]).await;
        for stream in [false, true] {
            let what = format!("{} of {}, stream {stream}", caller.name, upstream.name);
            rig.upstream.push(upstream.good(stream));
            let answer = caller.ask(&rig, stream).await;
            assert_eq!(
                (answer.failure.clone(), answer.status),
                (None, 200),
                "{what}"
            );
            let text = answer.text();
            assert!(text.contains(SAID), "{what}: {text}");
            assert!(!stream || text.contains(caller.end), "{what}: {text}");
            assert!(
                text.contains("\"text\"") && !text.contains("upstream-gpt"),
                "{what}: {text}"
            );
            let settlement = rig.settlement(&answer.id).await;
            assert_eq!(settlement.ending(), Ending::Complete, "{what}");
            assert_eq!(settlement.dialect(), caller.dialect, "{what}");
            if !stream || upstream.name != "chat" {
                let usage = settlement.usage.unwrap();
                assert_eq!(
                    (usage.input_tokens, usage.output_tokens),
                    (Some(9), Some(4)),
                    "{what}"
                );
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn the_next_account_answers_whatever_dialect_it_and_the_first_one_speak() {
    for (caller, upstream) in pairs() {
        for accounts in [[&caller, &upstream], [&upstream, &caller]] {
            let rig = rig(accounts).await;
            let [one, two] = accounts;
            let names = format!("{}: {}, then {}", caller.name, one.name, two.name);
            let [begun, ..] = one.stream.clone().unwrap();
            let failures = [
                (
                    "503",
                    false,
                    Script::json(503, &one.vendor.error(503, "busy")),
                ),
                (
                    "error in a 200",
                    false,
                    Script::json(200, &one.vendor.error(500, "busy")),
                ),
                ("429", true, Script::rate_limited(Some(60))),
                (
                    "error first",
                    true,
                    Script::event_bytes(one.vendor.event(500, "busy")),
                ),
                (
                    "error after its beginning",
                    true,
                    Script::event_bytes(begun.clone() + &one.vendor.event(503, "busy")),
                ),
                ("cut after its beginning", true, Script::event_bytes(begun)),
            ];
            for (failure, stream, script) in failures {
                let what = format!("{names}, {failure}");
                rig.upstream.push_on_key(SECRET, script);
                rig.upstream.push(two.good(stream));
                let answer = caller.ask(&rig, stream).await;
                assert_eq!(
                    (answer.failure.clone(), answer.status),
                    (None, 200),
                    "{what}"
                );
                let text = answer.text();
                assert!(
                    text.contains(SAID) && !text.contains("busy"),
                    "{what}: {text}"
                );
                assert!(!stream || text.contains(caller.end), "{what}: {text}");
                let settlement = rig.settlement(&answer.id).await;
                let tried: Vec<_> = settlement.attempts.iter().map(|it| &*it.account).collect();
                assert_eq!(tried, ["one", "two"], "{what}");
            }
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn what_breaks_after_content_ends_in_an_error_and_never_looks_whole() {
    for (caller, upstream) in pairs() {
        let rig = rig([&upstream, &upstream]).await;
        let [begun, said, end] = upstream.stream.clone().unwrap();
        let so_far = begun + &said;
        for (failure, script) in [
            ("ends", Script::event_bytes(so_far.clone())),
            (
                "resets",
                Script::event_bytes(so_far.clone() + &end).reset_at_byte(so_far.len()),
            ),
            (
                "says so",
                Script::event_bytes(
                    so_far.clone() + &upstream.vendor.event(500, "about sk-secret"),
                ),
            ),
        ] {
            let what = format!("{} of {}, {failure}", caller.name, upstream.name);
            rig.upstream.push(script);
            let answer = caller.ask(&rig, true).await;
            let text = answer.text();
            assert!(text.contains(SAID), "{what}: {text}");
            // The edge says how it ended, in the caller's form.
            assert!(answer.failure.is_some() && !answer.ended, "{what}: {text}");
            assert!(
                !text.contains(caller.end) && !text.contains("sk-secret"),
                "{what}: {text}"
            );
            let settlement = rig.settlement(&answer.id).await;
            assert_eq!(settlement.attempts.len(), 1, "{what}");
            assert_ne!(settlement.ending(), Ending::Complete, "{what}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn the_upstreams_refusal_of_the_request_is_told_in_the_callers_form() {
    for (caller, upstream) in pairs() {
        let rig = rig([&upstream, &upstream]).await;
        for stream in [false, true] {
            let what = format!("{} of {}, stream {stream}", caller.name, upstream.name);
            let message = "your seventh message is odd";
            let error = upstream.vendor.error(400, message);
            rig.upstream.push(Script::json(400, &error));
            let answer = caller.ask(&rig, stream).await;
            assert_eq!(
                (answer.failure.clone(), answer.status),
                (None, 400),
                "{what}"
            );
            let body = answer.json();
            is_error_of(caller.vendor, &body, &what);
            assert_eq!(body["error"]["message"], message, "{what}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_so_in_the_callers_form_wherever_the_upstream_says_it() {
    for (caller, upstream) in pairs() {
        let rig = rig([&upstream, &upstream]).await;
        let [begun, ..] = upstream.stream.clone().unwrap();
        for message in TOO_LONG {
            let said = upstream.vendor.error(400, message);
            let events = begun.clone() + &upstream.vendor.event(400, message);
            for (how, stream, script) in [
                ("422", false, Script::json(422, &said)),
                ("200", false, Script::json(200, &said)),
                ("400", true, Script::json(400, &said)),
                ("event", true, Script::event_bytes(events)),
                ("bare", true, Script::event_bytes(said.to_string())),
            ] {
                let what = format!(
                    "{} of {}, {how}, stream {stream}: {message}",
                    caller.name, upstream.name
                );
                rig.upstream.push(script);
                let answer = caller.ask(&rig, stream).await;
                assert_eq!(
                    (answer.failure.clone(), answer.status),
                    (None, 400),
                    "{what}"
                );
                assert!(!answer.event_stream, "{what}");
                says_too_long(caller.vendor, &answer.json(), message, &what);
                let settlement = rig.settlement(&answer.id).await;
                assert_eq!(settlement.attempts.len(), 1, "{what}");
                assert_eq!(settlement.error_code, "context_length_exceeded", "{what}");
                assert!(settlement.charge_nothing, "{what}");
            }
        }
        rig.end().await;
    }
}

/// An account tells of its parameters in its dialect; its callers hear of them in theirs (FWD-11).
#[tokio::test]
async fn what_an_account_of_another_dialect_does_not_take_is_named_as_the_caller_wrote_it() {
    let all = translated();
    let of = |name: &str| all.iter().find(|spoken| spoken.name == name).unwrap();
    for (caller, upstream, takes, more, named) in [
        (
            "messages",
            "chat",
            "max_completion_tokens",
            json!({"metadata": {"user_id": "u"}, "stop_sequences": ["x"]}),
            ["metadata.user_id", "stop_sequences"],
        ),
        (
            "gemini",
            "messages",
            "max_tokens",
            json!({"generation_config": {"topK": 3, "stop_sequences": ["x"]}}),
            ["generation_config.stop_sequences", "generation_config.topK"],
        ),
        (
            "chat",
            "gemini",
            "maxOutputTokens",
            json!({"top_p": 0.5, "stop": "x"}),
            ["stop", "top_p"],
        ),
    ] {
        let (caller, upstream) = (of(caller), of(upstream));
        let what = format!("{} of {}", caller.name, upstream.name);
        let rig = rig([upstream, upstream]).await;
        let mut body = caller.request.clone();
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        for reject in [false, true] {
            for candidate in &mut rig.world.state().candidates {
                candidate.parameters = Some(Parameters {
                    supported: vec![takes.to_owned()],
                    has_supported: true,
                    reject: Some(reject),
                    ..Parameters::default()
                });
            }
            rig.upstream.push(upstream.good(false));
            let head = caller.head(&rig, false);
            let answer = rig.relay(head, body.to_string().into()).await;
            if reject {
                let failure = answer.failure.unwrap();
                assert_eq!(failure.reason, Reason::UnsupportedParameter, "{what}");
                assert!(named.contains(&&*failure.param.unwrap()), "{what}");
                continue;
            }
            let dropped = answer.header("x-switchboard-dropped-params").unwrap();
            let mut dropped: Vec<_> = dropped.split(", ").collect();
            dropped.sort_unstable();
            assert_eq!(dropped, named, "{what}");
        }
        rig.end().await;
    }
}
