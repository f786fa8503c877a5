use bytes::Bytes;

use crate::dialect::{DialectRequest as _, Finished, ReadOptions, WholeAnswer};
use crate::error::{Class, UpstreamError};
use crate::responses::{CountRequest, ResponsesRequest};
use crate::usage::Usage;

const ASKED: &str = r#"{"model":"m","input":"hi"}"#;

fn read_as(
    asked: &str,
    body: &str,
    public: Option<&str>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let options = ReadOptions {
        public_model: public,
        text_bound: 1 << 10,
        ..ReadOptions::default()
    };
    let asked = ResponsesRequest::peek(asked.as_bytes()).unwrap();
    asked.read(&Bytes::copy_from_slice(body.as_bytes()), &options)
}

fn read(body: &str) -> Result<WholeAnswer, Box<UpstreamError>> {
    read_as(ASKED, body, None)
}

fn class(body: &str) -> Class {
    read(body).unwrap_err().class
}

fn answer(status: &str, more: &str) -> String {
    format!(
        r#"{{ "id":"resp_1","object":"response","created_at":7.5,"status":"{status}","error":null,"model":"up","output":[{{"id":"rs_1","type":"reasoning","summary":[{{"type":"summary_text","text":"hm"}}]}},{{"id":"msg_1","type":"message","role":"assistant","content":[{{"type":"output_text","text":"Hello","annotations":[]}}]}},{{"id":"fc_1","type":"function_call","call_id":"c","name":"get","arguments":"{{}}"}}],"new":{{"model":"up","a":1e2}}{more} }}"#
    )
}

#[test]
fn an_answer_passes_byte_for_byte_but_for_the_public_name() {
    let body = answer("completed", "");
    assert_eq!(read(&body).unwrap().body, body.as_bytes());
    let same = read_as(ASKED, &body, Some("up")).unwrap().body;
    assert_eq!(same, body.as_bytes());
    let named = read_as(ASKED, &body, Some("g \"x\"")).unwrap().body;
    let expected = body.replacen(r#""model":"up""#, r#""model":"g \"x\"""#, 1);
    assert_eq!(named, expected.as_bytes());
}

#[test]
fn usage_is_told_in_kinds_that_never_overlap() {
    let raw = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}"#;
    let answer = read(&answer("completed", &format!(r#","usage":{raw}"#))).unwrap();
    let report = answer.usage.unwrap();
    let expected = Usage {
        input: Some(10),
        cached_input: Some(60),
        cache_write_5m: Some(30),
        output: Some(20),
        reasoning: Some(5),
        ..Usage::default()
    };
    assert_eq!(report.usage, expected);
    assert_eq!(report.raw, raw.as_bytes());
    assert!(answer.text.is_none());
}

#[test]
fn what_is_not_counted_can_be_counted() {
    for more in ["", r#","usage":null"#, r#","usage":{"input_tokens":3}"#] {
        let answer = read(&answer("completed", more)).unwrap();
        assert_eq!(answer.text.unwrap().text(), "hm\nHello\nget\n{}\n");
    }
}

#[test]
fn what_a_response_must_have_is_demanded() {
    let body = answer("completed", "");
    for (there, instead) in [
        (r#""id":"resp_1","#, ""),
        (r#""id":"resp_1""#, r#""id":"""#),
        (r#""object":"response","#, ""),
        (r#""object":"response""#, r#""object":"list""#),
        (r#""status":"completed","#, ""),
        (r#""status":"completed""#, r#""status":null"#),
        (r#""output":["#, r#""outputs":["#),
    ] {
        assert!(body.contains(there));
        assert_eq!(class(&body.replacen(there, instead, 1)), Class::Malformed);
    }
    let chat = r#"{"id":"c","object":"chat.completion","choices":[{"message":{"content":"x"}}]}"#;
    assert_eq!(class(chat), Class::Malformed);
    for body in ["[]", "<html>", r#"{"id":"resp_1""#, "{} {}"] {
        assert_eq!(class(body), Class::Malformed, "{body}");
    }
    assert_eq!(class(""), Class::Empty);
    assert_eq!(class(" \n"), Class::Empty);
}

#[test]
fn a_response_that_failed_is_an_error_of_its_codes_class() {
    for (code, expected) in [
        ("server_error", Class::Server),
        ("rate_limit_exceeded", Class::RateLimited),
        ("server_is_overloaded", Class::Overloaded),
        ("vector_store_timeout", Class::Timeout),
        ("invalid_prompt", Class::Request),
        ("bio_policy", Class::ContentPolicy),
        ("context_length_exceeded", Class::ContextLength),
    ] {
        let body = answer("failed", "").replace(
            r#""error":null"#,
            &format!(r#""error":{{"code":"{code}","message":"why"}}"#),
        );
        let error = read(&body).unwrap_err();
        assert_eq!(error.class, expected, "{code}");
        assert_eq!(error.code.as_deref(), Some(code));
        assert_eq!(error.message.as_deref(), Some("why"));
        // a response is no error object that a caller could be given
        assert_eq!(error.body, None);
    }
    assert_eq!(class(&answer("failed", "")), Class::Server);
}

#[test]
fn an_error_in_a_success_is_one() {
    let error = read(
        r#"{"error":{"message":"slow","type":"rate_limit_error","code":"rate_limit_exceeded","param":null}}"#,
    );
    let error = error.unwrap_err();
    assert_eq!(error.class, Class::RateLimited);
    assert!(error.body.is_some());
}

#[test]
fn how_it_ended_is_told() {
    let finished = |status: &str| read(&answer(status, "")).unwrap().finished;
    assert_eq!(finished("completed"), Some(Finished::Answered));
    assert_eq!(finished("incomplete"), Some(Finished::Answered));
    assert_eq!(finished("cancelled"), Some(Finished::Cancelled));
    assert_eq!(finished("queued"), None);
    assert_eq!(finished("in_progress"), None);
}

#[test]
fn an_incomplete_response_is_an_answer() {
    let body = answer(
        "incomplete",
        r#","incomplete_details":{"reason":"max_output_tokens"}"#,
    );
    assert_eq!(read(&body).unwrap().body, body.as_bytes());
}

#[test]
fn a_response_is_kept_unless_the_request_or_the_upstream_says_otherwise() {
    let stored = |asked: &str, more: &str| {
        let body = answer("completed", more);
        read_as(asked, &body, None).unwrap().stored_id
    };
    let forgotten = r#"{"model":"m","input":"hi","store":false}"#;
    assert_eq!(stored(ASKED, "").as_deref(), Some("resp_1"));
    assert_eq!(stored(ASKED, r#","store":true"#).as_deref(), Some("resp_1"));
    assert_eq!(stored(ASKED, r#","store":false"#), None);
    assert_eq!(stored(forgotten, ""), None);
    let background = r#"{"model":"m","input":"hi","background":true}"#;
    assert_eq!(stored(background, "").as_deref(), Some("resp_1"));
}

#[test]
fn a_count_passes_as_it_came_and_costs_nothing() {
    let count = CountRequest::peek(ASKED.as_bytes()).unwrap();
    assert!(count.free() && !count.generates());
    let body = Bytes::from_static(br#"{"object":"response.input_tokens", "input_tokens":11}"#);
    let options = ReadOptions {
        public_model: Some("public"),
        ..ReadOptions::default()
    };
    let answer = count.read(&body, &options).unwrap();
    assert_eq!((answer.body, answer.usage), (body, None));
}
