//! Whole and streamed answers, as the upstream gave them but for what must change.

use bytes::Bytes;
use fake_upstream::{Framing, Script, Usage, UsageShape};
use serde_json::{Value, json};
use switchboard_proto::{
    billing::v1::Ending,
    common::v1::{Dialect, UsageSource},
    inference::v1::Header,
    scheduler::v1::RateLimitState,
};

use crate::rig::{KEY, Rig, SECRET, chat, config};

#[tokio::test]
async fn a_whole_answer_passes_with_the_public_name_and_is_settled_by_its_usage() {
    let rig = Rig::with(config(), |state| {
        let limit = |level: &str, remaining| RateLimitState {
            unit: "requests".to_owned(),
            level: level.to_owned(),
            limit: 60,
            remaining,
            reset_ms: 1_500,
        };
        state.rate_limits = vec![limit("user", 9), limit("key", 4)];
    })
    .await;
    rig.upstream
        .push(Script::say(["hello ", "world"]).usage(Usage {
            prompt: 100,
            completion: 20,
            cached: Some(40),
            cache_write: None,
            reasoning: Some(5),
        }));
    let mut head = rig.head(Dialect::OpenaiChat);
    head.tags = "team=a".to_owned();
    head.client_request_id = "mine".to_owned();
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(answer.failure, None);
    assert_eq!(
        (answer.status, answer.event_stream, answer.ended),
        (200, false, true)
    );
    assert_eq!(answer.frames, 1);
    let body = answer.json();
    assert_eq!(body["model"], "text");
    assert_eq!(body["choices"][0]["message"]["content"], "hello world");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-switchboard-model"), Some("text"));
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("4"));
    assert_eq!(answer.header("x-ratelimit-reset-requests"), Some("1.5s"));

    let log = rig.upstream.log();
    let sent = &log.requests[0];
    let mut expected = chat(false);
    expected["model"] = "upstream-gpt".into();
    assert_eq!(sent.json(), expected);
    assert_eq!(sent.key.as_deref(), Some(SECRET));

    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.ending(), Ending::Complete);
    assert_eq!(
        (settlement.status, settlement.error_code.as_str()),
        (200, "")
    );
    let usage = settlement.usage.unwrap();
    assert_eq!(usage.input_tokens, Some(60));
    assert_eq!(usage.cached_input_tokens, Some(40));
    assert_eq!(
        (usage.output_tokens, usage.reasoning_tokens),
        (Some(20), Some(5))
    );
    assert_eq!(settlement.usage_source(), UsageSource::Provider);
    assert!(settlement.usage_raw.contains("prompt_tokens"));
    assert_eq!(settlement.price_version, 5);
    assert_eq!(settlement.catalogue_version, 3);
    assert_eq!(settlement.decision_json, r#"{"policy":"fake"}"#);
    assert_eq!(settlement.tags, "team=a");
    assert_eq!(settlement.client_request_id, "mine");
    assert_eq!(settlement.party.as_ref().unwrap().tenant, "acme");
    assert_eq!(settlement.fingerprint.len(), 16);
    assert!(!settlement.provisional);
    let attempt = &settlement.attempts[0];
    assert_eq!(
        (attempt.account.as_str(), attempt.status, attempt.sent),
        ("one", 200, true)
    );
    assert_eq!((attempt.cost_version, attempt.usage), (7, settlement.usage));
    assert_eq!(rig.world.state().released.len(), 1);
    rig.end().await;
}

#[tokio::test]
async fn a_stream_passes_event_by_event_without_the_usage_that_nobody_asked_for() {
    let rig = Rig::start().await;
    rig.upstream
        .push(Script::say(["one ", "two ", "three"]).prompt_tokens(11));
    let answer = rig.chat(&chat(true)).await;
    assert_eq!(answer.failure, None);
    assert_eq!(
        (answer.status, answer.event_stream, answer.ended),
        (200, true, true)
    );
    assert_eq!(answer.streamed(), "one two three");
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert!(!answer.text().contains("usage"));
    assert!(!answer.text().contains("upstream-gpt"));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let log = rig.upstream.log();
    let sent = log.requests[0].json();
    assert_eq!(sent["stream_options"], json!({"include_usage": true}));
    let settlement = rig.settlement(&answer.id).await;
    let usage = settlement.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(11), Some(3))
    );
    assert_eq!(settlement.ending(), Ending::Complete);
    assert!(settlement.stream);
    rig.end().await;
}

#[tokio::test]
async fn a_stream_is_the_same_however_its_bytes_arrive() {
    let rig = Rig::start().await;
    let words = ["안녕하세요 ", "wörld ", "🙂"];
    let framings = [
        Framing::default(),
        Framing {
            line_end: "\r\n",
            ..Framing::default()
        },
        Framing {
            line_end: "\r",
            space: false,
            ..Framing::default()
        },
        Framing {
            comments: true,
            bom: true,
            extra_fields: true,
            last_blank_line: false,
            ..Framing::default()
        },
    ];
    let mut seen = Vec::new();
    for framing in framings {
        let script = Script::say(words).answers_as("text").framing(framing);
        rig.upstream.push(script.clone());
        rig.upstream.push(script.one_byte_writes());
        for _ in 0..2 {
            let answer = rig.chat(&chat(true)).await;
            assert_eq!(answer.failure, None);
            assert_eq!(answer.streamed(), words.concat());
            assert!(answer.text().ends_with("data: [DONE]\n\n"));
            assert!(!answer.text().contains('\r'));
            seen.push(answer.text().matches("data: ").count());
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "the same events each time");
    rig.end().await;
}

#[tokio::test]
async fn an_answer_without_usage_is_counted_and_flagged() {
    let rig = Rig::start().await;
    for stream in [false, true] {
        rig.upstream
            .push(Script::say(["hello world ", "hello world"]).usage_shape(UsageShape::Absent));
        let answer = rig.chat(&chat(stream)).await;
        assert_eq!(answer.failure, None);
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.usage_source(), UsageSource::Estimated);
        let usage = settlement.usage.unwrap();
        assert_eq!(usage.output_tokens, Some(4), "stream {stream}");
        assert!(usage.input_tokens.unwrap() >= 2);
        assert_eq!(settlement.attempts[0].usage, settlement.usage);
    }
    rig.end().await;
}

