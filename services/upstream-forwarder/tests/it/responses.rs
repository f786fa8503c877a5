//! Responses (PROTOCOLS §5): failover before content, failure after it, who keeps what, and what is never billed.

use std::sync::Arc;

use bytes::Bytes;
use fake_upstream::{Gate, Script};
use serde_json::{Value, json};
use switchboard_common::error::Reason;
use switchboard_proto::{
    billing::v1::{Ending, Settlement},
    common::v1::{Dialect, Endpoint, UsageSource},
    inference::v1::{RelayHead, StreamProgress},
    scheduler::v1::ResponseBinding,
};

use crate::rig::{Answer, Rig, SECRET, config};

const USAGE: &str = r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":13}"#;

/// Events as an upstream sends them, numbered.
fn events(list: &[(&str, String)]) -> String {
    let numbered = list.iter().enumerate().map(|(at, (kind, fields))| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{at}{fields}}}\n\n")
    });
    numbered.collect()
}

fn response(status: &str, output: &str, usage: &str) -> String {
    format!(
        r#","response":{{"id":"resp_1","object":"response","created_at":1700000000,"status":"{status}","error":null,"model":"upstream-gpt","output":[{output}],"usage":{usage}}}"#
    )
}

fn begun() -> Vec<(&'static str, String)> {
    vec![
        ("response.created", response("in_progress", "", "null")),
        ("response.in_progress", response("in_progress", "", "null")),
        (
            "response.output_item.added",
            r#","output_index":0,"item":{"id":"msg_1","type":"message","content":[]}"#.to_owned(),
        ),
    ]
}

fn delta(text: &str) -> (&'static str, String) {
    let fields =
        format!(r#","item_id":"msg_1","output_index":0,"content_index":0,"delta":"{text}""#);
    ("response.output_text.delta", fields)
}

fn whole_stream() -> String {
    let mut list = begun();
    list.extend([delta("hel"), delta("lo")]);
    list.push(("response.completed", response("completed", "", USAGE)));
    events(&list)
}

fn body(more: Value) -> Value {
    let mut body = json!({"model": "text", "input": "say something"});
    let object = body.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    body
}

fn document(status: &str, usage: &str) -> String {
    let response = response(status, "", usage);
    let inside = response.strip_prefix(",\"response\":").unwrap();
    inside.to_owned()
}

fn json_answer(document: &str) -> Script {
    Script::body(200, "application/json", document.to_owned())
}

async fn start() -> Rig {
    Rig::with(config(), |state| {
        for candidate in &mut state.candidates {
            candidate.url = candidate.url.replace("chat/completions", "responses");
        }
    })
    .await
}

async fn create(rig: &Rig, body: &Value) -> Answer {
    let head = rig.head(Dialect::OpenaiResponses);
    rig.relay(head, body.to_string().into()).await
}

async fn ask(rig: &Rig, endpoint: Endpoint, id: &str, query: &str) -> Answer {
    let head = RelayHead {
        endpoint: endpoint as i32,
        resource: id.to_owned(),
        query: query.to_owned(),
        ..rig.head(Dialect::OpenaiResponses)
    };
    rig.relay(head, Bytes::new()).await
}

#[tokio::test]
async fn a_stream_is_one_clean_response_under_the_public_name_and_its_usage_is_billed() {
    let rig = start().await;
    rig.upstream.push(Script::event_bytes(whole_stream()));
    let answer = create(&rig, &body(json!({"stream": true}))).await;
    let expected = whole_stream().replace("\"upstream-gpt\"", "\"text\"");
    assert_eq!(answer.text(), expected);
    let request = &rig.upstream.log().requests[0];
    assert_eq!(request.json()["model"], "upstream-gpt");
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.usage_raw, USAGE);
    let usage = settlement.usage.unwrap();
    let counts = (
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    );
    assert_eq!(counts, (Some(6), Some(4), Some(3), Some(1)));
    assert_eq!(settlement.dialect(), Dialect::OpenaiResponses);
    rig.end().await;
}

