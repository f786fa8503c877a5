//! Anthropic's dialect from caller to upstream: what may go wrong, and who answers then.

use std::time::Duration;

use fake_upstream::{Gate, Script};
use serde_json::{Value, json};
use switchboard_common::error::Reason;
use switchboard_proto::{
    billing::v1::Ending,
    common::v1::{Dialect, Endpoint, UsageSource},
    scheduler::v1::{ModelSheets, RateLimitState},
};

use switchboard_forwarder::Config;

use crate::{
    peers::State,
    rig::{Answer, Rig, SECRET, config},
};

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"upstream-gpt\",\"content\":[],\"usage\":{\"input_tokens\":40,\"cache_read_input_tokens\":60,\"cache_creation_input_tokens\":10,\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const TEXT: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n";
const END: &str = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":20}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const OVERLOADED: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";

fn events(parts: &[&str]) -> Script {
    Script::event_bytes(parts.concat())
}

fn message() -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "upstream-gpt",
        "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 40, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 10, "output_tokens": 20}})
}

fn body(stream: bool) -> Value {
    json!({"model": "text", "max_tokens": 64, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
}

async fn rig() -> Rig {
    rig_with(config()).await
}

async fn rig_with(config: Config) -> Rig {
    Rig::with(config, |state| {
        for candidate in &mut state.candidates {
            candidate.dialect = Dialect::AnthropicMessages as i32;
            candidate.provider = "anthropic".to_owned();
        }
        state.rate_limits = vec![RateLimitState {
            unit: "requests".to_owned(),
            level: "key".to_owned(),
            limit: 60,
            remaining: 4,
            reset_ms: 1_500,
        }];
    })
    .await
}

async fn ask(rig: &Rig, stream: bool) -> Answer {
    let head = rig.head(Dialect::AnthropicMessages);
    rig.relay(head, body(stream).to_string().into()).await
}

#[tokio::test]
async fn whole_and_streamed_answers_are_settled_by_the_same_usage() {
    let rig = rig().await;
    rig.upstream.push(Script::json(200, &message()));
    rig.upstream.push(events(&[START, TEXT, END]));
    for stream in [false, true] {
        let answer = ask(&rig, stream).await;
        assert_eq!((answer.failure.clone(), answer.status), (None, 200));
        assert_eq!(
            answer.header("anthropic-ratelimit-requests-remaining"),
            Some("4")
        );
        if stream {
            let expected = [START, TEXT, END].concat();
            assert_eq!(answer.text(), expected.replace("upstream-gpt", "text"));
        } else {
            assert_eq!(answer.json()["model"], "text");
        }
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.usage_source(), UsageSource::Provider);
        let usage = settlement.usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.cached_input_tokens),
            (Some(40), Some(60))
        );
        assert_eq!(
            (usage.cache_write_5m_tokens, usage.output_tokens),
            (Some(10), Some(20))
        );
    }
    let sent = &rig.upstream.log().requests[0];
    let mut expected = body(false);
    expected["model"] = "upstream-gpt".into();
    assert_eq!(sent.json(), expected);
    rig.end().await;
}

#[tokio::test]
async fn what_was_reported_so_far_is_in_the_drafts_of_a_stream_that_runs() {
    let mut config = config();
    config.progress = Duration::from_millis(20);
    let rig = rig_with(config).await;
    let gate = Gate::new();
    let begun = START.len() + TEXT.len();
    rig.upstream
        .push(events(&[START, TEXT, END]).gate_at_byte(begun, &gate));
    let head = rig.head(Dialect::AnthropicMessages);
    let id = head.request_id.clone();
    let answers = rig.open(head, body(true).to_string().into());
    let mut answers = answers.await.unwrap();
    answers.message().await.unwrap().unwrap();
    let draft = |state: &State| {
        let drafts = state.touched.iter().rev();
        let mut drafts = drafts.filter_map(|touch| touch.draft.clone());
        drafts.find(|draft| draft.usage.is_some_and(|it| it.output_tokens != Some(0)))
    };
    rig.world
        .until("a touch with content", |state| draft(state).is_some())
        .await;
    let draft = rig.world.change(|state| draft(state)).unwrap();
    // Output is said at the end: that is counted, and what the process that died did not hear of is nobody's last word.
    let usage = draft.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cached_input_tokens),
        (Some(40), Some(60))
    );
    assert_eq!(
        (usage.cache_write_5m_tokens, usage.output_tokens),
        (Some(10), Some(2))
    );
    assert_eq!(draft.usage_source(), UsageSource::Estimated);
    assert_eq!(draft.attempts[0].usage, draft.usage);
    assert_eq!(draft.attempts[0].usage_source(), UsageSource::Estimated);
    gate.open();
    let answer = crate::rig::collect(id, answers).await;
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.usage_source(), UsageSource::Provider);
    assert_eq!(settlement.usage.unwrap().output_tokens, Some(20));
    rig.end().await;
}

