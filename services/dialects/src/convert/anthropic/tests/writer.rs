//! Saying an answer.

use bytes::BytesMut;

use super::super::writer::MessageWriter;
use crate::Form;
use crate::convert::Format;
use crate::convert::part::{Finish, Head, Part, Reason, Writer as _};
use crate::convert::seal::Seal;
use crate::usage::Usage;

fn head(form: Form) -> Head {
    Head {
        form,
        model: "pub".to_owned(),
        seed: "s1".to_owned(),
        created: 7,
    }
}

fn said(form: Form, parts: &[Part<'_>]) -> String {
    let mut writer = MessageWriter::new(head(form), Format::Chat);
    let mut out = BytesMut::new();
    for part in parts {
        writer.part(0, part.clone(), &mut out);
    }
    writer.end(&mut out);
    assert!(!out.contains(&b'\r'));
    String::from_utf8(out.to_vec()).unwrap()
}

/// The events without their names, which must be their types.
fn events(parts: &[Part<'_>]) -> Vec<serde_json::Value> {
    let said = said(Form::Events, parts);
    let events = said.trim_end().split("\n\n");
    events
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let data: serde_json::Value =
                serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(data["type"], name.strip_prefix("event: ").unwrap());
            data
        })
        .collect()
}

fn whole(parts: &[Part<'_>]) -> serde_json::Value {
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

const fn finish(reason: Reason<'_>) -> Part<'_> {
    Part::Finish(Finish { reason, raw: "raw" })
}

#[test]
fn blocks_of_interleaved_calls_never_overlap() {
    let parts = [
        Part::Begin { created: None },
        Part::Text("a"),
        call(0, "functions.f:0"),
        Part::Arguments {
            key: 0,
            piece: "{\"x\"",
        },
        call(1, ""),
        Part::Arguments {
            key: 1,
            piece: "{}",
        },
        Part::Text("late"),
        Part::Arguments {
            key: 0,
            piece: ":1}",
        },
        finish(Reason::Stop),
    ];
    let events = events(&parts);
    let mut open = None;
    let mut next = 0;
    let mut inputs = vec![String::new(); 4];
    for event in &events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(open, None);
                assert_eq!(event["index"], next);
                open = Some(next);
                next += 1;
            }
            "content_block_delta" => {
                assert_eq!(event["index"], open.unwrap());
                let index = event["index"].as_u64().unwrap() as usize;
                if let Some(piece) = event["delta"]["partial_json"].as_str() {
                    inputs[index].push_str(piece);
                }
            }
            "content_block_stop" => {
                assert_eq!(event["index"], open.take().unwrap());
            }
            _ => assert_eq!(open, None),
        }
    }
    assert_eq!(inputs, ["", "{\"x\":1}", "{}", ""]);
    let message = whole(&parts);
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(
        message["content"],
        serde_json::json!([
            {"type":"text","text":"a"},
            {"type":"tool_use","id":"id_functions_2ef_3a0","name":"f","input":{"x":1}},
            {"type":"tool_use","id":"toolu_s1_1","name":"f","input":{}},
            {"type":"text","text":"late"},
        ])
    );
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn reasoning_has_a_signature_of_its_maker_or_the_mark_of_who_seals_nothing() {
    let seal = Seal {
        maker: Format::Gemini,
        redacted: false,
        value: "G",
    };
    let message = whole(&[
        Part::Reasoning("one"),
        Part::Sealed(seal),
        Part::Reasoning("two"),
        Part::Text("t"),
        Part::Call {
            key: 0,
            id: "c",
            name: "f",
            custom: false,
            seal: Some(seal),
        },
        Part::CallEnd { key: 0 },
        finish(Reason::ToolCalls),
    ]);
    assert_eq!(
        message["content"],
        serde_json::json!([
            {"type":"thinking","thinking":"one","signature":"switchboard.g.G"},
            {"type":"thinking","thinking":"two","signature":"switchboard.c."},
            {"type":"text","text":"t"},
            {"type":"thinking","thinking":"","signature":"switchboard.g.G"},
            {"type":"tool_use","id":"c","name":"f","input":{}},
        ])
    );
}

#[test]
fn arguments_that_are_no_object_are_told_as_such_in_a_document() {
    let message = whole(&[
        call(0, "c"),
        Part::Arguments {
            key: 0,
            piece: "{\"x\":",
        },
        finish(Reason::Length),
    ]);
    assert_eq!(
        message["content"][0]["input"],
        serde_json::json!({"INVALID_JSON":"{\"x\":"})
    );
    assert_eq!(message["stop_reason"], "max_tokens");
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
    let expected = serde_json::json!({"input_tokens":40,"cache_creation_input_tokens":3,"cache_read_input_tokens":60,
        "cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":2},
        "output_tokens":20,"output_tokens_details":{"thinking_tokens":5}});
    let parts = [Part::Text("x"), finish(Reason::Stop), Part::Usage(usage)];
    assert_eq!(whole(&parts)["usage"], expected);
    let events = events(&parts);
    assert_eq!(events[0]["type"], "message_start");
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 0);
    assert_eq!(events[events.len() - 2]["usage"], expected);
    assert_eq!(events[events.len() - 1]["type"], "message_stop");
    let none = whole(&[Part::Text("x")]);
    assert_eq!(
        none["usage"],
        serde_json::json!({"input_tokens":0,"output_tokens":0})
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
