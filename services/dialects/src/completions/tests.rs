use bytes::{BufMut as _, Bytes};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::carry::{AnswerStream, StreamOptions};
use crate::dialect::{Change, DialectRequest as _, ReadOptions};
use crate::error::Class;

fn peek(body: &str) -> CompletionsRequest {
    CompletionsRequest::peek(body.as_bytes()).unwrap()
}

fn prepared(body: &str, cap: Option<u64>) -> String {
    let change = Change {
        model: "up",
        output_cap: cap,
    };
    let prepared = peek(body).prepare(&Bytes::copy_from_slice(body.as_bytes()), &change);
    String::from_utf8(prepared.to_vec()).unwrap()
}

#[test]
fn prompts_times_answers_are_the_choices() {
    for (fields, choices, made) in [
        (r#""prompt":"a""#, 1, 1),
        (r#""prompt":null"#, 1, 1),
        (r#""prompt":["a","b"],"n":3"#, 6, 6),
        (r#""prompt":[1,2,3],"n":2,"best_of":5"#, 2, 5),
        (r#""prompt":[[1],[2,3]],"best_of":null"#, 2, 2),
    ] {
        let request = peek(&format!(r#"{{"model":"m",{fields}}}"#));
        assert_eq!(
            (request.choices(), request.made()),
            (choices, made),
            "{fields}"
        );
    }
    assert_eq!(
        peek(r#"{"model":"m","prompt":[[1],[2,3]]}"#).prompts.tokens,
        3
    );
    let scored = peek(r#"{"model":"m","prompt":"a","max_tokens":0,"echo":true}"#);
    assert_eq!(scored.output_limit(), Some(0));
}

#[test]
fn wrong_requests_are_told_which_field() {
    for (body, param) in [
        (r#"{"prompt":"x"}"#, "model"),
        (r#"{"model":"m"}"#, "prompt"),
        (r#"{"model":"m","prompt":[]}"#, "prompt"),
        (r#"{"model":"m","prompt":{}}"#, "prompt"),
        (r#"{"model":"m","prompt":"x","n":0}"#, "n"),
        (r#"{"model":"m","prompt":"x","best_of":129}"#, "best_of"),
        (
            r#"{"model":"m","prompt":"x","max_tokens":-1}"#,
            "max_tokens",
        ),
        (r#"{"model":"m","prompt":"x","stream":1}"#, "stream"),
    ] {
        let error = CompletionsRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
}

#[test]
fn only_the_model_the_usage_switch_and_the_cap_change_on_the_way() {
    assert_eq!(
        prepared(
            r#"{ "x":1e2, "model":"m","prompt":"p","stream":true }"#,
            Some(9)
        ),
        r#"{ "x":1e2, "model":"up","prompt":"p","stream":true,"stream_options":{"include_usage":true},"max_tokens":9 }"#
    );
    assert_eq!(
        prepared(r#"{"model":"up","prompt":"p","max_tokens":5}"#, Some(9)),
        r#"{"model":"up","prompt":"p","max_tokens":5}"#
    );
}

#[test]
fn the_text_of_all_prompts_is_counted() {
    let body = r#"{"model":"m","prompt":["one","two"],"suffix":"three","user":"u"}"#;
    let mut text = crate::TextBuffer::new(100);
    assert_eq!(peek(body).input(body.as_bytes(), &mut text), 0);
    assert_eq!(text.text(), "one\ntwo\nthree");
}

fn chunk(text: &str, index: u64, finish: Option<&str>) -> String {
    let chunk = json!({"id": "cmpl-1", "object": "text_completion", "model": "up",
        "choices": [{"text": text, "index": index, "logprobs": null, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

const USAGE: &str = "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"up\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n";

fn answer(choices: u64) -> String {
    let mut out = String::new();
    for index in 0..choices {
        out += &chunk("Hé", index, None);
        out += &chunk("llo", index, None);
        out += &chunk("", index, Some("stop"));
    }
    out + USAGE + "data: [DONE]\n\n"
}

fn open(request: &str, public: Option<&str>) -> Box<dyn AnswerStream> {
    peek(request).stream(StreamOptions {
        public_model: public.map(str::to_owned),
        ..StreamOptions::default()
    })
}

/// All that comes out, however the bytes are split.
fn carried(stream: &mut dyn AnswerStream, body: &[u8], piece: usize) -> String {
    let mut out = Vec::new();
    for piece in body.chunks(piece.max(1)) {
        stream.push(Bytes::copy_from_slice(piece)).unwrap();
        out.put_slice(&stream.take().unwrap_or_default());
    }
    stream.finish().unwrap();
    out.put_slice(&stream.take().unwrap_or_default());
    String::from_utf8(out).unwrap()
}

const ASKED: &str =
    r#"{"model":"m","prompt":"p","stream":true,"stream_options":{"include_usage":true}}"#;
const UNASKED: &str = r#"{"model":"m","prompt":"p","stream":true}"#;

#[test]
fn usage_is_hidden_from_a_caller_who_did_not_ask_and_billed_all_the_same() {
    let mut stream = open(UNASKED, Some("m"));
    let out = carried(&mut *stream, answer(1).as_bytes(), 7);
    let plain: String =
        (chunk("Hé", 0, None) + &chunk("llo", 0, None) + &chunk("", 0, Some("stop")))
            .replace("\"up\"", "\"m\"");
    assert_eq!(out, plain + "data: [DONE]\n\n");
    let usage = stream.usage().unwrap().usage;
    assert_eq!((usage.input, usage.output), (Some(3), Some(2)));
    assert_eq!(stream.text().text(), "Héllo");
}

#[test]
fn a_caller_who_asked_gets_one_usage_chunk_last() {
    let mut stream = open(ASKED, None);
    let out = carried(&mut *stream, answer(1).as_bytes(), 1000);
    let events: Vec<&str> = out.trim_end().split("\n\n").collect();
    assert_eq!(events[events.len() - 2], USAGE.trim_end());
    for event in &events[..events.len() - 2] {
        let chunk: Value = serde_json::from_str(&event[6..]).unwrap();
        assert_eq!(chunk.get("usage"), Some(&Value::Null), "{event}");
    }
}

#[test]
fn a_stream_is_whole_without_its_mark_only_when_all_choices_have_ended() {
    let unmarked = |choices| answer(choices).replace("data: [DONE]\n\n", "");
    let two = r#"{"model":"m","prompt":["p","q"],"stream":true}"#;
    let mut whole = open(two, None);
    assert!(carried(&mut *whole, unmarked(2).as_bytes(), 50).ends_with("data: [DONE]\n\n"));
    let mut cut = open(two, None);
    cut.push(unmarked(1).into()).unwrap();
    assert_eq!(cut.finish().unwrap_err().class, Class::Cut);
}

#[test]
fn an_answer_without_texts_is_none() {
    let request = peek(UNASKED);
    let read = |body: &str| {
        request.read(
            &Bytes::copy_from_slice(body.as_bytes()),
            &ReadOptions::default(),
        )
    };
    for (body, class) in [
        ("", Class::Empty),
        ("{", Class::Malformed),
        (r#"{"choices":[]}"#, Class::Malformed),
        (
            r#"{"choices":[{"message":{"content":"x"}}]}"#,
            Class::Malformed,
        ),
        (
            r#"{"choices":[{"text":"x"},{"index":1}]}"#,
            Class::Malformed,
        ),
    ] {
        assert_eq!(read(body).unwrap_err().class, class, "{body}");
    }
    let error = read(r#"{"error":{"message":"busy","code":503}}"#).unwrap_err();
    assert!(error.class.retryable());
    let body = Bytes::from_static(
        br#"{"object":"text_completion","model":"up","choices":[{"text":"ab","index":0}]}"#,
    );
    let options = ReadOptions {
        public_model: Some("m"),
        text_bound: 100,
        ..ReadOptions::default()
    };
    let answer = request.read(&body, &options).unwrap();
    assert_eq!(answer.text.unwrap().text(), "ab");
    assert_eq!(
        &*answer.body,
        br#"{"object":"text_completion","model":"m","choices":[{"text":"ab","index":0}]}"#
    );
}

#[test]
fn a_whole_answer_can_be_streamed() {
    let body = "{\n\"object\":\"text_completion\",\"choices\":[{\"text\":\"ab\",\"index\":0,\"finish_reason\":\"stop\"}],\n\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}";
    let events = peek(UNASKED).as_events(body.as_bytes());
    let mut stream = open(UNASKED, None);
    let out = carried(&mut *stream, &events, 9);
    assert_eq!(
        out,
        "data: { \"object\":\"text_completion\",\"choices\":[{\"text\":\"ab\",\"index\":0,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
    );
    assert_eq!(stream.usage().unwrap().usage.output, Some(2));
}

proptest! {
    #[test]
    fn any_split_gives_the_same(piece in 1_usize..400, choices in 1_u64..4) {
        let request = format!(r#"{{"model":"m","prompt":"p","n":{choices},"stream":true}}"#);
        let whole = carried(&mut *open(&request, None), answer(choices).as_bytes(), 100_000);
        prop_assert_eq!(carried(&mut *open(&request, None), answer(choices).as_bytes(), piece), whole);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = CompletionsRequest::peek(&bytes);
        let mut stream = open(UNASKED, None);
        let _ = stream.push(Bytes::from(bytes));
        let _ = stream.finish();
    }
}