#[tokio::test]
async fn what_fails_before_content_is_served_by_another_account() {
    let failed = r#","response":{"id":"resp_0","object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"m"},"output":[]}"#;
    let flat = r#","code":"server_error","message":"m","param":null"#;
    let nested = r#","error":{"type":"server_error","code":"server_is_overloaded","message":"m"}"#;
    let ends = [
        (
            "failed",
            vec![("response.failed", failed.to_owned())],
            "rate_limited",
        ),
        ("flat", vec![("error", flat.to_owned())], "server"),
        ("nested", vec![("error", nested.to_owned())], "overloaded"),
        ("cut", vec![], "cut"),
    ];
    for (name, end, kind) in ends {
        let rig = start().await;
        let mut list = begun();
        list.extend(end);
        let script = Script::event_bytes(events(&list));
        rig.upstream.push_on_key(SECRET, script);
        rig.upstream.push(Script::event_bytes(whole_stream()));
        let answer = create(&rig, &body(json!({"stream": true}))).await;
        assert_eq!(answer.failure, None, "{name}");
        let text = answer.text();
        assert_eq!(
            text.matches("event: response.created").count(),
            1,
            "{name}: {text}"
        );
        assert!(text.contains("event: response.completed"), "{name}: {text}");
        let settlement = rig.settlement(&answer.id).await;
        let attempts: Vec<_> = settlement
            .attempts
            .iter()
            .map(|attempt| (attempt.account.as_str(), attempt.error.as_str()))
            .collect();
        assert_eq!(attempts, [("one", kind), ("two", "")], "{name}");
        // Only the account that answered keeps it.
        let bound = rig.world.state().bound.clone();
        assert_eq!(bound.len(), 1, "{name}");
        assert_eq!(bound[0].binding.as_ref().unwrap().account, "two", "{name}");
        rig.end().await;
    }
}

#[tokio::test]
async fn a_failed_response_inside_a_success_is_a_failure_and_an_incomplete_one_an_answer() {
    let rig = start().await;
    let failed = r#"{"id":"resp_0","object":"response","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}"#;
    rig.upstream.push_on_key(SECRET, json_answer(failed));
    rig.upstream
        .push(json_answer(&document("incomplete", USAGE)));
    let answer = create(&rig, &body(json!({}))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["status"], "incomplete");
    assert_eq!(answer.json()["model"], "text");
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.attempts[0].error, "server");
    assert_eq!(settlement.usage.unwrap().output_tokens, Some(3));
    // What the caller did wrong is the caller's to know.
    let wrong = r#"{"id":"resp_0","object":"response","status":"failed","error":{"code":"invalid_prompt","message":"no"},"output":[]}"#;
    rig.upstream.push(json_answer(wrong));
    let answer = create(&rig, &body(json!({}))).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["message"], "no");
    rig.end().await;
}

#[tokio::test]
async fn a_break_after_content_is_told_and_the_edge_knows_where_the_stream_stood() {
    let rig = start().await;
    let mut list = begun();
    list.push(delta("hel"));
    let text = r#","code":"server_error","message":"secret words""#;
    list.push(("error", text.to_owned()));
    rig.upstream.push(Script::event_bytes(events(&list)));
    let head = rig.head(Dialect::OpenaiResponses);
    let id = head.request_id.clone();
    let body = body(json!({"stream": true})).to_string();
    let mut answers = rig.open(head, body.into()).await.unwrap();
    let mut progress = Vec::new();
    let failure = loop {
        match answers.message().await {
            Ok(Some(message)) => progress.extend(message.progress),
            Ok(None) => panic!("it ended well"),
            Err(status) => break switchboard_common::error::Failure::from_status(&status),
        }
    };
    assert_eq!(failure.reason, Reason::UpstreamFailed);
    assert!(!failure.message.contains("secret"));
    let expected = StreamProgress {
        response_id: "resp_1".to_owned(),
        created_at: 1_700_000_000,
        model: "text".to_owned(),
        next_sequence: 4,
    };
    assert_eq!(progress, [expected]);
    let settlement = rig.settlement(&id).await;
    assert_eq!(settlement.ending(), Ending::UpstreamBroke);
    assert_eq!(settlement.usage_source(), UsageSource::Estimated);
    rig.end().await;
}

