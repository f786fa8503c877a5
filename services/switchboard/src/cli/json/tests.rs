//! CON-1, to the letter.

use std::collections::HashMap;

use switchboard_proto::{
    auth::v1::{CreateKeyResponse, IssuedKey, User},
    billing::v1::{Timing, UsageAttempt, UsageRow},
    scheduler::v1::{ConsideredTarget, Decision, FilterOutcome},
};

use super::*;

fn json<A: Answer>(answer: &A) -> String {
    let protos = Protos::load().unwrap();
    serde_json::to_string_pretty(&protos.message(answer).unwrap()).unwrap()
}

#[test]
fn every_answer_is_in_the_descriptors() {
    let protos = Protos::load().unwrap();
    for name in ANSWERS {
        assert!(protos.0.get_message_by_name(name).is_some(), "{name}");
    }
}

#[test]
fn a_usage_row_reads_exactly_like_this() {
    let row = UsageRow {
        request_id: "019ad1b2-0000-7000-8000-000000000001".to_owned(),
        client_request_id: "mine".to_owned(),
        created_at: "2026-11-29T22:00:00Z".to_owned(),
        tenant: "acme".to_owned(),
        user: String::new(),
        app: String::new(),
        key: "ci".to_owned(),
        group: "standard".to_owned(),
        public_model: "gpt-4o".to_owned(),
        upstream_model: "gpt-4o-2024-08-06".to_owned(),
        account: "openai-main".to_owned(),
        stream: true,
        status: 200,
        error_code: String::new(),
        ending: "complete".to_owned(),
        provisional: false,
        input_tokens: Some(9_007_199_254_740_993),
        cached_input_tokens: Some(0),
        cache_write_5m_tokens: None,
        cache_write_1h_tokens: None,
        output_tokens: Some(5),
        reasoning_tokens: None,
        usage_source: "provider".to_owned(),
        charge_nanos: 54_399_000,
        cost_nanos: 0,
        attempts: vec![UsageAttempt {
            number: 0,
            account: "openai-main".to_owned(),
            upstream_model: "gpt-4o-2024-08-06".to_owned(),
            status: 200,
            output_tokens: Some(5),
            sent: true,
            ..UsageAttempt::default()
        }],
        dialect: "openai.chat".to_owned(),
        price_version: 3,
        key_id: "k".to_owned(),
        trace_id: String::new(),
        tags: String::new(),
        timing: Some(Timing {
            total_us: 12,
            ..Timing::default()
        }),
        output_cap: 0,
        cost_center: String::new(),
        audio_input_tokens: None,
        audio_output_tokens: None,
        images: Some(2),
        audio_millis: None,
    };
    assert_eq!(
        json(&row),
        r#"{
  "request_id": "019ad1b2-0000-7000-8000-000000000001",
  "client_request_id": "mine",
  "created_at": "2026-11-29T22:00:00Z",
  "tenant": "acme",
  "user": "",
  "app": "",
  "key": "ci",
  "group": "standard",
  "public_model": "gpt-4o",
  "upstream_model": "gpt-4o-2024-08-06",
  "account": "openai-main",
  "stream": true,
  "status": 200,
  "error_code": "",
  "ending": "complete",
  "provisional": false,
  "input_tokens": "9007199254740993",
  "cached_input_tokens": "0",
  "cache_write_5m_tokens": null,
  "cache_write_1h_tokens": null,
  "output_tokens": "5",
  "reasoning_tokens": null,
  "usage_source": "provider",
  "charge_nanos": "54399000",
  "cost_nanos": "0",
  "attempts": [
    {
      "number": 0,
      "account": "openai-main",
      "upstream_model": "gpt-4o-2024-08-06",
      "status": 200,
      "error": "",
      "input_tokens": null,
      "cached_input_tokens": null,
      "output_tokens": "5",
      "reasoning_tokens": null,
      "cost_nanos": "0",
      "cost_version": "0",
      "connect_us": "0",
      "first_byte_us": "0",
      "total_us": "0",
      "sent": true
    }
  ],
  "dialect": "openai.chat",
  "price_version": "3",
  "key_id": "k",
  "trace_id": "",
  "tags": "",
  "timing": {
    "gateway_us": "0",
    "queue_us": "0",
    "first_token_us": "0",
    "caller_write_us": "0",
    "total_us": "12"
  },
  "output_cap": "0",
  "cost_center": "",
  "audio_input_tokens": null,
  "audio_output_tokens": null,
  "images": "2",
  "audio_millis": null
}"#
    );
}

#[test]
fn enums_go_by_name_and_absent_messages_are_null() {
    let user = User {
        email: "a@b".to_owned(),
        status: 2,
        multiplier: 1_000_000,
        ..User::default()
    };
    let text = json(&user);
    assert!(text.contains(r#""status": "STATUS_DISABLED""#), "{text}");
    assert!(text.contains(r#""limits": null"#), "{text}");
    let unknown = User { status: 77, ..user };
    assert!(json(&unknown).contains(r#""status": 77"#));
    let answer = CreateKeyResponse {
        issued: Some(IssuedKey::default()),
    };
    assert!(json(&answer).contains(r#""issued": {"#));
}

#[test]
fn a_kept_decision_is_read_back_and_shown_with_the_protos_names() {
    let kept = r#"{"catalogueVersion":"7","policy":"weighted_score","layer":"scored","queuedMs":"0","later":1,
        "targets":[{"account":"a","upstreamModel":"m","tier":0,"weight":2,"filters":[{"filter":"group","pass":true}],
        "score":0.5,"factors":{"load":1.0,"cost":0.25},"drawn":0}]}"#;
    let protos = Protos::load().unwrap();
    let decision: Decision = protos.read(kept).unwrap();
    let expected = Decision {
        catalogue_version: 7,
        policy: "weighted_score".to_owned(),
        targets: vec![ConsideredTarget {
            account: "a".to_owned(),
            upstream_model: "m".to_owned(),
            tier: 0,
            weight: 2,
            filters: vec![FilterOutcome {
                filter: "group".to_owned(),
                pass: true,
                detail: String::new(),
            }],
            score: Some(0.5),
            factors: HashMap::from([("load".to_owned(), 1.0), ("cost".to_owned(), 0.25)]),
            drawn: Some(0),
            full: false,
        }],
        layer: "scored".to_owned(),
        queued_ms: 0,
    };
    assert_eq!(decision, expected);
    let text = json(&decision);
    assert!(text.contains(r#""catalogue_version": "7""#), "{text}");
    // A map's entries are sorted, so that the same decision reads the same.
    let cost = text.find(r#""cost": 0.25"#).unwrap();
    assert!(cost < text.find(r#""load": 1.0"#).unwrap(), "{text}");
    assert!(protos.read::<Decision>("{").is_err());
}