#[tokio::test]
async fn an_error_event_before_content_moves_on_and_leaves_no_trace() {
    // CASES C32
    for broken in [&[OVERLOADED][..], &[START, OVERLOADED], &[START], &[]] {
        let rig = rig().await;
        rig.upstream.push_on_key(SECRET, events(broken));
        rig.upstream.push(events(&[START, TEXT, END]));
        let answer = ask(&rig, true).await;
        assert_eq!(
            (answer.failure.clone(), answer.status),
            (None, 200),
            "{broken:?}"
        );
        assert_eq!(
            answer.text().matches("message_start\n").count(),
            1,
            "{broken:?}"
        );
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.ending(), Ending::Complete);
        let accounts: Vec<_> = settlement
            .attempts
            .iter()
            .map(|a| a.account.as_str())
            .collect();
        assert_eq!(accounts, ["one", "two"], "{broken:?}");
        rig.end().await;
    }
}

#[tokio::test]
async fn an_overloaded_upstream_is_told_as_a_direct_call_would() {
    // SPEC ERR-2
    for script in [
        Script::error(529, "overloaded_error", None, "busy"),
        Script::error(503, "overloaded_error", None, "busy"),
        Script::json(
            200,
            &json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        ),
    ] {
        let rig = rig().await;
        rig.upstream.default(script);
        let answer = ask(&rig, false).await;
        assert_eq!(answer.failure.unwrap().reason, Reason::Unavailable);
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!((settlement.status, settlement.attempts.len()), (529, 2));
        rig.end().await;
    }
}

#[tokio::test]
async fn what_breaks_after_content_is_a_failure_with_its_output_counted() {
    for (broken, told) in [
        (&[START, TEXT, OVERLOADED][..], Reason::Unavailable),
        (&[START, TEXT], Reason::UpstreamFailed),
    ] {
        let rig = rig().await;
        rig.upstream.push(events(broken));
        let answer = ask(&rig, true).await;
        let reason = answer.failure.as_ref().map(|failure| failure.reason);
        assert_eq!(reason, Some(told), "{broken:?}");
        assert!(answer.text().contains("hello") && !answer.text().contains("message_stop"));
        let settlement = rig.settlement(&answer.id).await;
        assert_eq!(settlement.ending(), Ending::UpstreamBroke);
        assert_eq!(settlement.usage_source(), UsageSource::Estimated);
        let usage = settlement.usage.unwrap();
        // The input was told; one token of output was only where it began.
        assert_eq!(
            (usage.input_tokens, usage.cached_input_tokens),
            (Some(40), Some(60))
        );
        assert_eq!(usage.output_tokens, Some(1));
        rig.end().await;
    }
}

#[tokio::test]
async fn errors_in_a_success_move_on_and_the_callers_own_pass_in_their_form() {
    let rig = rig().await;
    let failed = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "req_up"});
    rig.upstream
        .push_on_key(SECRET, Script::json(200, &failed("api_error")));
    rig.upstream.push(Script::json(200, &message()));
    let answer = ask(&rig, false).await;
    assert_eq!(
        (answer.status, answer.json()["content"][0]["text"].as_str()),
        (200, Some("hello"))
    );
    rig.settlement(&answer.id).await;

    let refused = failed("invalid_request_error");
    rig.upstream.push(Script::json(400, &refused));
    let answer = ask(&rig, false).await;
    assert_eq!((answer.status, answer.json()), (400, refused));
    rig.settlement(&answer.id).await;

    let long = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}});
    rig.upstream.push(Script::json(413, &long));
    let answer = ask(&rig, false).await;
    assert_eq!(answer.status, 400);
    let said = answer.json();
    assert_eq!(
        said["error"]["details"]["error_code"],
        "context_length_exceeded"
    );
    assert_eq!(said["request_id"], answer.id);
    rig.settlement(&answer.id).await;
    rig.end().await;
}