#[tokio::test]
async fn who_keeps_a_response_is_written_down_before_its_caller_knows_of_it() {
    let rig = start().await;
    rig.upstream.push(Script::event_bytes(whole_stream()));
    let head = rig.head(Dialect::OpenaiResponses);
    let streamed = body(json!({"stream": true})).to_string();
    let mut answers = rig.open(head, streamed.into()).await.unwrap();
    let first = answers.message().await.unwrap().unwrap();
    assert!(!first.frame.is_empty());
    let bound = rig.world.state().bound.clone();
    assert_eq!(bound.len(), 1);
    assert_eq!(
        (&*bound[0].tenant, &*bound[0].response_id),
        ("acme", "resp_1")
    );
    let expected = ResponseBinding {
        account: "one".to_owned(),
        public_model: "text".to_owned(),
        ..ResponseBinding::default()
    };
    assert_eq!(bound[0].binding, Some(expected));
    while let Some(_more) = answers.message().await.unwrap() {}
    // A whole answer, too; one that is not kept is nobody's.
    rig.upstream
        .push(json_answer(&document("completed", USAGE)));
    create(&rig, &body(json!({}))).await;
    rig.upstream
        .push(json_answer(&document("completed", USAGE)));
    create(&rig, &body(json!({"store": false}))).await;
    assert_eq!(rig.world.state().bound.len(), 2);
    // What cannot be written down costs no answer.
    rig.world.change(|state| state.forgetful = true);
    rig.upstream
        .push(json_answer(&document("completed", USAGE)));
    assert_eq!(create(&rig, &body(json!({}))).await.status, 200);
    rig.end().await;
}

#[tokio::test]
async fn the_response_that_is_continued_goes_along_to_the_scheduler() {
    let rig = start().await;
    rig.upstream
        .push(json_answer(&document("completed", USAGE)));
    create(&rig, &body(json!({"previous_response_id": "resp_0"}))).await;
    assert_eq!(rig.world.state().acquired[0].response_id, "resp_0");
    let sent = rig.upstream.log().requests[0].json();
    assert_eq!(sent["previous_response_id"], "resp_0");
    rig.end().await;
}

#[tokio::test]
async fn a_response_is_asked_for_at_its_keeper_and_nothing_is_billed() {
    let rig = start().await;
    let kept = ResponseBinding {
        account: "one".to_owned(),
        public_model: "text".to_owned(),
        ..ResponseBinding::default()
    };
    let key = |tenant: &str| (tenant.to_owned(), "resp_1".to_owned());
    rig.world
        .change(|state| state.kept.insert(key("acme"), kept.clone()));
    for (endpoint, method, path, answer) in [
        (
            Endpoint::Retrieve,
            "GET",
            "/v1/responses/resp_1",
            document("failed", "null"),
        ),
        (
            Endpoint::InputItems,
            "GET",
            "/v1/responses/resp_1/input_items",
            r#"{"object":"list","data":[]}"#.to_owned(),
        ),
        (
            Endpoint::Cancel,
            "POST",
            "/v1/responses/resp_1/cancel",
            document("cancelled", "null"),
        ),
        (
            Endpoint::Delete,
            "DELETE",
            "/v1/responses/resp_1",
            r#"{"id":"resp_1","deleted":true}"#.to_owned(),
        ),
    ] {
        rig.upstream.push(json_answer(&answer));
        let told = ask(&rig, endpoint, "resp_1", "include[]=a&limit=5").await;
        assert_eq!(told.status, 200, "{method} {path}");
        assert_eq!(told.text(), answer.replace("upstream-gpt", "text"));
        let log = rig.upstream.log();
        let request = log.requests.last().unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            (method, path)
        );
        assert_eq!(request.query.as_deref(), Some("include[]=a&limit=5"));
        assert_eq!(
            rig.world.state().acquired.last().unwrap().response_id,
            "resp_1"
        );
    }
    // Another tenant's is nobody's, and no account is asked.
    let asked = rig.world.state().acquired.len();
    rig.world.change(|state| {
        let other = state.kept.remove(&key("acme"));
        state.kept.insert(key("globex"), other.unwrap());
    });
    for endpoint in [Endpoint::Retrieve, Endpoint::Delete, Endpoint::Cancel] {
        let told = ask(&rig, endpoint, "resp_1", "").await;
        assert_eq!(told.failure.unwrap().reason, Reason::NotFound);
    }
    assert_eq!(rig.world.state().acquired.len(), asked);
    assert!(nothing_was_billed(&rig));
    assert_eq!(rig.component.gauges().unacknowledged, 0);
    rig.end().await;
}

