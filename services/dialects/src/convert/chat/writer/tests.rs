use serde_json::{Value, json};

use super::*;
use crate::convert::part::{Finish, Reason};

const USAGE: AnswerShape = AnswerShape {
    include_usage: true,
    functions: false,
};
const OLDER: AnswerShape = AnswerShape {
    include_usage: false,
    functions: true,
};

fn write(form: Form, asked: AnswerShape, parts: &[(u32, Part<'_>)]) -> String {
    let head = Head {
        form,
        model: "public".to_owned(),
        seed: "s1".to_owned(),
        created: 7,
    };
    let mut writer = ChatWriter::new(asked, head);
    let mut out = BytesMut::new();
    for (choice, part) in parts {
        writer.part(*choice, part.clone(), &mut out);
    }
    writer.end(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

/// The chunks of a stream; it must end with `[DONE]`.
fn chunks(asked: AnswerShape, parts: &[(u32, Part<'_>)]) -> Vec<Value> {
    let text = write(Form::Events, asked, parts);
    let mut events: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(events.pop(), Some("data: [DONE]"));
    let data = events
        .iter()
        .map(|event| event.strip_prefix("data: ").unwrap());
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    let choices = chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
    choices.map(|choice| choice["delta"].clone()).collect()
}

fn whole(asked: AnswerShape, parts: &[(u32, Part<'_>)]) -> Value {
    serde_json::from_str(&write(Form::Whole, asked, parts)).unwrap()
}

const fn call(key: u32, id: &'static str, name: &'static str) -> (u32, Part<'static>) {
    let call = Part::Call {
        key,
        id,
        name,
        custom: false,
        seal: None,
    };
    (0, call)
}

const fn argue(key: u32, piece: &'static str) -> (u32, Part<'static>) {
    (0, Part::Arguments { key, piece })
}

const fn finish(reason: Reason<'static>, raw: &'static str) -> (u32, Part<'static>) {
    (0, Part::Finish(Finish { reason, raw }))
}

fn used() -> (u32, Part<'static>) {
    let usage = Usage {
        input: Some(30),
        cached_input: Some(60),
        cache_write_5m: Some(10),
        output: Some(20),
        reasoning: Some(5),
        ..Usage::default()
    };
    (0, Part::Usage(usage))
}

#[test]
fn usage_comes_once_last_and_every_other_chunk_has_null() {
    let parts = [(0, Part::Text("a")), finish(Reason::Stop, "stop"), used()];
    let mut all = chunks(USAGE, &parts);
    let last = all.pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        last["usage"],
        json!({"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
            "prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}})
    );
    for chunk in &all {
        assert_eq!(chunk.get("usage"), Some(&Value::Null));
        assert_eq!(chunk["id"], "chatcmpl-s1");
        assert_eq!(
            (&chunk["created"], &chunk["model"]),
            (&json!(7), &json!("public"))
        );
    }
    for chunk in chunks(AnswerShape::default(), &parts) {
        assert!(chunk.get("usage").is_none() && chunk["choices"][0].is_object());
    }
}

#[test]
fn the_role_comes_once_a_choice_and_before_everything_else() {
    let stop = Finish {
        reason: Reason::Stop,
        raw: "stop",
    };
    let parts = [
        (0, Part::Begin { created: Some(3) }),
        (1, Part::Text("b")),
        (0, Part::Text("a")),
        (1, Part::Finish(stop)),
        (0, Part::Finish(stop)),
    ];
    let all = chunks(AnswerShape::default(), &parts);
    let said: Vec<_> = all
        .iter()
        .map(|chunk| {
            let choice = &chunk["choices"][0];
            (
                choice["index"].as_u64().unwrap(),
                choice["delta"].get("role").is_some(),
                choice["finish_reason"].is_string(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (0, true, false),
            (1, true, false),
            (1, false, false),
            (0, false, false),
            (0, false, true),
            (1, false, true)
        ]
    );
    assert_eq!(all[0]["created"], 3);
}

#[test]
fn mixed_calls_keep_their_index_and_a_call_without_arguments_has_none() {
    let parts = [
        call(0, "a", "f"),
        call(1, "", "g"),
        argue(1, "{\"y\""),
        argue(0, "{\"x\":1}"),
        argue(1, ":2}"),
        (0, Part::CallEnd { key: 0 }),
        (0, Part::CallEnd { key: 1 }),
        call(2, "c", "h"),
        finish(Reason::Stop, "stop"),
    ];
    let all = chunks(AnswerShape::default(), &parts);
    assert_eq!(
        deltas(&all)[1..],
        [
            json!({"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}),
            json!({"tool_calls":[{"index":1,"id":"call_s1_1","type":"function","function":{"name":"g","arguments":""}}]}),
            json!({"tool_calls":[{"index":1,"function":{"arguments":"{\"y\""}}]}),
            json!({"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}),
            json!({"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]}),
            json!({"tool_calls":[{"index":2,"id":"c","type":"function","function":{"name":"h","arguments":""}}]}),
            json!({"tool_calls":[{"index":2,"function":{"arguments":"{}"}}]}),
            json!({}),
        ]
    );
    assert_eq!(
        all.last().unwrap()["choices"][0]["finish_reason"],
        "tool_calls"
    );
    let message = whole(AnswerShape::default(), &parts)["choices"][0]["message"].clone();
    assert_eq!(message["content"], Value::Null);
    let said: Vec<_> = (0..3)
        .map(|at| message["tool_calls"][at]["function"]["arguments"].clone())
        .collect();
    assert_eq!(said, ["{\"x\":1}", "{\"y\":2}", "{}"]);
}

#[test]
fn a_call_that_was_broken_off_does_not_look_complete() {
    let parts = [call(0, "a", "f"), finish(Reason::Length, "max_tokens")];
    let choice = whole(AnswerShape::default(), &parts)["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"]["arguments"],
        ""
    );
    let all = chunks(AnswerShape::default(), &parts);
    assert_eq!(all.len(), 3);
}

#[test]
fn a_custom_tools_call_is_custom() {
    let parts = [
        (
            0,
            Part::Call {
                key: 0,
                id: "a",
                name: "sql",
                custom: true,
                seal: None,
            },
        ),
        argue(0, "SELECT 1"),
        finish(Reason::ToolCalls, "tool_use"),
    ];
    assert_eq!(
        deltas(&chunks(AnswerShape::default(), &parts))[1..3],
        [
            json!({"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"sql","input":""}}]}),
            json!({"tool_calls":[{"index":0,"custom":{"input":"SELECT 1"}}]}),
        ]
    );
    assert_eq!(
        whole(AnswerShape::default(), &parts)["choices"][0]["message"]["tool_calls"][0],
        json!({"id":"a","type":"custom","custom":{"name":"sql","input":"SELECT 1"}})
    );
}

#[test]
fn older_functions_get_their_call_and_a_second_one_does_not_mix_with_it() {
    let parts = [
        call(0, "a", "f"),
        argue(0, "{}"),
        call(1, "b", "g"),
        argue(1, "[]"),
        finish(Reason::ToolCalls, "tool_use"),
    ];
    assert_eq!(
        deltas(&chunks(OLDER, &parts))[1..5],
        [
            json!({"function_call":{"name":"f","arguments":""}}),
            json!({"function_call":{"arguments":"{}"}}),
            json!({"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":""}}]}),
            json!({"tool_calls":[{"index":0,"function":{"arguments":"[]"}}]}),
        ]
    );
    let choice = whole(OLDER, &parts)["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "function_call");
    assert_eq!(
        choice["message"]["function_call"],
        json!({"name":"f","arguments":"{}"})
    );
    assert_eq!(choice["message"]["tool_calls"][0]["id"], "b");
}

#[test]
fn thoughts_have_their_own_place_and_each_seal_its_item() {
    let seal = |value| Seal {
        maker: Format::Anthropic,
        redacted: false,
        value,
    };
    let hidden = Seal {
        redacted: true,
        ..seal("R")
    };
    let parts = [
        (0, Part::Reasoning("one")),
        (0, Part::Sealed(seal("S1"))),
        (0, Part::Text("a")),
        (0, Part::Sealed(hidden)),
        (0, Part::Reasoning("two")),
        (0, Part::Sealed(seal("S2"))),
    ];
    let items = [
        json!({"index":0,"type":"reasoning.text","text":"one","signature":"switchboard.a.S1"}),
        json!({"index":1,"type":"reasoning.encrypted","data":"switchboard.ax.R"}),
        json!({"index":2,"type":"reasoning.text","text":"two","signature":"switchboard.a.S2"}),
    ];
    let deltas = deltas(&chunks(AnswerShape::default(), &parts));
    let told = deltas
        .iter()
        .filter_map(|delta| delta.get("reasoning_details"));
    let told: Vec<_> = told.map(|list| list[0].clone()).collect();
    assert_eq!(told, items);
    let message = whole(AnswerShape::default(), &parts)["choices"][0]["message"].clone();
    assert_eq!(
        (&message["content"], &message["reasoning_content"]),
        (&json!("a"), &json!("onetwo"))
    );
    assert_eq!(message["reasoning_details"].as_array().unwrap().len(), 3);
}

#[test]
fn reasons_that_chat_does_not_know_keep_the_upstreams_word() {
    for (reason, raw, word, native) in [
        (
            Reason::Refused,
            "refusal",
            "content_filter",
            json!("refusal"),
        ),
        (
            Reason::ContextFull,
            "model_context_window_exceeded",
            "length",
            json!("model_context_window_exceeded"),
        ),
        (Reason::Paused, "pause_turn", "stop", json!("pause_turn")),
        (
            Reason::Filtered,
            "RECITATION",
            "content_filter",
            json!("RECITATION"),
        ),
        (Reason::Length, "MAX_TOKENS", "length", Value::Null),
        (Reason::Other, "new_one", "stop", json!("new_one")),
        (Reason::Cut, "incomplete", "length", json!("incomplete")),
    ] {
        let parts = [(0, Part::Text("a")), finish(reason, raw)];
        let choice = whole(AnswerShape::default(), &parts)["choices"][0].clone();
        assert_eq!(
            (&choice["finish_reason"], &choice["native_finish_reason"]),
            (&json!(word), &native)
        );
    }
}

#[test]
fn a_citation_without_a_place_stands_where_the_text_had_come_to_and_one_without_url_is_told_as_it_is()
 {
    let cite = |url, span| Part::Citation {
        url,
        title: "t",
        span,
        raw: r#"{"type":"char_location","cited_text":"x"}"#,
    };
    let parts = [
        (0, Part::Text("né")),
        (0, cite("https://x", None)),
        (0, cite("https://y", Some((0, 1)))),
        (0, cite("", None)),
    ];
    let message = whole(AnswerShape::default(), &parts)["choices"][0]["message"].clone();
    let spans: Vec<_> = (0..2)
        .map(|at| {
            let cited = &message["annotations"][at]["url_citation"];
            (cited["start_index"].clone(), cited["end_index"].clone())
        })
        .collect();
    assert_eq!(spans, [(json!(2), json!(2)), (json!(0), json!(1))]);
    assert_eq!(
        message["citations"],
        json!([{"type":"char_location","cited_text":"x"}])
    );
    let deltas = deltas(&chunks(AnswerShape::default(), &parts));
    assert_eq!(
        deltas[4],
        json!({"citations":[{"index":0,"type":"char_location","cited_text":"x"}]})
    );
}

#[test]
fn log_probabilities_and_refusals_have_their_place() {
    let parts = [
        (0, Part::Text("a")),
        (0, Part::Logprobs(r#"{"token":"a","logprob":-1}"#)),
        (0, Part::Refusal("no")),
    ];
    let choice = whole(AnswerShape::default(), &parts)["choices"][0].clone();
    assert_eq!(
        choice["logprobs"]["content"],
        json!([{"token":"a","logprob":-1}])
    );
    assert_eq!(choice["message"]["refusal"], "no");
    let all = chunks(AnswerShape::default(), &parts);
    assert_eq!(all[2]["choices"][0]["logprobs"]["content"][0]["token"], "a");
    assert_eq!(deltas(&all)[3], json!({"refusal":"no"}));
}
