//! What an upstream may do wrong, and who answers then.

use bytes::Bytes;
use fake_upstream::Script;
use serde_json::json;
use switchboard_common::error::Reason;
use switchboard_proto::{
    billing::v1::Ending,
    common::v1::{TargetRule, UsageSource},
    scheduler::v1::{Blame, FailureKind, RateLimitState},
};

use crate::{
    peers::State,
    rig::{KEY, Rig, SECOND, SECRET, chat, config},
};

fn error(status: u16) -> Script {
    Script::error(status, "server_error", None, "went wrong")
}

/// The first account does this; the second one answers, and only that is charged.
async fn fails_over(name: &str, script: Script, stream: bool, kind: &str) {
    let rig = Rig::start().await;
    rig.upstream.push_on_key(SECRET, script);
    let answer = rig.chat(&chat(stream)).await;
    assert_eq!(answer.failure, None, "{name}");
    assert_eq!(answer.status, 200, "{name}");
    if stream {
        assert!(
            answer.text().ends_with("data: [DONE]\n\n"),
            "{name}: {}",
            answer.text()
        );
        assert_eq!(
            answer.text().matches("\"role\"").count(),
            1,
            "{name}: one clean stream"
        );
    } else {
        assert_eq!(answer.json()["model"], "text", "{name}");
    }
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.ending(), Ending::Complete, "{name}");
    let attempts: Vec<_> = settlement
        .attempts
        .iter()
        .map(|a| (a.account.as_str(), a.error.as_str()))
        .collect();
    assert_eq!(attempts, [("one", kind), ("two", "")], "{name}");
    assert_eq!(settlement.usage, settlement.attempts[1].usage, "{name}");
    assert_eq!(rig.world.state().advanced.len(), 1, "{name}");
    rig.end().await;
}

#[tokio::test]
async fn a_tenants_own_choice_of_accounts_goes_along() {
    let rule = |account: &str| TargetRule {
        pin: vec![account.to_owned()],
        weights: [(account.to_owned(), 7)].into(),
        ..TargetRule::default()
    };
    let rig = Rig::with(config(), |state| {
        let caller = state.principals.get_mut(KEY).unwrap();
        caller.routes = [
            ("text".to_owned(), rule("two")),
            ("other".to_owned(), rule("one")),
        ]
        .into();
    })
    .await;
    rig.upstream.push_on_key(SECRET, error(500));
    assert_eq!(rig.chat(&chat(false)).await.status, 200);
    let (acquired, advanced) = {
        let state = rig.world.state();
        (
            state.acquired[0].route.clone(),
            state.advanced[0].route.clone(),
        )
    };
    assert_eq!(acquired, Some(rule("two")));
    assert_eq!(advanced, acquired);
    rig.end().await;
}

#[tokio::test]
async fn what_fails_before_content_is_answered_by_the_next_account() {
    for (name, script, kind) in [
        ("401", error(401), "credential"),
        ("402", error(402), "quota"),
        ("403", error(403), "credential"),
        ("408", error(408), "timeout"),
        ("429", Script::rate_limited(None), "rate_limited"),
        ("500", error(500), "server"),
        ("503", error(503), "overloaded"),
        ("page", Script::html(502), "server"),
        (
            "redirect",
            Script::body(302, "text/plain", "x").header("location", "http://127.0.0.1:1/"),
            "unexpected",
        ),
        ("reset", Script::reset(), "network"),
        ("close", Script::close(), "network"),
        ("empty", Script::body(200, "application/json", ""), "empty"),
        (
            "no json",
            Script::body(200, "application/json", "{\"a\":"),
            "malformed",
        ),
        (
            "no choices",
            Script::json(200, &json!({"id": "x"})),
            "malformed",
        ),
        (
            "error in a 200",
            Script::error(200, "server_error", Some("502"), "x"),
            "server",
        ),
        (
            "cut in the body",
            Script::say(["hello"]).reset_after(1),
            "cut",
        ),
    ] {
        fails_over(name, script, false, kind).await;
    }
}

#[tokio::test]
async fn a_stream_that_fails_before_content_is_answered_by_the_next_account() {
    let role =
        r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}"#;
    let failed =
        r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;
    for (name, script, kind) in [
        ("500", error(500), "server"),
        (
            "error first",
            Script::error_event("server_error", None, "x"),
            "server",
        ),
        (
            "error after the role",
            Script::events([role, failed]),
            "rate_limited",
        ),
        ("nothing", Script::event_bytes(Bytes::new()), "empty"),
        ("done at once", Script::events(["[DONE]"]), "empty"),
        (
            "ends after the role",
            Script::say(["a"]).end_after(0),
            "cut",
        ),
        (
            "reset after the role",
            Script::say(["a"]).reset_after(0),
            "cut",
        ),
    ] {
        fails_over(name, script, true, kind).await;
    }
}

