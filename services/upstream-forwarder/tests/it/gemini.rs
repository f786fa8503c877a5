//! Gemini's dialect on both sides: what passes, what changes, what fails over, what breaks (FWD-1 to FWD-5, DIAL-2, SURF-1).

use bytes::Bytes;
use fake_upstream::{Script, Writes};
use serde_json::{Value, json};
use switchboard_common::error::Reason;
use switchboard_proto::{
    billing::v1::Ending,
    common::v1::{Dialect, Endpoint, UsageSource},
    inference::v1::RelayHead,
    scheduler::v1::AcquireRequest,
};

use crate::rig::{Answer, Rig, SECRET, config};

fn body() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "say something"}]}], "x": 1})
}

fn response(text: &str, finish: Option<&str>) -> String {
    let mut candidate =
        json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": 0});
    let mut usage =
        json!({"promptTokenCount": 20, "cachedContentTokenCount": 15, "totalTokenCount": 20});
    if let Some(reason) = finish {
        candidate["finishReason"] = reason.into();
        usage = json!({"promptTokenCount": 20, "cachedContentTokenCount": 15, "candidatesTokenCount": 198,
                       "thoughtsTokenCount": 405, "totalTokenCount": 623});
    }
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "upstream-gpt"})
        .to_string()
}

fn renamed(response: &str) -> String {
    response.replace("upstream-gpt", "text")
}

/// What a stream of two pieces says.
fn pieces() -> [String; 3] {
    [
        response("안녕 ", None),
        response("b", None),
        response("", Some("STOP")),
    ]
}

fn error(code: u16, status: &str) -> Value {
    json!({"error": {"code": code, "message": "secret words", "status": status, "details": []}})
}

async fn rig() -> Rig {
    Rig::with(config(), |state| {
        for candidate in &mut state.candidates {
            "gemini".clone_into(&mut candidate.provider);
            candidate.dialect = Dialect::GeminiGenerate as i32;
        }
    })
    .await
}

fn head(rig: &Rig, endpoint: Endpoint, query: &str) -> RelayHead {
    RelayHead {
        endpoint: endpoint as i32,
        resource: "text".to_owned(),
        query: query.to_owned(),
        ..rig.head(Dialect::GeminiGenerate)
    }
}

async fn ask(rig: &Rig, endpoint: Endpoint, query: &str) -> Answer {
    let head = head(rig, endpoint, query);
    rig.relay(head, body().to_string().into()).await
}

async fn stream(rig: &Rig, query: &str) -> Answer {
    ask(rig, Endpoint::Stream, query).await
}

fn acquired(rig: &Rig) -> AcquireRequest {
    rig.world.state().acquired[0].clone()
}

#[tokio::test]
async fn a_whole_answer_passes_with_the_public_name_and_is_settled_by_its_usage() {
    let rig = rig().await;
    let whole = response("hi", Some("STOP"));
    rig.upstream
        .push(Script::body(200, "application/json", whole.clone()));
    let answer = ask(&rig, Endpoint::Unspecified, "").await;
    assert_eq!((answer.failure.as_ref(), answer.status), (None, 200));
    assert_eq!(answer.text(), renamed(&whole));
    assert_eq!(rig.upstream.log().requests[0].json(), body());
    let asked = acquired(&rig);
    assert_eq!(
        (asked.dialect(), asked.stream),
        (Dialect::GeminiGenerate, false)
    );
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.ending(), Ending::Complete);
    assert_eq!(settlement.usage_source(), UsageSource::Provider);
    assert!(settlement.usage_raw.contains("thoughtsTokenCount"));
    let usage = settlement.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cached_input_tokens),
        (Some(5), Some(15))
    );
    assert_eq!(
        (usage.output_tokens, usage.reasoning_tokens),
        (Some(603), Some(405))
    );
    rig.end().await;
}

#[tokio::test]
async fn a_stream_goes_out_in_the_form_that_was_asked_for_whatever_the_upstreams() {
    let events: String = pieces()
        .iter()
        .map(|piece| format!("data: {piece}\n\n"))
        .collect();
    let array = format!("[{}]", pieces().join("\n,\r\n"));
    for (kind, sent) in [("text/event-stream", &events), ("application/json", &array)] {
        for writes in [Writes::Glued, Writes::Of(1)] {
            for query in ["alt=sse", ""] {
                let rig = rig().await;
                rig.upstream
                    .push(Script::body(200, kind, sent.clone()).writes(writes.clone()));
                let answer = stream(&rig, query).await;
                assert_eq!((answer.failure.as_ref(), answer.ended), (None, true));
                let (event_stream, kind, out) = if query.is_empty() {
                    (
                        false,
                        "application/json",
                        format!("[{}\n]", pieces().join(",\n")),
                    )
                } else {
                    (true, "text/event-stream", events.clone())
                };
                assert_eq!(answer.event_stream, event_stream);
                assert_eq!(answer.header("content-type"), Some(kind));
                assert_eq!(answer.text(), renamed(&out));
                assert!(acquired(&rig).stream);
                let usage = rig.settlement(&answer.id).await.usage.unwrap();
                assert_eq!(usage.output_tokens, Some(603), "the last one counts");
                rig.end().await;
            }
        }
    }
}