fn nothing_was_billed(rig: &Rig) -> bool {
    let state = rig.world.state();
    state.reserved.is_empty() && state.settled.is_empty() && state.touched.is_empty()
}

/// The settlements of a request, once there are so many.
async fn settlements(rig: &Rig, id: &str, count: usize) -> Vec<Settlement> {
    let of = |all: &[Settlement]| -> Vec<Settlement> {
        all.iter()
            .filter(|one| one.request_id == id)
            .cloned()
            .collect()
    };
    rig.world
        .until("settlements", |state| of(&state.settled).len() >= count)
        .await;
    of(&rig.world.state().settled)
}

#[tokio::test]
async fn a_background_response_is_settled_as_expected_and_then_as_its_end_shows_once() {
    let rig = start().await;
    rig.upstream.push(json_answer(&document("queued", "null")));
    let asked = body(json!({"background": true, "max_output_tokens": 700}));
    let created = create(&rig, &asked).await;
    assert_eq!(created.json()["status"], "queued");
    let first = settlements(&rig, &created.id, 1).await.remove(0);
    assert!(first.provisional);
    assert_eq!(first.usage_source(), UsageSource::Estimated);
    assert_eq!(first.usage.unwrap().output_tokens, Some(700));
    // As long as it goes on nothing is settled.
    rig.upstream
        .push(json_answer(&document("in_progress", "null")));
    ask(&rig, Endpoint::Retrieve, "resp_1", "").await;
    assert_eq!(settlements(&rig, &created.id, 1).await.len(), 1);
    for _ in 0..2 {
        rig.upstream
            .push(json_answer(&document("completed", USAGE)));
        let answer = ask(&rig, Endpoint::Retrieve, "resp_1", "").await;
        assert_eq!(answer.json()["status"], "completed");
    }
    let all = settlements(&rig, &created.id, 2).await;
    assert_eq!(all.len(), 2);
    let last = &all[1];
    assert!(!last.provisional);
    assert_eq!(last.usage_source(), UsageSource::Provider);
    assert_eq!(last.usage.unwrap().output_tokens, Some(3));
    assert_eq!(last.usage_raw, USAGE);
    assert_eq!(last.fingerprint, first.fingerprint);
    assert_eq!(last.party, first.party);
    assert_eq!(last.attempts[0].usage.unwrap().output_tokens, Some(3));
    assert_eq!(rig.world.state().reserved.len(), 1);
    rig.end().await;
}

#[tokio::test]
async fn a_replay_streams_from_where_it_was_asked_for_and_settles_what_it_shows() {
    let rig = start().await;
    rig.upstream.push(json_answer(&document("queued", "null")));
    let created = create(&rig, &body(json!({"background": true}))).await;
    settlements(&rig, &created.id, 1).await;
    let replayed = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"delta\":\"lo\"}\n\n".to_owned()
        + &events(&[("response.completed", response("completed", "", USAGE))]);
    rig.upstream.push(Script::event_bytes(replayed.clone()));
    let answer = ask(
        &rig,
        Endpoint::Retrieve,
        "resp_1",
        "stream=true&starting_after=3",
    )
    .await;
    assert!(answer.event_stream);
    assert_eq!(answer.text(), replayed.replace("upstream-gpt", "text"));
    let all = settlements(&rig, &created.id, 2).await;
    assert!(!all[1].provisional);
    assert_eq!(all[1].usage.unwrap().output_tokens, Some(3));
    rig.end().await;
}

#[tokio::test]
async fn a_background_stream_whose_caller_leaves_is_settled_when_its_end_is_seen() {
    let rig = start().await;
    let mut list = vec![("response.created", response("queued", "", "null"))];
    list.extend(begun().split_off(1));
    rig.upstream
        .push(Script::event_bytes(events(&list)).hang_at_end());
    let head = rig.head(Dialect::OpenaiResponses);
    let id = head.request_id.clone();
    let asked = body(json!({"background": true, "stream": true})).to_string();
    let mut answers = rig.open(head, asked.into()).await.unwrap();
    let first = answers.message().await.unwrap().unwrap();
    assert!(first.frame.starts_with(b"event: response.created"));
    drop(answers);
    assert!(settlements(&rig, &id, 1).await[0].provisional);
    rig.upstream
        .push(json_answer(&document("cancelled", "null")));
    ask(&rig, Endpoint::Cancel, "resp_1", "").await;
    let all = settlements(&rig, &id, 2).await;
    assert!(!all[1].provisional);
    let usage = all[1].usage.unwrap();
    assert_eq!(usage.output_tokens, Some(0));
    assert!(usage.input_tokens > Some(0));
    rig.end().await;
}