#[tokio::test]
async fn each_model_of_a_providers_own_fallback_brings_its_sheet() {
    // CASES A24
    let rig = rig().await;
    let sheets = |cost_version, price_version| ModelSheets {
        cost_version,
        price_version,
    };
    rig.world.change(|state| {
        for (model, sheets) in [
            ("upstream-gpt", sheets(30, 8)),
            ("other", sheets(31, 9)),
            ("served", sheets(32, 10)),
        ] {
            let key = ("one".to_owned(), model.to_owned());
            state.sheets.insert(key, sheets);
        }
    });
    let mut said = message();
    said["model"] = "other".into();
    said["usage"]["iterations"] = json!([
        {"type": "message", "model": "upstream-gpt", "input_tokens": 900, "output_tokens": 0},
        {"type": "message", "model": "upstream-gpt", "input_tokens": 10, "output_tokens": 5},
        {"type": "fallback_message", "model": "other", "input_tokens": 40, "output_tokens": 20},
        {"type": "fallback_message", "model": "served", "input_tokens": 1, "output_tokens": 1},
        {"type": "fallback_message", "model": "elsewhere", "input_tokens": 1, "output_tokens": 2},
    ]);
    rig.upstream.push(Script::json(200, &said));
    let answer = ask(&rig, false).await;
    let settlement = rig.settlement(&answer.id).await;
    let usage = settlement.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(52), Some(28))
    );
    let models: Vec<_> = settlement
        .models
        .iter()
        .map(|part| {
            let output = part.usage.and_then(|usage| usage.output_tokens);
            let sheets = (part.price_version, part.cost_version);
            (part.model.as_str(), output, sheets)
        })
        .collect();
    let expected = [
        // The attempt's and the request's hold for what was asked for; a public name goes before the account's.
        ("upstream-gpt", Some(5), (0, 0)),
        ("other", Some(20), (5, 31)),
        ("served", Some(1), (10, 32)),
        ("elsewhere", Some(2), (0, 0)),
    ];
    assert_eq!(models, expected);
    rig.end().await;
}

#[tokio::test]
async fn counting_takes_a_slot_and_no_money_and_leaves_no_row() {
    let rig = rig().await;
    rig.upstream
        .push(Script::json(200, &json!({"input_tokens": 14})));
    let mut head = rig.head(Dialect::AnthropicMessages);
    head.endpoint = Endpoint::CountTokens as i32;
    let mut body = body(false);
    body.as_object_mut().unwrap().remove("max_tokens");
    let answer = rig.relay(head, body.to_string().into()).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"input_tokens": 14}))
    );
    rig.world
        .until("a release", |state| state.released.len() == 1)
        .await;
    let state = rig.world.state();
    assert_eq!(state.acquired.len(), 1);
    assert_eq!(
        (
            state.acquired[0].endpoint(),
            state.acquired[0].estimated_tokens
        ),
        (Endpoint::CountTokens, 0)
    );
    assert!(state.reserved.is_empty() && state.settled.is_empty() && state.voided.is_empty());
    assert_eq!(rig.component.gauges().journal_bytes, 0);
}

#[tokio::test]
async fn models_are_listed_as_anthropics_client_expects_them() {
    let rig = rig().await;
    let mut head = rig.head(Dialect::AnthropicMessages);
    head.endpoint = Endpoint::AnthropicModels as i32;
    let answer = rig.relay(head.clone(), bytes::Bytes::new()).await;
    let listed = answer.json();
    let ids: Vec<_> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].clone())
        .collect();
    assert_eq!(ids, ["text", "embed"]);
    assert_eq!(
        (&listed["first_id"], &listed["last_id"], &listed["has_more"]),
        (&json!("text"), &json!("embed"), &json!(false))
    );
    assert_eq!(
        listed["data"][0],
        json!({"type": "model", "id": "text", "display_name": "text", "created_at": "1970-01-01T00:00:00Z"})
    );
    assert_eq!(answer.header("anthropic-ratelimit-requests-limit"), None);

    for (query, id, more) in [
        ("limit=1", "text", true),
        ("limit=1&after_id=text", "embed", false),
        ("limit=1&before_id=embed", "text", false),
    ] {
        head.request_id = rig.head(Dialect::AnthropicMessages).request_id;
        query.clone_into(&mut head.query);
        let page = rig.relay(head.clone(), bytes::Bytes::new()).await.json();
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "{query}");
        assert_eq!(
            (&page["last_id"], &page["has_more"]),
            (&json!(id), &json!(more))
        );
    }
    head.query = String::new();

    head.request_id = rig.head(Dialect::AnthropicMessages).request_id;
    head.resource = "text".to_owned();
    let one = rig.relay(head.clone(), bytes::Bytes::new()).await;
    assert_eq!(one.json(), listed["data"][0]);
    head.request_id = rig.head(Dialect::AnthropicMessages).request_id;
    head.resource = "nothing".to_owned();
    let none = rig.relay(head, bytes::Bytes::new()).await;
    assert_eq!(
        none.failure.map(|failure| failure.reason),
        Some(Reason::ModelNotFound)
    );
    rig.end().await;
}
