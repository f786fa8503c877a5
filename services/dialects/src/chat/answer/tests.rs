use serde_json::{Value as Tree, json};

use super::*;
use crate::carry::{AnswerStream as _, StreamOptions};
use crate::chat::chunk::Payload;
use crate::chat::stream::{Asked, ChatStream};

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"h\u00e9","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":26,"completion_tokens":5,"total_tokens":31},"x":1.50}"#;

#[test]
fn usage_and_text_are_read_and_only_the_model_changes() {
    let body = Bytes::from_static(ANSWER.as_bytes());
    let answer = ChatAnswer::read(&body, Payload::Message, 100).unwrap();
    let usage = answer.usage.clone().unwrap();
    assert_eq!((usage.usage.input, usage.usage.output), (Some(26), Some(5)));
    assert_eq!(
        &*usage.raw,
        br#"{"prompt_tokens":26,"completion_tokens":5,"total_tokens":31}"#
    );
    assert_eq!(answer.text.text(), "hé");
    assert_eq!(answer.patch(&body, None).as_ptr(), body.as_ptr());
    assert_eq!(answer.patch(&body, Some("up")).as_ptr(), body.as_ptr());
    assert_eq!(
        &*answer.patch(&body, Some("pub")),
        ANSWER.replace("\"up\"", "\"pub\"").as_bytes()
    );
}

#[test]
fn a_success_that_is_none_is_a_failure() {
    for (body, class) in [
        ("", Class::Empty),
        (" \n", Class::Empty),
        ("null", Class::Malformed),
        ("<html>", Class::Malformed),
        ("{}", Class::Malformed),
        (r#"{"choices":[]}"#, Class::Malformed),
        (r#"{"choices":null}"#, Class::Malformed),
        (r#"{"choices":[{"index":0}]}"#, Class::Malformed),
        (
            r#"{"choices":[{"message":{}},{"message":null}]}"#,
            Class::Malformed,
        ),
        (r#"{"error":{"message":"x","code":502}}"#, Class::Server),
        (
            r#"{"error":{"message":"x","code":"rate_limit_exceeded"},"choices":[]}"#,
            Class::RateLimited,
        ),
        (
            r#"{"object":"error","message":"x","code":404}"#,
            Class::NotFound,
        ),
        (
            r#"{"type":"error","message":"x","code":"overloaded"}"#,
            Class::Overloaded,
        ),
        (
            r#"{"choices":[{"index":0,"message":{"content":""},"finish_reason":"error","error":{"code":429,"message":"x"}}]}"#,
            Class::RateLimited,
        ),
        (ANSWER.get(..90).unwrap(), Class::Malformed),
    ] {
        assert_eq!(
            ChatAnswer::read(body.as_bytes(), Payload::Message, 100)
                .unwrap_err()
                .class,
            class,
            "{body}"
        );
    }
    let no_error = ANSWER.replacen('{', "{\"error\":0,", 1);
    assert!(ChatAnswer::read(no_error.as_bytes(), Payload::Message, 100).is_ok());
    let null_error = ANSWER.replacen('{', "{\"error\":null,", 1);
    assert!(ChatAnswer::read(null_error.as_bytes(), Payload::Message, 100).is_ok());
}

#[test]
fn reasoning_and_tool_calls_count_as_output() {
    let body = json!({"choices": [{"message": {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}}]}).to_string();
    let answer = ChatAnswer::read(body.as_bytes(), Payload::Message, 100).unwrap();
    assert_eq!(answer.text.bytes(), "hmf{\"a\":1}".len() as u64);
    assert!(answer.has_content && answer.usage.is_none());
}

#[test]
fn a_whole_answer_becomes_a_stream() {
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "up", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi\nyou", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}, "logprobs": null, "finish_reason": "tool_calls"},
        {"index": 1, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
    let text = serde_json::to_string_pretty(&body).unwrap();
    let mut stream = ChatStream::open(
        Asked {
            payload: Payload::Message,
            include_usage: true,
            choices: 2,
        },
        StreamOptions::default(),
    );
    stream.push(answer_as_stream(text.as_bytes())).unwrap();
    stream.finish().unwrap();
    assert_eq!(stream.usage().unwrap().usage.output, Some(2));
    let out = stream.take().unwrap();
    let events: Vec<Tree> = std::str::from_utf8(&out)
        .unwrap()
        .split("\n\n")
        .filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok())
        .collect();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["choices"][0]["delta"]["content"], "hi\nyou");
    assert_eq!(
        events[0]["choices"][0]["delta"]["tool_calls"][1]["index"],
        1
    );
    assert_eq!(events[0]["choices"][0]["delta"]["tool_calls"][1]["id"], "b");
    assert_eq!(events[0]["object"], "chat.completion.chunk");
    assert_eq!(events[0]["usage"], Tree::Null);
    assert_eq!(events[1]["choices"][1]["finish_reason"], "length");
    assert_eq!(events[2]["choices"], json!([]));
    assert_eq!(events[2]["usage"]["total_tokens"], 5);
    assert!(out.ends_with(b"data: [DONE]\n\n"));
}

#[test]
fn tool_calls_of_every_shape_stay_json_in_a_stream() {
    for (calls, expected) in [
        ("[{}]", json!([{"index": 0}])),
        ("[ { } ]", json!([{"index": 0}])),
        (
            "[null,{\"id\":\"a\"}]",
            json!([null, {"index": 1, "id": "a"}]),
        ),
        (
            "[{\"id\":\"a\",\"index\":3}]",
            json!([{"index": 3, "id": "a"}]),
        ),
    ] {
        let body = format!(
            r#"{{"choices":[{{"index":0,"message":{{"content":"x","tool_calls":{calls}}},"finish_reason":"stop"}}]}}"#
        );
        assert!(
            ChatAnswer::read(body.as_bytes(), Payload::Message, 0).is_ok(),
            "{calls}"
        );
        let mut stream = ChatStream::open(
            Asked {
                payload: Payload::Message,
                include_usage: false,
                choices: 1,
            },
            StreamOptions::default(),
        );
        stream.push(answer_as_stream(body.as_bytes())).unwrap();
        let out = stream.take().unwrap();
        let text = std::str::from_utf8(&out).unwrap();
        let first = text.split("\n\n").next().unwrap();
        let event: Tree = serde_json::from_str(first.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(
            event["choices"][0]["delta"]["tool_calls"], expected,
            "{calls}"
        );
    }
}
