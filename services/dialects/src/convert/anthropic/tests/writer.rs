//! Saying an answer.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::super::writer::AnthropicWriter;
use crate::Form;
use crate::convert::Format;
use crate::convert::part::{Finish, Head, Part, Reason, Writer as _};
use crate::usage::Usage;

fn said(form: Form, parts: &[Part<'_>]) -> String {
    let head = Head {
        form,
        model: "pub".to_owned(),
        seed: "s1".to_owned(),
        created: 7,
    };
    let mut writer = AnthropicWriter::new(&head, true, Format::Chat);
    let mut out = BytesMut::new();
    for part in parts {
        writer.part(0, part.clone(), &mut out);
    }
    writer.end(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

/// The events without their names, which must be their types.
fn events(parts: &[Part<'_>]) -> Vec<Value> {
    let said = said(Form::Events, parts);
    let events = said.trim_end().split("\n\n");
    let read = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], name.strip_prefix("event: ").unwrap());
        data
    };
    events.map(read).collect()
}

fn whole(parts: &[Part<'_>]) -> Value {
    serde_json::from_str(&said(Form::Whole, parts)).unwrap()
}

const fn call(key: u32, id: &str) -> Part<'_> {
    Part::Call {
        key,
        id,
        name: "f",
        custom: false,
        seal: None,
    }
}

const fn piece(key: u32, piece: &str) -> Part<'_> {
    Part::Arguments { key, piece }
}

const fn finish(reason: Reason<'_>) -> Part<'_> {
    Part::Finish(Finish { reason, raw: "raw" })
}

#[test]
fn blocks_of_what_is_mixed_never_overlap_and_lose_nothing() {
    let parts = [
        Part::Begin { created: None },
        Part::Text("a"),
        call(0, "c0"),
        piece(0, "{\"x\""),
        call(1, "c1"),
        piece(1, "{}"),
        Part::Text("late"),
        piece(0, ":1}"),
        finish(Reason::Stop),
    ];
    let (mut open, mut next) = (None, 0);
    let mut inputs = vec![String::new(); 4];
    for event in events(&parts) {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((open, &event["index"]), (None, &json!(next)));
                open = Some(next);
                next += 1;
            }
            "content_block_delta" => {
                assert_eq!(event["index"], open.unwrap());
                if let Some(piece) = event["delta"]["partial_json"].as_str() {
                    inputs[open.unwrap()].push_str(piece);
                }
            }
            "content_block_stop" => assert_eq!(event["index"], open.take().unwrap()),
            _ => assert_eq!(open, None),
        }
    }
    assert_eq!(inputs, ["", "{\"x\":1}", "{}", ""]);
    let message = whole(&parts);
    assert_eq!(message["stop_reason"], "tool_use");
    let used =
        |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "f", "input": input});
    assert_eq!(
        message["content"],
        json!([
            {"type": "text", "text": "a"},
            used("c0", json!({"x": 1})),
            used("c1", json!({})),
            {"type": "text", "text": "late"},
        ])
    );
}

#[test]
fn a_url_is_cited_in_the_text_that_it_belongs_to() {
    let parts = [
        Part::Text("It rains."),
        Part::Citation {
            url: "https://a",
            title: "",
            span: Some((0, 9)),
            raw: "{}",
        },
        finish(Reason::Stop),
    ];
    let cited = json!({"type": "web_search_result_location", "cited_text": "", "encrypted_index": "",
        "url": "https://a", "title": null});
    let message = whole(&parts);
    assert_eq!(
        message["content"],
        json!([{"type": "text", "text": "It rains.", "citations": [cited]}])
    );
    let events = events(&parts);
    assert_eq!(
        events[3]["delta"],
        json!({"type": "citations_delta", "citation": cited})
    );
    assert_eq!(events[4]["type"], "content_block_stop");
}

#[test]
fn arguments_that_are_no_object_are_told_as_such_in_a_document() {
    let message = whole(&[call(0, "c"), piece(0, "{\"x\":"), finish(Reason::Length)]);
    assert_eq!(message["content"][0]["input"], json!({"_raw": "{\"x\":"}));
    assert_eq!(message["stop_reason"], "max_tokens");
}

