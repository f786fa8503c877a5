//! What must hold in every dialect: failures are moved on from, errors keep their form, bytes survive, secrets stay where
//! they belong (SPEC FWD-1 to FWD-13, ERR-1).

use async_compression::tokio::write::{
    BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
};
use bytes::Bytes;
use fake_upstream::{Gate, Script};
use serde_json::Value;
use switchboard_common::error::Reason;
use switchboard_proto::{billing::v1::Ending, inference::v1::Header};
use tokio::io::AsyncWriteExt as _;

use crate::{
    dialects::{SAID, Spoken, Vendor, all, streaming},
    rig::{KEY, Rig, SECRET, collect},
};

async fn coded(coding: &str, text: &[u8]) -> Vec<u8> {
    macro_rules! with {
        ($encoder:ident) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all(text).await.unwrap();
            encoder.shutdown().await.unwrap();
            encoder.into_inner()
        }};
    }
    match coding {
        "gzip" => with!(GzipEncoder),
        "deflate" => with!(ZlibEncoder),
        "bare deflate" => with!(DeflateEncoder),
        "br" => with!(BrotliEncoder),
        _ => with!(ZstdEncoder),
    }
}

/// How many calls the upstream got for what `ask` does.
async fn calls<T>(rig: &Rig, ask: impl Future<Output = T>) -> (T, usize) {
    let before = rig.upstream.log().requests.len();
    let done = ask.await;
    (done, rig.upstream.log().requests.len() - before)
}

/// The first account does this, the second one answers the same call, and nothing of the first is seen.
async fn moves_on(rig: &Rig, spoken: &Spoken, stream: bool, what: &str, script: Script) {
    let what = format!("{} {what}, stream {stream}", spoken.name);
    rig.upstream.push_on_key(SECRET, script);
    rig.upstream.push(spoken.good(stream));
    let answer = spoken.ask(rig, stream).await;
    assert_eq!(
        (answer.failure.clone(), answer.status),
        (None, 200),
        "{what}"
    );
    let expected = spoken.answer(stream).replace("upstream-gpt", "text");
    assert_eq!(answer.text(), expected, "{what}");
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.ending(), Ending::Complete, "{what}");
    let accounts: Vec<_> = settlement
        .attempts
        .iter()
        .map(|attempt| attempt.account.as_str())
        .collect();
    assert_eq!(accounts, ["one", "two"], "{what}");
}