#[tokio::test]
async fn what_fails_before_content_is_answered_by_the_next_account() {
    let whole = response("hi", Some("STOP"));
    let silent = json!({"usageMetadata": {"promptTokenCount": 1}}).to_string();
    for (name, script, kind) in [
        (
            "429",
            Script::json(429, &json!([error(429, "RESOURCE_EXHAUSTED")])),
            "rate_limited",
        ),
        (
            "a key that is none",
            Script::json(
                400,
                &json!({"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT",
                "details": [{"reason": "API_KEY_INVALID"}]}}),
            ),
            "credential",
        ),
        (
            "an error as first event",
            Script::events([error(503, "UNAVAILABLE").to_string()]),
            "overloaded",
        ),
        (
            "an error in an array",
            Script::json(200, &json!([error(500, "INTERNAL")])),
            "server",
        ),
        ("cut before content", Script::events([silent]), "cut"),
        ("empty", Script::events([""; 0]), "empty"),
        ("no JSON", Script::events(["<html>"]), "malformed"),
    ] {
        let rig = rig().await;
        rig.upstream.push_on_key(SECRET, script);
        rig.upstream.push(Script::events([whole.clone()]));
        let answer = stream(&rig, "alt=sse").await;
        assert_eq!(
            (answer.failure.as_ref(), answer.status),
            (None, 200),
            "{name}"
        );
        assert_eq!(
            answer.text(),
            format!("data: {}\n\n", renamed(&whole)),
            "{name}"
        );
        let settlement = rig.settlement(&answer.id).await;
        let attempts: Vec<_> = settlement
            .attempts
            .iter()
            .map(|a| a.error.as_str())
            .collect();
        assert_eq!(attempts, [kind, ""], "{name}");
        rig.end().await;
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_none_is_answered_by_the_next_account() {
    let whole = response("hi", Some("STOP"));
    for (body, kind) in [
        (String::new(), "empty"),
        ("{\"candidates\":[]}".to_owned(), "malformed"),
        (whole[..40].to_owned(), "malformed"),
        (error(503, "UNAVAILABLE").to_string(), "overloaded"),
    ] {
        let rig = rig().await;
        rig.upstream
            .push_on_key(SECRET, Script::body(200, "application/json", body));
        rig.upstream
            .push(Script::body(200, "application/json", whole.clone()));
        let answer = ask(&rig, Endpoint::Unspecified, "").await;
        assert_eq!(answer.text(), renamed(&whole));
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.attempts[0].error, kind);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_whole_answer_serves_a_caller_who_streams_though_it_names_no_reason_of_its_end() {
    let whole = response("hi", None);
    for kind in ["application/json", "text/event-stream"] {
        for (query, out) in [
            ("alt=sse", format!("data: {whole}\n\n")),
            ("", format!("[{whole}\n]")),
        ] {
            let rig = rig().await;
            rig.upstream.push(Script::body(200, kind, whole.clone()));
            let answer = stream(&rig, query).await;
            assert_eq!((answer.failure.as_ref(), answer.ended), (None, true));
            assert_eq!(answer.text(), renamed(&out));
            let settlement = rig.settlement(&answer.id).await;
            assert_eq!(settlement.ending(), Ending::Complete);
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_content_is_an_error_and_never_looks_whole() {
    let [first, ..] = pieces();
    let said = error(500, "INTERNAL").to_string();
    for sent in [vec![first.clone()], vec![first.clone(), said]] {
        for (query, out) in [
            ("alt=sse", format!("data: {first}\n\n")),
            ("", format!("[{first}")),
        ] {
            let rig = rig().await;
            rig.upstream.push(Script::events(sent.clone()));
            let answer = stream(&rig, query).await;
            assert_eq!(answer.text(), renamed(&out));
            let failure = answer.failure.unwrap();
            assert_eq!(failure.reason, Reason::UpstreamFailed);
            assert!(!failure.message.contains("secret"), "{}", failure.message);
            let settlement = rig.settlement(&answer.id).await;
            assert_eq!(settlement.ending(), Ending::UpstreamBroke);
            assert_eq!(rig.upstream.log().total, 1, "nothing is tried again");
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn a_blocked_prompt_is_an_answer() {
    let rig = rig().await;
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}});
    rig.upstream.push(Script::events([blocked.to_string()]));
    let answer = stream(&rig, "alt=sse").await;
    assert_eq!(answer.failure, None);
    assert_eq!(answer.text(), format!("data: {blocked}\n\n"));
    let settlement = rig.settlement(&answer.id).await;
    let usage = settlement.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(4), Some(0))
    );
    rig.end().await;
}

#[tokio::test]
async fn the_callers_own_mistake_is_told_in_the_upstreams_words() {
    let rig = rig().await;
    let refused = json!({"error": {"code": 400, "message": "temperature is too high", "status": "INVALID_ARGUMENT"}});
    rig.upstream.push(Script::json(400, &refused));
    let answer = stream(&rig, "alt=sse").await;
    assert_eq!((answer.status, answer.json()), (400, refused));
    assert!(!answer.event_stream);
    rig.end().await;
}

#[tokio::test]
async fn a_count_is_free_and_leaves_no_row() {
    let rig = rig().await;
    rig.upstream.push(Script::body(
        200,
        "application/json",
        r#"{"totalTokens":7}"#,
    ));
    let answer = ask(&rig, Endpoint::CountTokens, "").await;
    assert_eq!(
        (answer.status, answer.text()),
        (200, r#"{"totalTokens":7}"#)
    );
    assert_eq!(acquired(&rig).endpoint(), Endpoint::CountTokens);
    let id = answer.id;
    rig.world
        .until("its release", |state| {
            state.released.iter().any(|(r, _)| *r == id)
        })
        .await;
    let (held, settled) = {
        let state = rig.world.state();
        (state.reserved.len(), state.settled.len())
    };
    assert_eq!((held, settled), (0, 0));
    rig.end().await;
}

#[tokio::test]
async fn vectors_are_billed_by_their_input() {
    let rig = rig().await;
    let vectors =
        json!({"embeddings": [{"values": [0.25]}], "usageMetadata": {"promptTokenCount": 3}});
    rig.upstream.push(Script::json(200, &vectors));
    let asked =
        json!({"requests": [{"model": "models/text", "content": {"parts": [{"text": "a"}]}}]});
    let head = head(&rig, Endpoint::EmbedBatch, "");
    let answer = rig.relay(head, asked.to_string().into()).await;
    assert_eq!(answer.json(), vectors);
    let sent = rig.upstream.log().requests[0].json();
    assert_eq!(sent["requests"][0]["model"], "models/upstream-gpt");
    let usage = rig.settlement(&answer.id).await.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(3), None));
    rig.end().await;
}

#[tokio::test]
async fn models_are_listed_in_this_dialects_form() {
    let rig = rig().await;
    let mut head = head(&rig, Endpoint::GeminiModels, "");
    head.resource = String::new();
    let list = rig.relay(head.clone(), Bytes::new()).await.json();
    let names: Vec<_> = list["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["name"])
        .collect();
    assert_eq!(names, ["models/text", "models/embed"]);
    assert!(list.get("nextPageToken").is_none());
    head.request_id = rig.head(Dialect::GeminiGenerate).request_id;
    "pageSize=1".clone_into(&mut head.query);
    let page = rig.relay(head.clone(), Bytes::new()).await.json();
    assert_eq!(page["models"][0]["name"], "models/text");
    assert_eq!(page["models"].as_array().unwrap().len(), 1);
    head.query = format!(
        "pageSize=1&pageToken={}",
        page["nextPageToken"].as_str().unwrap()
    );
    let last = rig.relay(head.clone(), Bytes::new()).await.json();
    assert_eq!(last["models"][0]["name"], "models/embed");
    assert!(last.get("nextPageToken").is_none());
    head.query = String::new();
    head.resource = "text".to_owned();
    let one = rig.relay(head.clone(), Bytes::new()).await.json();
    assert_eq!(one["name"], "models/text");
    assert_eq!(one["outputTokenLimit"], 1_000);
    head.resource = "other".to_owned();
    let gone = rig.relay(head, Bytes::new()).await;
    assert_eq!(gone.failure.unwrap().reason, Reason::ModelNotFound);
    rig.end().await;
}