#[test]
fn arguments_that_are_no_object_are_told_alike_in_a_stream() {
    for (pieces, input) in [
        (&["not ", "json"][..], json!({"_raw": "not json"})),
        (&["[1", ",2]"], json!({"_raw": "[1,2]"})),
        (&["{", "'a': 1}"], json!({"_raw": "{'a': 1}"})),
        (&[" ", "{", "\"a\"", ":1}"], json!({"a": 1})),
        (&[" {", "} "], json!({})),
        (&[" "], json!({})),
    ] {
        let mut parts = vec![call(0, "c")];
        parts.extend(pieces.iter().map(|text| piece(0, text)));
        parts.extend([Part::CallEnd { key: 0 }, finish(Reason::ToolCalls)]);
        assert_eq!(whole(&parts)["content"][0]["input"], input);
        let deltas: Vec<_> = events(&parts)
            .iter()
            .filter_map(|event| Some(event["delta"]["partial_json"].as_str()?.to_owned()))
            .collect();
        let said = match deltas.concat() {
            none if none.is_empty() => json!({}),
            said => serde_json::from_str(&said).unwrap(),
        };
        assert_eq!(said, input, "{deltas:?}");
    }
}

#[test]
fn arguments_that_began_as_an_object_and_are_none_fail_the_answer() {
    let head = Head {
        form: Form::Events,
        model: "pub".to_owned(),
        seed: "s1".to_owned(),
        created: 7,
    };
    for (pieces, reason, failed) in [
        (["{\"a\":", "1}"], Reason::ToolCalls, [false, false]),
        (["{\"a\":", "True}"], Reason::ToolCalls, [true, true]),
        (["{\"a\":1}", "{\"b\":2}"], Reason::ToolCalls, [true, true]),
        (["{\"a\":", "1"], Reason::ToolCalls, [false, true]),
        // It was cut off with the answer, which says so.
        (["{\"a\":", "1"], Reason::Length, [false, false]),
    ] {
        let mut writer = AnthropicWriter::new(&head, true, Format::Chat);
        let mut out = BytesMut::new();
        let parts = pieces.map(|text| piece(0, text));
        for part in [call(0, "c")].into_iter().chain(parts) {
            writer.part(0, part, &mut out);
        }
        writer.part(0, finish(reason), &mut out);
        let found = [false, true].map(|all| writer.failure(all).is_some());
        assert_eq!(found, failed, "{pieces:?}");
    }
}

#[test]
fn usage_is_told_in_full_at_the_end_and_what_is_unknown_is_absent() {
    let usage = Usage {
        input: Some(40),
        cached_input: Some(60),
        cache_write_5m: Some(1),
        cache_write_1h: Some(2),
        output: Some(20),
        reasoning: Some(5),
        ..Usage::default()
    };
    let expected = json!({"input_tokens": 40, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 60,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
        "output_tokens": 20, "output_tokens_details": {"thinking_tokens": 5}});
    let parts = [Part::Text("x"), finish(Reason::Stop), Part::Usage(usage)];
    assert_eq!(whole(&parts)["usage"], expected);
    let events = events(&parts);
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 0);
    assert_eq!(events[events.len() - 2]["usage"], expected);
    let none = whole(&[Part::Text("x")]);
    assert_eq!(
        none["usage"],
        json!({"input_tokens": 0, "output_tokens": 0})
    );
}

#[test]
fn reasons_that_this_dialect_says_less_of_keep_their_word() {
    for (reason, expected, native) in [
        (Reason::Stop, "end_turn", None),
        (Reason::StopSequence("E"), "stop_sequence", None),
        (Reason::Filtered, "refusal", Some("raw")),
        (Reason::ContextFull, "model_context_window_exceeded", None),
        (Reason::Paused, "pause_turn", None),
        (Reason::Other, "end_turn", Some("raw")),
        (Reason::Cut, "max_tokens", Some("raw")),
    ] {
        let message = whole(&[Part::Text("x"), finish(reason)]);
        assert_eq!(message["stop_reason"], expected);
        assert_eq!(message["native_stop_reason"].as_str(), native);
        let sequence = (expected == "stop_sequence").then_some("E");
        assert_eq!(message["stop_sequence"].as_str(), sequence);
    }
    let refused = whole(&[Part::Refusal("no"), finish(Reason::Stop)]);
    assert_eq!(refused["stop_reason"], "refusal");
    assert_eq!(refused["content"][0]["text"], "no");
}