#[tokio::test]
async fn compressed_answers_are_decoded_whole_streamed_and_as_errors() {
    let rig = Rig::start().await;
    rig.upstream.push(Script::say(["hello"]).gzip());
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "hello");
    assert_eq!(answer.header("content-encoding"), None);
    rig.upstream.push(Script::say(["hello ", "again"]).gzip());
    assert_eq!(rig.chat(&chat(true)).await.streamed(), "hello again");
    let message = "too hot";
    rig.upstream
        .push(Script::error(400, "invalid_request_error", None, message).gzip());
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["message"]),
        (400, &Value::from(message))
    );
    rig.end().await;
}

#[tokio::test]
async fn nothing_of_the_caller_reaches_the_upstream_and_nothing_of_the_account_comes_back() {
    let rig = Rig::start().await;
    let script = Script::say(["hi"])
        .header("set-cookie", "a=b")
        .header("x-ratelimit-remaining-requests", "7")
        .header("openai-organization", "org-of-account")
        .header("openai-processing-ms", "12");
    rig.upstream.push(script);
    let mut head = rig.head(Dialect::OpenaiChat);
    for name in [
        "authorization",
        "x-api-key",
        "cookie",
        "x-internal-secret",
        "openai-organization",
        "openai-beta",
    ] {
        head.headers.push(Header {
            name: name.to_owned(),
            value: Bytes::from_static(b"canary"),
        });
    }
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(answer.header("set-cookie"), None);
    assert_eq!(answer.header("openai-organization"), None);
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), None);
    assert_eq!(answer.header("openai-processing-ms"), Some("12"));
    let log = rig.upstream.log();
    let sent = &log.requests[0];
    let canaries: Vec<_> = sent
        .headers
        .iter()
        .filter(|(_, value)| value.as_bytes() == b"canary")
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(canaries, ["openai-beta"]);
    let all = format!("{:?} {:?}", sent.headers, sent.body);
    assert!(!all.contains(KEY));
    rig.end().await;
}

#[tokio::test]
async fn unknown_fields_pass_untouched_and_a_cap_of_the_hold_is_set_and_told() {
    let rig = Rig::with(config(), |state| state.hold.output_cap = Some(300)).await;
    rig.upstream.push(Script::say(["hi"]));
    let body = r#"{ "x_new": {"a": 1.50, "b": null}, "model":"text", "messages":[{"role":"user","content":"x"}], "temperature": 0, "max_completion_tokens": 900 }"#;
    let answer = rig.relay(rig.head(Dialect::OpenaiChat), body.into()).await;
    assert_eq!(answer.header("x-switchboard-output-capped"), Some("300"));
    let expected = body
        .replace("\"text\"", "\"upstream-gpt\"")
        .replace("900", "300");
    assert_eq!(rig.upstream.log().requests[0].body, expected.as_bytes());
    assert_eq!(rig.settlement(&answer.id).await.output_cap, 300);
    rig.end().await;
}

#[tokio::test]
async fn embeddings_are_answered_and_pay_for_input_alone() {
    let rig = Rig::with(config(), |state| {
        for candidate in &mut state.candidates {
            candidate.url = candidate.url.replace("chat/completions", "embeddings");
        }
    })
    .await;
    let body = json!({"model": "embed", "input": ["one", "two"]});
    let answer = rig
        .relay(rig.head(Dialect::OpenaiEmbeddings), body.to_string().into())
        .await;
    assert_eq!(answer.failure, None);
    assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2);
    assert_eq!(answer.json()["model"], "embed");
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.usage_source(), UsageSource::Provider);
    assert!(settlement.usage.unwrap().input_tokens.unwrap() > 0);
    assert!(rig.world.state().reserved[0].no_output);
    rig.end().await;
}

#[tokio::test]
async fn the_models_of_a_key_are_listed_and_never_billed() {
    let rig = Rig::start().await;
    let answer = rig
        .relay(rig.head(Dialect::OpenaiModels), Bytes::new())
        .await;
    let list = answer.json();
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["text", "embed"]);
    let mut one = rig.head(Dialect::OpenaiModels);
    one.resource = "text".to_owned();
    assert_eq!(rig.relay(one, Bytes::new()).await.json()["object"], "model");
    let mut hidden = rig.head(Dialect::OpenaiModels);
    hidden.resource = "other".to_owned();
    let answer = rig.relay(hidden, Bytes::new()).await;
    assert_eq!(
        answer.failure.unwrap().reason,
        switchboard_common::error::Reason::ModelNotFound
    );
    assert!(rig.world.state().reserved.is_empty());
    rig.end().await;
}

#[tokio::test]
async fn a_target_that_cannot_stream_serves_a_streaming_caller() {
    let rig = Rig::start().await;
    let whole = json!({
        "id": "c1", "object": "chat.completion", "created": 1, "model": "upstream-gpt",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "all at once"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    });
    rig.upstream.push(Script::json(200, &whole));
    let answer = rig.chat(&chat(true)).await;
    assert_eq!(answer.failure, None);
    assert_eq!(answer.streamed(), "all at once");
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let usage = rig.settlement(&answer.id).await.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(3), Some(4))
    );
    rig.end().await;
}
