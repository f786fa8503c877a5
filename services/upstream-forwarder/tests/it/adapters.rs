//! What every provider's adapter must do, and what the sample one shows: signed requests, a binary framing (DIAL-3, CASES C22).

use bytes::Bytes;
use fake_upstream::{Script, Writes};
use sample_adapter::{CONTENT_TYPE, encode, exception, signature};
use serde_json::{Value, json};
use switchboard_common::error::Reason;
use switchboard_proto::{
    billing::v1::Ending,
    common::v1::UsageSource,
    scheduler::v1::{Blame, Candidate},
};

use crate::rig::{Answer, Rig, chat, config};

/// A provider's wire, as far as the contract needs it.
struct Provider {
    name: &'static str,
    secret: &'static str,
    /// What streams these chunks of `openai.chat`.
    stream: fn(&[Value]) -> Bytes,
    content_type: &'static str,
    /// A failure inside a stream, as the provider says it.
    failure: fn() -> Bytes,
}

fn events(chunks: &[Value]) -> Bytes {
    let text: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    text.into()
}

fn frames(chunks: &[Value]) -> Bytes {
    let frames: Vec<Bytes> = chunks
        .iter()
        .map(|chunk| encode(&chunk.to_string()))
        .collect();
    frames.concat().into()
}

fn openai_failure() -> Bytes {
    Bytes::from_static(
        b"data: {\"error\":{\"message\":\"slow\",\"type\":\"rate_limit_error\",\"code\":\"rate_limit_exceeded\"}}\n\n",
    )
}

fn sample_failure() -> Bytes {
    exception("throttlingException", "slow")
}

const PROVIDERS: [Provider; 3] = [
    Provider {
        name: "openai",
        secret: "sk-openai-secret",
        stream: events,
        content_type: "text/event-stream",
        failure: openai_failure,
    },
    Provider {
        name: "openai_compatible",
        secret: "sk-other-secret",
        stream: events,
        content_type: "text/event-stream",
        failure: openai_failure,
    },
    Provider {
        name: "sample",
        secret: "ID1:sample-signing-key",
        stream: frames,
        content_type: CONTENT_TYPE,
        failure: sample_failure,
    },
];

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "upstream-gpt",
           "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn answer() -> Vec<Value> {
    let mut usage = chunk(&json!({}), None);
    usage["choices"] = json!([]);
    usage["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11});
    vec![
        chunk(&json!({"role": "assistant", "content": ""}), None),
        chunk(&json!({"content": "안녕"}), None),
        chunk(&json!({"content": "!"}), None),
        chunk(&json!({}), Some("stop")),
        usage,
    ]
}

impl Provider {
    async fn rig(&self) -> Rig {
        Rig::with(config(), |state| {
            for candidate in &mut state.candidates {
                let Candidate {
                    provider, account, ..
                } = candidate;
                self.name.clone_into(provider);
                state
                    .secrets
                    .insert(account.clone(), vec![self.secret.to_owned()]);
            }
        })
        .await
    }

    fn script(&self, body: Bytes) -> Script {
        Script::body(200, self.content_type, body)
    }

    async fn streamed(&self, script: Script) -> (Rig, Answer) {
        let rig = self.rig().await;
        rig.upstream.push(script);
        let answer = rig.chat(&chat(true)).await;
        (rig, answer)
    }
}

#[tokio::test]
async fn every_provider_streams_the_same_answer_however_it_is_cut() {
    for provider in &PROVIDERS {
        for writes in [Writes::Glued, Writes::Of(1)] {
            let body = (provider.stream)(&answer());
            let (rig, got) = provider
                .streamed(provider.script(body).writes(writes))
                .await;
            assert_eq!(
                (got.status, &got.failure),
                (200, &None),
                "{}",
                provider.name
            );
            assert_eq!(got.streamed(), "안녕!", "{}", provider.name);
            assert!(
                got.text().ends_with("data: [DONE]\n\n"),
                "{}",
                provider.name
            );
            assert_eq!(got.header("content-type"), Some("text/event-stream"));
            let settled = rig.settlement(&got.id).await;
            assert_eq!(settled.usage_source(), UsageSource::Provider);
            assert_eq!(settled.usage.unwrap().output_tokens, Some(2));
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn a_failure_before_content_moves_on_and_one_after_it_is_told() {
    for provider in &PROVIDERS {
        let first = (provider.stream)(&answer()[..1]);
        let failed = [first, (provider.failure)()].concat();
        let rig = provider.rig().await;
        rig.upstream.push(provider.script(failed.into()));
        rig.upstream
            .push(provider.script((provider.stream)(&answer())));
        let got = rig.chat(&chat(true)).await;
        assert_eq!(got.streamed(), "안녕!", "{}", provider.name);
        let settled = rig.settlement(&got.id).await;
        let attempts: Vec<&str> = settled.attempts.iter().map(|a| &*a.error).collect();
        assert_eq!(attempts, ["rate_limited", ""], "{}", provider.name);
        let blamed = rig.world.state().advanced[0]
            .failed
            .as_ref()
            .unwrap()
            .blame();
        assert_eq!(blamed, Blame::Model, "{}", provider.name);
        rig.end().await;

        let begun = (provider.stream)(&answer()[..2]);
        let failed = [begun, (provider.failure)()].concat();
        let (rig, got) = provider.streamed(provider.script(failed.into())).await;
        assert_eq!(got.streamed(), "안녕", "{}", provider.name);
        assert!(!got.text().contains("[DONE]"), "{}", provider.name);
        let reason = got.failure.as_ref().map(|failure| failure.reason);
        assert_eq!(reason, Some(Reason::RateLimitExceeded), "{}", provider.name);
        let settled = rig.settlement(&got.id).await;
        assert_eq!(settled.ending(), Ending::UpstreamBroke, "{}", provider.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_cut_not_complete() {
    for provider in &PROVIDERS {
        let whole = (provider.stream)(&answer()[..3]);
        for end in [whole.len(), whole.len() - 3] {
            let (rig, got) = provider.streamed(provider.script(whole.slice(..end))).await;
            assert!(got.failure.is_some(), "{}", provider.name);
            assert!(!got.text().contains("[DONE]"), "{}", provider.name);
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn no_providers_secret_reaches_the_caller() {
    for provider in &PROVIDERS {
        let rig = provider.rig().await;
        rig.upstream.push(
            Script::error(400, "invalid_request_error", None, provider.secret)
                .header("x-request-id", provider.secret),
        );
        let got = rig.chat(&chat(false)).await;
        assert_eq!(got.status, 400, "{}", provider.name);
        assert!(!got.text().contains(provider.secret), "{}", provider.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_signature_covers_the_body_that_was_sent() {
    let provider = &PROVIDERS[2];
    let rig = provider.rig().await;
    rig.upstream.push(Script::say(["hi"]));
    let got = rig.chat(&chat(false)).await;
    assert_eq!(got.status, 200, "{:?}", got.failure);
    let log = rig.upstream.log();
    let sent = &log.requests[0];
    let header = |name: &str| sent.header(name).unwrap_or_default().to_owned();
    let now = header("x-sample-date").parse().unwrap();
    let signed = signature("sample-signing-key", &sent.path, now, &sent.body);
    assert_eq!(
        header("authorization"),
        format!("SAMPLE-HMAC-SHA256 Credential=ID1, Signature={signed}")
    );
    assert_eq!(sent.json()["model"], "upstream-gpt");
    rig.end().await;
}