#[tokio::test]
async fn what_fails_after_content_ends_in_an_error_and_is_charged_as_far_as_it_came() {
    for (name, script) in [
        ("reset", Script::say(["hello ", "world"]).reset_after(1)),
        ("close", Script::say(["hello ", "world"]).close_after(1)),
        ("clean end", Script::say(["hello ", "world"]).end_after(1)),
        (
            "error event",
            Script::say(["hello ", "world"]).error_after(1, "server_error", None, "x"),
        ),
    ] {
        let rig = Rig::start().await;
        rig.upstream.push(script);
        let answer = rig.chat(&chat(true)).await;
        assert_eq!(
            answer.failure.as_ref().map(|f| f.reason),
            Some(Reason::UpstreamFailed),
            "{name}"
        );
        assert_eq!(answer.streamed(), "hello ", "{name}");
        assert!(!answer.text().contains("[DONE]"), "{name}");
        assert!(!answer.ended, "{name}");
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.ending(), Ending::UpstreamBroke, "{name}");
        assert_eq!(settlement.error_code, "upstream_failed", "{name}");
        assert_eq!(settlement.usage_source(), UsageSource::Estimated, "{name}");
        let usage = settlement.usage.unwrap();
        assert!(usage.input_tokens.unwrap() > 0, "{name}");
        assert!((1..=2).contains(&usage.output_tokens.unwrap()), "{name}");
        assert_eq!(rig.upstream.log().total, 1, "{name}: never a second try");
        rig.end().await;
    }
}

#[tokio::test]
async fn the_callers_own_mistake_comes_back_as_it_is_after_one_call() {
    for (status, code) in [
        (400, "invalid_request"),
        (404, "not_found"),
        (413, "body_too_large"),
        (422, "invalid_request"),
        (424, "invalid_request"),
    ] {
        let rig = Rig::start().await;
        rig.upstream.push(Script::error(
            status,
            "invalid_request_error",
            Some("their_code"),
            "too hot",
        ));
        let answer = rig.chat(&chat(true)).await;
        assert_eq!(answer.failure, None, "{status}");
        assert_eq!(
            (answer.status, answer.event_stream),
            (u32::from(status), false)
        );
        assert_eq!(answer.json()["error"]["code"], "their_code");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(rig.upstream.log().total, 1);
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.ending(), Ending::Failed);
        assert_eq!(
            (settlement.status, settlement.error_code.as_str()),
            (u32::from(status), code)
        );
        assert!(settlement.charge_nothing);
        let release = rig.world.change(|state| state.released[0].1.clone());
        let outcome = release.outcome.unwrap();
        assert_eq!(
            (outcome.blame(), outcome.failure()),
            (Blame::Request, FailureKind::Request)
        );
        rig.end().await;
    }
}

#[tokio::test]
async fn a_content_policy_refusal_is_not_carried_through_the_accounts() {
    let rig = Rig::start().await;
    rig.upstream.push(Script::error(
        403,
        "x",
        Some("content_policy_violation"),
        "no",
    ));
    let answer = rig.chat(&chat(false)).await;
    assert_eq!((answer.failure, answer.status), (None, 403));
    assert_eq!(rig.upstream.log().total, 1);
    rig.end().await;
}

#[tokio::test]
async fn when_none_is_left_the_error_says_whose_fault_it_is() {
    for (script, reason, status) in [
        (error(401), Reason::UpstreamCredentialsExhausted, 503),
        (error(402), Reason::UpstreamCredentialsExhausted, 503),
        (error(500), Reason::UpstreamFailed, 502),
        (error(504), Reason::UpstreamTimeout, 504),
        (
            Script::rate_limited(Some(60)),
            Reason::RateLimitExceeded,
            429,
        ),
    ] {
        let rig = Rig::with(config(), |state| {
            state.rate_limits = vec![RateLimitState {
                unit: "requests".to_owned(),
                level: "key".to_owned(),
                limit: 60,
                remaining: 4,
                reset_ms: 1_500,
            }];
        })
        .await;
        rig.upstream.default(script);
        let answer = rig.chat(&chat(true)).await;
        let failure = answer.failure.unwrap();
        assert_eq!(failure.reason, reason);
        let limits: Vec<_> = failure
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            limits,
            [
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "4"),
                ("x-ratelimit-reset-requests", "1.5s"),
            ]
        );
        assert!(!failure.message.contains("one") || !failure.message.contains(SECRET));
        if reason == Reason::RateLimitExceeded {
            assert_eq!(failure.retry_after_secs(), Some(60));
        }
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.ending(), Ending::Failed);
        assert_eq!(settlement.status, status);
        assert!(settlement.charge_nothing);
        assert_eq!(settlement.usage, None);
        assert_eq!(settlement.attempts.len(), 2);
        rig.end().await;
    }
}