#[tokio::test]
async fn tokens_are_counted_for_nothing() {
    let rig = start().await;
    let counted = r#"{"object":"response.input_tokens","input_tokens":7}"#;
    rig.upstream.push(json_answer(counted));
    let head = RelayHead {
        endpoint: Endpoint::CountTokens as i32,
        ..rig.head(Dialect::OpenaiResponses)
    };
    let answer = rig.relay(head, body(json!({})).to_string().into()).await;
    assert_eq!(answer.text(), counted);
    assert!(nothing_was_billed(&rig));
    rig.end().await;
}

#[tokio::test]
async fn a_target_that_cannot_stream_serves_a_caller_that_streams() {
    let rig = start().await;
    let message = r#"{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}"#;
    let response = response("completed", message, USAGE);
    let document = response.strip_prefix(",\"response\":").unwrap();
    rig.upstream.push(json_answer(document));
    let answer = create(&rig, &body(json!({"stream": true}))).await;
    let kinds: Vec<_> = answer
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("event: response."))
        .collect();
    assert_eq!(
        kinds,
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed"
        ]
    );
    assert_eq!(rig.world.state().bound.len(), 1);
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.usage.unwrap().output_tokens, Some(3));
    rig.end().await;
}

#[tokio::test]
async fn who_keeps_a_response_is_written_down_while_its_model_thinks() {
    let rig = start().await;
    let gate = Gate::new();
    let before = events(&begun()).len();
    let script = Script::event_bytes(whole_stream()).gate_at_byte(before, &gate);
    rig.upstream.push(script);
    let world = Arc::clone(&rig.world);
    let written = async {
        world
            .until("its keeper", |state| !state.bound.is_empty())
            .await;
        gate.open();
    };
    let head = rig.head(Dialect::OpenaiResponses);
    let asked = body(json!({"stream": true})).to_string();
    let (answer, ()) = tokio::join!(rig.relay(head, asked.into()), written);
    assert_eq!((answer.failure.as_ref(), answer.ended), (None, true));
    assert_eq!(rig.world.state().bound.len(), 1, "once");
    rig.end().await;
}

#[tokio::test]
async fn of_two_attempts_the_one_that_answers_is_written_down() {
    let rig = start().await;
    rig.upstream
        .push_on_key(SECRET, Script::event_bytes(events(&begun())));
    let second = whole_stream().replace("resp_1", "resp_2");
    rig.upstream.push(Script::event_bytes(second));
    let head = rig.head(Dialect::OpenaiResponses);
    let asked = body(json!({"stream": true})).to_string();
    let answer = rig.relay(head, asked.into()).await;
    assert_eq!((answer.failure.as_ref(), answer.ended), (None, true));
    let (last, first_account) = {
        let state = rig.world.state();
        let last = state.bound.last().unwrap().clone();
        (last, state.candidates[0].account.clone())
    };
    assert_eq!(last.response_id, "resp_2");
    assert_ne!(last.binding.unwrap().account, first_account);
    rig.end().await;
}

#[tokio::test]
async fn a_conversation_that_an_account_keeps_goes_to_no_account_at_random() {
    let rig = start().await;
    for endpoint in [Endpoint::Unspecified, Endpoint::CountTokens] {
        for conversation in [json!("conv_1"), json!({"id": "conv_1"})] {
            let head = RelayHead {
                endpoint: endpoint as i32,
                ..rig.head(Dialect::OpenaiResponses)
            };
            let asked = body(json!({"conversation": conversation})).to_string();
            let failure = rig.relay(head, asked.into()).await.failure.unwrap();
            assert_eq!(failure.reason, Reason::InvalidRequest);
            assert_eq!(failure.param.as_deref(), Some("conversation"));
            assert!(failure.message.contains("previous_response_id"));
        }
    }
    assert_eq!(rig.upstream.log().total, 0);
    rig.end().await;
}