#[tokio::test]
async fn what_fails_before_content_is_answered_by_another_account() {
    for spoken in all() {
        let rig = spoken.rig().await;
        let vendor = spoken.vendor;
        for &stream in spoken.ways() {
            let kind = if stream {
                "text/event-stream"
            } else {
                "application/json"
            };
            for (what, script) in [
                ("503", Script::json(503, &vendor.error(503, "busy"))),
                ("429", Script::rate_limited(Some(60))),
                ("529", Script::json(529, &vendor.error(529, "busy"))),
                ("page", Script::html(200)),
                (
                    "error in a 200",
                    Script::json(200, &vendor.error(500, "busy")),
                ),
                ("empty", Script::body(200, kind, "")),
                ("reset", Script::reset()),
                (
                    "unknown coding",
                    Script::body(200, kind, "x").header("content-encoding", "lzma"),
                ),
            ] {
                moves_on(&rig, &spoken, stream, what, script).await;
            }
            for coding in ["gzip", "deflate", "br", "zstd"] {
                let whole = coded(coding, spoken.answer(stream).as_bytes()).await;
                for end in [0, whole.len() / 2] {
                    let cut = Script::body(200, kind, whole[..end].to_vec());
                    let cut = cut.header("content-encoding", coding);
                    moves_on(&rig, &spoken, stream, &format!("cut {coding}"), cut).await;
                }
            }
        }
        if let Some([begun, ..]) = &spoken.stream {
            for (what, events) in [
                ("error first", vendor.event(500, "busy")),
                (
                    "error after its beginning",
                    begun.clone() + &vendor.event(503, "busy"),
                ),
                ("OpenAI's error", Vendor::OpenAi.event(500, "busy")),
                ("cut after its beginning", begun.clone()),
            ] {
                moves_on(&rig, &spoken, true, what, Script::event_bytes(events)).await;
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_content_never_looks_whole() {
    for spoken in streaming() {
        let rig = spoken.rig().await;
        let [begun, said, end] = spoken.stream.clone().unwrap();
        let so_far = begun.clone() + &said;
        let mut garbled = said.clone().into_bytes();
        garbled.insert(said.rfind('{').unwrap() + 2, 0xff);
        let garbled = [so_far.as_bytes(), &garbled, end.as_bytes()].concat();
        for (what, script) in [
            ("ends", Script::event_bytes(so_far.clone())),
            (
                "resets",
                Script::event_bytes(so_far.clone() + &end).reset_at_byte(so_far.len()),
            ),
            (
                "says so",
                Script::event_bytes(so_far.clone() + &spoken.vendor.event(500, "busy")),
            ),
            ("is no text", Script::event_bytes(garbled)),
        ] {
            let what = format!("{} {what}", spoken.name);
            rig.upstream.push(script);
            let answer = spoken.ask(&rig, true).await;
            let reason = answer.failure.as_ref().map(|failure| failure.reason);
            assert_eq!(reason, Some(Reason::UpstreamFailed), "{what}");
            assert!(!answer.ended, "{what}");
            let text = answer.text();
            assert!(
                text.contains(SAID) && !text.contains(spoken.end),
                "{what}: {text}"
            );
            let settlement = rig.settlement(&answer.id).await;
            assert_eq!(settlement.ending(), Ending::UpstreamBroke, "{what}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_stream_is_the_same_however_its_bytes_arrive() {
    for spoken in streaming() {
        let rig = spoken.rig().await;
        let canonical = spoken.answer(true);
        let expected = canonical.replace("upstream-gpt", "text");
        for bytes in [
            canonical.clone(),
            canonical.replace('\n', "\r\n"),
            canonical.replace('\n', "\r"),
            format!(
                "\u{feff}: hello\n\n{}",
                canonical.replace("data: ", "id: 7\nretry: 1\ndata:")
            ),
        ] {
            for script in [
                Script::event_bytes(bytes.clone()),
                Script::event_bytes(bytes.clone()).one_byte_writes(),
            ] {
                rig.upstream.push(script);
                let answer = spoken.ask(&rig, true).await;
                assert_eq!(answer.failure, None, "{}: {bytes:?}", spoken.name);
                assert_eq!(answer.text(), expected, "{}: {bytes:?}", spoken.name);
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn answers_and_errors_are_decoded_whatever_their_coding() {
    for spoken in all() {
        let rig = spoken.rig().await;
        let error = spoken.vendor.error(400, "too hot").to_string();
        for coding in ["gzip", "deflate", "bare deflate", "br", "zstd"] {
            let named = coding.trim_start_matches("bare ");
            for &stream in spoken.ways() {
                let what = format!("{} {coding}, stream {stream}", spoken.name);
                let kind = if stream {
                    "text/event-stream"
                } else {
                    "application/json"
                };
                let bytes = coded(coding, spoken.answer(stream).as_bytes()).await;
                let good = Script::body(200, kind, bytes).header("content-encoding", named);
                rig.upstream.push(good);
                let answer = spoken.ask(&rig, stream).await;
                let expected = spoken.answer(stream).replace("upstream-gpt", "text");
                assert_eq!(
                    (answer.failure.clone(), answer.text()),
                    (None, &*expected),
                    "{what}"
                );
                let bytes = coded(coding, error.as_bytes()).await;
                let bad = Script::body(400, "application/json", bytes);
                rig.upstream.push(bad.header("content-encoding", named));
                let refused = spoken.ask(&rig, stream).await;
                assert_eq!((refused.status, refused.text()), (400, &*error), "{what}");
                for answer in [answer, refused] {
                    for name in ["content-encoding", "content-length", "transfer-encoding"] {
                        assert_eq!(answer.header(name), None, "{what}");
                    }
                }
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn several_members_and_several_codings_are_one_answer() {
    let spoken = all().remove(0);
    let rig = spoken.rig().await;
    let text = spoken.answer(false);
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    for coding in ["gzip", "zstd"] {
        let members = [coded(coding, first).await, coded(coding, second).await].concat();
        let script = Script::body(200, "application/json", members);
        rig.upstream.push(script.header("content-encoding", coding));
        let answer = spoken.ask(&rig, false).await;
        assert_eq!(
            answer.text(),
            text.replace("upstream-gpt", "text"),
            "{coding}"
        );
    }
    let twice = coded("br", &coded("gzip", text.as_bytes()).await).await;
    let script = Script::body(200, "application/json", twice);
    rig.upstream
        .push(script.header("content-encoding", "identity, gzip, br"));
    let answer = spoken.ask(&rig, false).await;
    assert_eq!(answer.text(), text.replace("upstream-gpt", "text"));
    rig.end().await;
}

/// Wordings of an upstream that the request is too long for (CASES C26).
pub const TOO_LONG: [&str; 6] = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "input tokens exceed the configured limit of 8192 tokens",
    "prompt is too long: 9000 tokens > 8192 maximum",
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "This model's maximum prompt length is 8192 but the request contains 9000 tokens.",
];

/// `context_length_exceeded` in the form of the caller's vendor.
pub fn says_too_long(vendor: Vendor, body: &Value, message: &str, what: &str) {
    let error = &body["error"];
    assert_eq!(error["message"], message, "{what}");
    match vendor {
        Vendor::OpenAi => {
            assert_eq!(error["code"], "context_length_exceeded", "{what}");
            assert_eq!(error["type"], "invalid_request_error", "{what}");
        }
        Vendor::Anthropic => {
            assert_eq!(body["type"], "error", "{what}");
            assert_eq!(error["type"], "invalid_request_error", "{what}");
        }
        Vendor::Google => {
            assert_eq!(error["code"], 400, "{what}");
            assert_eq!(error["status"], "INVALID_ARGUMENT", "{what}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_so_wherever_the_upstream_says_it() {
    for spoken in all() {
        let rig = spoken.rig().await;
        let vendor = spoken.vendor;
        for message in TOO_LONG {
            let said = vendor.error(400, message);
            let mut scripts = vec![
                ("400", false, Script::json(400, &said)),
                ("422", false, Script::json(422, &said)),
                ("200", false, Script::json(200, &said)),
            ];
            if let Some([begun, ..]) = &spoken.stream {
                let events = begun.clone() + &vendor.event(400, message);
                scripts.extend([
                    ("400", true, Script::json(400, &said)),
                    ("200", true, Script::json(200, &said)),
                    ("event", true, Script::event_bytes(events)),
                    ("bare", true, Script::event_bytes(said.to_string())),
                ]);
            }
            for (how, stream, script) in scripts {
                let what = format!("{} {how}, stream {stream}: {message}", spoken.name);
                rig.upstream.push(script);
                let (answer, calls) = calls(&rig, spoken.ask(&rig, stream)).await;
                assert_eq!(
                    (answer.failure.clone(), answer.status),
                    (None, 400),
                    "{what}"
                );
                assert!(!answer.event_stream, "{what}");
                says_too_long(vendor, &answer.json(), message, &what);
                assert_eq!(calls, 1, "{what}");
                let settlement = rig.settlement(&answer.id).await;
                assert_eq!(settlement.error_code, "context_length_exceeded", "{what}");
                assert!(settlement.charge_nothing, "{what}");
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn the_callers_own_mistake_is_one_call_and_keeps_its_status_and_words() {
    for spoken in all() {
        let rig = spoken.rig().await;
        for &stream in spoken.ways() {
            for status in [400, 404, 409, 413, 415, 422, 424] {
                let what = format!("{} {status}, stream {stream}", spoken.name);
                let said = spoken.vendor.error(status, "no");
                rig.upstream.push(Script::json(status, &said));
                let (answer, calls) = calls(&rig, spoken.ask(&rig, stream)).await;
                assert_eq!(answer.failure, None, "{what}");
                assert_eq!(
                    (answer.status, answer.json()),
                    (u32::from(status), said),
                    "{what}"
                );
                assert_eq!(calls, 1, "{what}");
            }
            // What it says cannot be read; that it is the caller's fault can.
            let unread = Script::body(400, "application/json", "x");
            rig.upstream.push(unread.header("content-encoding", "lzma"));
            let (answer, calls) = calls(&rig, spoken.ask(&rig, stream)).await;
            assert_eq!((answer.status, calls), (400, 1), "{}", spoken.name);
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn credentials_of_ours_that_are_refused_are_never_the_callers() {
    for spoken in all() {
        let rig = spoken.rig().await;
        let said = spoken.vendor.error(401, "bad key");
        rig.upstream.default(Script::json(401, &said));
        for &stream in spoken.ways() {
            let answer = spoken.ask(&rig, stream).await;
            let failure = answer.failure.unwrap();
            assert_eq!(
                failure.reason,
                Reason::UpstreamCredentialsExhausted,
                "{}",
                spoken.name
            );
            assert!(!failure.message.contains("bad key"), "{}", spoken.name);
            assert_eq!(rig.settlement(&answer.id).await.status, 503);
        }
        rig.end().await;
    }
}

const SECRETS: [&str; 12] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-litellm-api-key",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "location",
    "openai-organization",
    "x-internal-secret",
    "x-ratelimit-remaining-requests",
];

#[tokio::test]
async fn nobodys_secrets_pass_in_either_direction() {
    for spoken in all() {
        let rig = spoken.rig().await;
        for &stream in spoken.ways() {
            let echoing = |script: Script| {
                SECRETS
                    .iter()
                    .fold(script, |script, name| script.header(name, SECRET))
            };
            let refused = spoken.vendor.error(400, &format!("no, {SECRET}"));
            let redirect = || echoing(Script::body(302, "text/plain", SECRET));
            for (what, script) in [
                ("200", echoing(spoken.good(stream))),
                ("400", echoing(Script::json(400, &refused))),
                ("302", redirect()),
            ] {
                let what = format!("{} {what}, stream {stream}", spoken.name);
                if what.contains("302") {
                    rig.upstream.push(redirect());
                }
                rig.upstream.push(script);
                let mut head = spoken.head(&rig, stream);
                head.headers.extend(SECRETS.map(|name| Header {
                    name: name.to_owned(),
                    value: Bytes::from(format!("Bearer {KEY}")),
                }));
                rig.upstream.clear_log();
                let answer = rig.relay(head, spoken.body(stream)).await;
                let seen = format!("{answer:?} {}", answer.text());
                assert!(!seen.contains(SECRET), "{what}: {seen}");
                let log = rig.upstream.log();
                assert_eq!(
                    log.requests.len(),
                    1 + usize::from(what.contains("302")),
                    "{what}"
                );
                for sent in &log.requests {
                    let all = format!("{:?} {:?}", sent.headers, sent.body);
                    assert!(!all.contains(KEY), "{what}: {all}");
                    assert_eq!(sent.header("x-switchboard-hops"), Some("1"), "{what}");
                }
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn silence_is_bridged_in_the_dialects_own_form_before_an_upstream_answers() {
    for spoken in streaming() {
        let rig = spoken.rig().await;
        rig.world.catalogue.send_modify(|catalogue| {
            catalogue.version = 4;
            catalogue.models[0].commit_after_ms = Some(1);
        });
        let mut versions = rig.component.catalogue_versions();
        versions.wait_for(|version| *version == 4).await.unwrap();
        let gate = Gate::new();
        rig.upstream.push(spoken.good(true).gate(&gate));
        let head = spoken.head(&rig, true);
        let id = head.request_id.clone();
        let mut answers = rig.open(head, spoken.body(true)).await.unwrap();
        let first = answers.message().await.unwrap().unwrap();
        let head = first.head.unwrap();
        assert!(
            (head.status, head.event_stream) == (200, true),
            "{}",
            spoken.name
        );
        assert_eq!(
            &*first.frame,
            spoken.keep_alive.as_bytes(),
            "{}",
            spoken.name
        );
        gate.open();
        let answer = collect(id, answers).await;
        assert_eq!(
            (answer.failure.clone(), answer.ended),
            (None, true),
            "{}",
            spoken.name
        );
        let expected = spoken.answer(true).replace("upstream-gpt", "text");
        assert!(answer.text().ends_with(&expected), "{}", spoken.name);
        rig.end().await;
    }
}