#[tokio::test]
async fn when_to_come_back_is_the_first_time_that_any_account_named() {
    for (first, second) in [(10, 60), (60, 10)] {
        let rig = Rig::start().await;
        rig.upstream
            .push_on_key(SECRET, Script::rate_limited(Some(first)));
        rig.upstream
            .push_on_key(SECOND, Script::rate_limited(Some(second)));
        let failure = rig.chat(&chat(false)).await.failure.unwrap();
        assert_eq!(failure.reason, Reason::RateLimitExceeded);
        assert_eq!(failure.retry_after_secs(), Some(10), "{first} {second}");
        rig.end().await;
    }
}

#[tokio::test]
async fn accounts_that_fail_in_different_ways_are_told_the_same_in_either_order() {
    let limited = || Script::rate_limited(Some(60));
    for (one, two, reason, after) in [
        // Of an account that is limited for long and one that broke, the break is told.
        (limited(), error(500), Reason::UpstreamFailed, None),
        (error(401), error(500), Reason::UpstreamFailed, None),
        (error(402), error(504), Reason::UpstreamTimeout, None),
        (error(401), limited(), Reason::RateLimitExceeded, Some(60)),
    ] {
        for keys in [[SECRET, SECOND], [SECOND, SECRET]] {
            let rig = Rig::start().await;
            rig.upstream.on_key(keys[0], one.clone());
            rig.upstream.on_key(keys[1], two.clone());
            let failure = rig.chat(&chat(false)).await.failure.unwrap();
            assert_eq!(
                (failure.reason, failure.retry_after_secs()),
                (reason, after),
                "{keys:?}"
            );
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn a_429_at_the_last_account_is_waited_out_on_its_slot() {
    let rig = Rig::with(config(), |state| state.candidates.truncate(1)).await;
    rig.upstream.push(Script::rate_limited(Some(0)));
    rig.upstream.push(Script::rate_limited(Some(0)));
    let answer = rig.chat(&chat(false)).await;
    assert_eq!((answer.failure, answer.status), (None, 200));
    assert_eq!(rig.upstream.log().total, 3);
    assert_eq!(rig.settlement(&answer.id).await.attempts.len(), 3);
    assert!(rig.world.state().advanced.is_empty());
    rig.end().await;
}

#[tokio::test]
async fn a_credential_out_of_date_is_renewed_once_and_tried_on_the_same_account() {
    let renewed = "sk-upstream-renewed";
    let rig = Rig::with(config(), |state| {
        let secrets = vec![SECRET.to_owned(), renewed.to_owned()];
        state.secrets.insert("one".to_owned(), secrets);
    })
    .await;
    rig.upstream.on_key(SECRET, error(401));
    for _ in 0..2 {
        let answer = rig.chat(&chat(false)).await;
        assert_eq!((answer.failure, answer.status), (None, 200));
    }
    let log = rig.upstream.log();
    assert_eq!(log.of_key(SECRET).count(), 1);
    assert_eq!(log.of_key(renewed).count(), 2);
    assert_eq!(log.of_key(SECOND).count(), 0);
    assert_eq!(rig.world.state().asked_secrets, 2);
    rig.end().await;
}

#[tokio::test]
async fn retries_are_bounded_by_the_model_and_by_the_budget() {
    let rig = Rig::with(config(), |_| ()).await;
    rig.world.catalogue.send_modify(|catalogue| {
        catalogue.version = 4;
        catalogue.models[0].max_attempts = 1;
    });
    let mut versions = rig.component.catalogue_versions();
    versions.wait_for(|version| *version == 4).await.unwrap();
    rig.upstream.default(error(500));
    assert!(rig.chat(&chat(false)).await.failure.is_some());
    assert_eq!(rig.upstream.log().total, 1);
    rig.end().await;

    let mut config = config();
    config.retries_in_hand = 1;
    config.retry_share = 0;
    let rig = Rig::with(config, |_| ()).await;
    rig.upstream.default(error(500));
    for _ in 0..3 {
        assert!(rig.chat(&chat(false)).await.failure.is_some());
    }
    assert_eq!(rig.upstream.log().total, 4);
    rig.end().await;
}

#[tokio::test]
async fn an_answer_that_had_its_finish_reason_is_whole_even_if_its_connection_breaks() {
    let end =
        r#"{"id":"a","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}"#;
    let sse = format!("data: {end}\n\n");
    let cut = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{sse}\r\n",
        sse.len()
    );
    let rig = Rig::start().await;
    rig.upstream.push(Script::raw(cut));
    let answer = rig.chat(&chat(true)).await;
    assert_eq!(answer.failure, None);
    assert_eq!(answer.streamed(), "hello");
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.ending(), Ending::Complete);
    assert_eq!(settlement.usage_source(), UsageSource::Estimated);
    rig.end().await;
}

/// What an upstream does that closes idle connections, each time one is used again at that moment.
#[tokio::test]
async fn a_connection_that_is_closed_just_when_it_is_used_is_no_failed_request() {
    for (stream, script) in [
        (false, Script::close as fn() -> Script),
        (true, Script::close),
        (false, Script::reset),
        (true, Script::reset),
    ] {
        let rig = Rig::with(config(), |state| state.candidates.truncate(1)).await;
        assert_eq!(rig.chat(&chat(stream)).await.status, 200);
        rig.upstream.push(script());
        let answer = rig.chat(&chat(stream)).await;
        assert_eq!((answer.status, answer.ended), (200, true), "{answer:?}");
        let settlement = rig.settlement(&answer.id).await;
        let attempts = settlement.attempts.iter();
        let attempts: Vec<_> = attempts.map(|it| (it.error.as_str(), it.sent)).collect();
        assert_eq!(attempts, [("network", true), ("", true)]);
        assert_eq!(settlement.ending(), Ending::Complete);

        // The second go is over a new connection: whoever closes that has failed.
        (0..2).for_each(|_| rig.upstream.push(script()));
        let failure = rig.chat(&chat(stream)).await.failure.unwrap();
        assert_eq!(failure.reason, Reason::UpstreamFailed);
        assert_eq!(rig.upstream.log().requests.len(), 5);
        let blame = |state: &State| {
            let last = state.released.last().unwrap();
            last.1.outcome.as_ref().unwrap().blame()
        };
        let told = |state: &State| state.released.len() == 3;
        rig.world.until("its release", told).await;
        assert_eq!(blame(&rig.world.state()), Blame::Host);
        rig.end().await;
    }
    // Where another account is left it is asked, and nobody is blamed.
    let rig = Rig::start().await;
    assert_eq!(rig.chat(&chat(false)).await.status, 200);
    rig.upstream.push(Script::close());
    assert_eq!(rig.chat(&chat(false)).await.status, 200);
    let advanced = rig.world.state().advanced.clone();
    let failed = advanced[0].failed.as_ref().unwrap();
    assert_eq!(
        (failed.account.as_str(), failed.blame()),
        ("one", Blame::Nobody)
    );
    rig.end().await;
}

/// What HTTP allows, and what it does not, in place of an answer.
#[tokio::test]
async fn http_that_is_no_answer_is_answered_by_the_next_account() {
    let news = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(2_000);
    let huge = format!("HTTP/1.1 200 OK\r\nx-huge: {}\r\n\r\n", "a".repeat(1 << 20));
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    for (what, said, kind) in [
        (
            "an upgrade",
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\ndata: {}\n\n".to_owned(),
            "unexpected",
        ),
        ("no content", "HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "empty"),
        (
            "not modified",
            "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(),
            "unexpected",
        ),
        (
            "a status that is none",
            "HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "unexpected",
        ),
        (
            "HTTP/1.0 that says nothing",
            "HTTP/1.0 200 OK\r\n\r\n".to_owned(),
            "empty",
        ),
        ("news for ever", news, "network"),
        ("a huge head", huge, "network"),
        (
            "less than promised",
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":".to_owned(),
            "cut",
        ),
        (
            "chunks of no size",
            format!("{events}transfer-encoding: chunked\r\n\r\nxyz\r\n"),
            "cut",
        ),
        (
            "chunks without an end",
            format!("{events}transfer-encoding: chunked\r\n\r\n1\r\n:\r\n"),
            "cut",
        ),
    ] {
        for stream in [false, true] {
            let name = format!("{what}, stream {stream}");
            fails_over(&name, Script::raw(said.clone()), stream, kind).await;
        }
    }
}
