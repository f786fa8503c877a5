use super::{bytes, create};
use crate::anthropic::{MessagesCall, MessagesRequest};
use crate::dialect::{DialectRequest as _, ReadOptions, WholeAnswer};
use crate::error::{Class, UpstreamError};
use crate::usage::{Usage, usage_by_model};

const ASKED: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

fn read(body: &str, public: Option<&str>) -> Result<WholeAnswer, Box<UpstreamError>> {
    let options = ReadOptions {
        public_model: public,
        text_bound: 1 << 10,
        ..ReadOptions::default()
    };
    create(ASKED).read(&bytes(body), &options)
}

fn answer(usage: &str) -> String {
    format!(
        r#"{{ "id":"msg_1","type":"message","role":"assistant","model":"up","content":[{{"type":"thinking","thinking":"hm ","signature":"s"}},{{"type":"text","text":"Hello"}},{{"type":"tool_use","id":"t","name":"get","input":{{"a": 1.0}}}},{{"type":"web_search_tool_result","content":[]}}],"stop_reason":"end_turn","new":1e2{usage} }}"#
    )
}

fn usage_of(usage: &str) -> Usage {
    let body = answer(&format!(r#","usage":{usage}"#));
    let report = read(&body, None).unwrap().usage.unwrap();
    assert_eq!(report.raw, usage.as_bytes());
    report.usage
}

#[test]
fn an_answer_passes_byte_for_byte_but_for_the_public_name() {
    let body = answer("");
    assert_eq!(read(&body, None).unwrap().body, body.as_bytes());
    assert_eq!(read(&body, Some("up")).unwrap().body, body.as_bytes());
    let named = read(&body, Some("claude")).unwrap().body;
    let expected = body.replace(r#""model":"up""#, r#""model":"claude""#);
    assert_eq!(named, expected.as_bytes());
}

#[test]
fn usage_has_three_kinds_of_input_that_never_overlap() {
    // CASES A12
    let usage = usage_of(
        r#"{"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0,"output_tokens":550}"#,
    );
    let expected = Usage {
        input: Some(3),
        cached_input: Some(0),
        cache_write_5m: Some(12304),
        output: Some(550),
        ..Usage::default()
    };
    assert_eq!(usage, expected);
    assert_eq!(usage.total_input(), Some(12307));
    let split = usage_of(
        r#"{"input_tokens":1,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":9,"output_tokens_details":{"thinking_tokens":4},"service_tier":"standard"}"#,
    );
    assert_eq!(
        (split.cache_write_5m, split.cache_write_1h),
        (Some(10), Some(20))
    );
    assert_eq!((split.output, split.reasoning), (Some(9), Some(4)));
    assert_eq!(split.total_input(), Some(31));
}

#[test]
fn details_without_a_total_count_and_nonsense_does_not() {
    let usage = usage_of(
        r#"{"input_tokens":-1,"cache_creation":{"ephemeral_1h_input_tokens":7},"output_tokens":1.5,"cache_read_input_tokens":null}"#,
    );
    let expected = Usage {
        cache_write_5m: Some(0),
        cache_write_1h: Some(7),
        ..Usage::default()
    };
    assert_eq!(usage, expected);
}

#[test]
fn iterations_are_what_is_billed_each_with_its_model() {
    // CASES A24
    let iterated = r#"{"input_tokens":20,"output_tokens":30,"output_tokens_details":{"thinking_tokens":4},"iterations":[
        {"type":"message","model":"a","input_tokens":900,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0},
        {"type":"message","model":"a","input_tokens":10,"output_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":0},
        {"type":"compaction","model":"a","input_tokens":1,"output_tokens":2},
        {"type":"fallback_message","model":"b","input_tokens":20,"output_tokens":30,"cache_creation_input_tokens":8,"cache_creation":{"ephemeral_1h_input_tokens":8}}]}"#;
    let usage = usage_of(iterated);
    assert_eq!((usage.input, usage.output), (Some(31), Some(37)));
    assert_eq!(
        (usage.cached_input, usage.cache_write_1h),
        (Some(7), Some(8))
    );
    assert_eq!(usage.reasoning, Some(4));
    let parts = usage_by_model(iterated);
    let told: Vec<_> = parts
        .iter()
        .map(|part| (part.model.as_str(), part.usage.input, part.usage.output))
        .collect();
    assert_eq!(told, [("a", Some(11), Some(7)), ("b", Some(20), Some(30))]);
    assert_eq!(usage_by_model(&format!("[{{}},{iterated}]")), parts);
    // one entry is the whole answer, whatever it made
    let warmed = r#"{"input_tokens":9,"output_tokens":0,"iterations":[{"type":"message","model":"a","input_tokens":9,"output_tokens":0}]}"#;
    assert_eq!(usage_of(warmed).input, Some(9));
    assert_eq!(
        usage_by_model(r#"{"input_tokens":9,"iterations":null}"#),
        []
    );
}

#[test]
fn text_is_kept_where_it_must_be_counted() {
    let kept = read(&answer(""), None).unwrap().text.unwrap();
    assert_eq!(kept.text(), r#"hm Helloget{"a": 1.0}"#);
    let told = answer(r#","usage":{"input_tokens":1,"output_tokens":2}"#);
    assert_eq!(
        read(&told, None).unwrap().text.map(|text| text.bytes()),
        None
    );
}

#[test]
fn a_success_that_is_none_is_a_failure_of_its_class() {
    let class = |body: &str| read(body, None).unwrap_err().class;
    assert_eq!(class(""), Class::Empty);
    assert_eq!(class("<html>"), Class::Malformed);
    assert_eq!(
        class(r#"{"id":"msg_1","type":"message","role":"assistant"}"#),
        Class::Malformed
    );
    assert_eq!(
        class(r#"{"id":"x","type":"message","role":"assistant","content":"text"}"#),
        Class::Malformed
    );
    assert_eq!(class(r#"{"choices":[]}"#), Class::Malformed);
    let error = |kind: &str| {
        class(&format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"no"}},"request_id":"r"}}"#
        ))
    };
    assert_eq!(error("overloaded_error"), Class::Overloaded);
    assert_eq!(error("rate_limit_error"), Class::RateLimited);
    assert_eq!(error("authentication_error"), Class::Unauthorized);
    assert_eq!(error("billing_error"), Class::Quota);
    assert_eq!(error("invalid_request_error"), Class::Request);
    assert_eq!(
        class(r#"{"error":{"message":"bad gateway","code":502}}"#),
        Class::Server
    );
}

#[test]
fn a_count_is_a_number_and_passes_as_it_came() {
    let asked = MessagesRequest::peek(ASKED.as_bytes(), MessagesCall::CountTokens).unwrap();
    let read = |body: &str| asked.read(&bytes(body), &ReadOptions::default());
    let body = r#"{ "input_tokens": 14, "new": true }"#;
    let answer = read(body).unwrap();
    assert_eq!((answer.body, answer.usage), (bytes(body), None));
    assert_eq!(read(r#"{"tokens":1}"#).unwrap_err().class, Class::Malformed);
    let failed = r#"{"type":"error","error":{"type":"api_error","message":"no"}}"#;
    assert_eq!(read(failed).unwrap_err().class, Class::Server);
}
