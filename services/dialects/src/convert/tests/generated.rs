//! Generated answers and conversations through every direction: nothing panics, and texts, names, arguments and their order
//! come out as they went in.

use proptest::prelude::*;

use super::*;
use crate::convert::part::{Finish, Reason};

/// An answer: pieces of thought, pieces of text, calls.
#[derive(Debug, Clone)]
struct Answer {
    thought: Vec<String>,
    text: Vec<String>,
    calls: Vec<(String, Value)>,
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,5}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let piece = || prop_oneof!["\\PC{1,20}", Just("\r\n\t \"\\ \u{2028}🦀".to_owned())];
    let object = prop::collection::hash_map("[a-z]{1,6}", value(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()));
    let call = ("[a-zA-Z_][a-zA-Z0-9_-]{0,20}", object);
    (
        prop::collection::vec(piece(), 0..4),
        prop::collection::vec(piece(), 1..5),
        prop::collection::vec(call, 0..4),
    )
        .prop_map(|(thought, text, calls)| Answer {
            thought,
            text,
            calls,
        })
}

/// The answer as an upstream of this dialect says it, by that dialect's own writer.
fn said_by(upstream: Format, answer: &Answer, stream: bool) -> Bytes {
    let other = Format::ALL.into_iter().find(|other| *other != upstream);
    let back = open(upstream, other.unwrap(), stream);
    let mut writer = back.answering.writer(back.head.clone());
    let mut out = bytes::BytesMut::new();
    writer.part(0, Part::Begin { created: Some(1) }, &mut out);
    for piece in &answer.thought {
        writer.part(0, Part::Reasoning(piece), &mut out);
    }
    for piece in &answer.text {
        writer.part(0, Part::Text(piece), &mut out);
    }
    for ((name, arguments), key) in answer.calls.iter().zip(0..) {
        let id = format!("call_{key}");
        let call = Part::Call {
            key,
            id: &id,
            name,
            custom: false,
            seal: None,
        };
        writer.part(0, call, &mut out);
        let text = arguments.to_string();
        let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
        for piece in [first, second] {
            if !piece.is_empty() {
                writer.part(0, Part::Arguments { key, piece }, &mut out);
            }
        }
        writer.part(0, Part::CallEnd { key }, &mut out);
    }
    let reason = if answer.calls.is_empty() {
        Reason::Stop
    } else {
        Reason::ToolCalls
    };
    writer.part(0, Part::Finish(Finish { reason, raw: "" }), &mut out);
    let usage = crate::usage::Usage {
        input: Some(7),
        output: Some(9),
        ..crate::usage::Usage::default()
    };
    writer.part(0, Part::Usage(usage), &mut out);
    writer.end(&mut out);
    out.freeze()
}

fn same(said: &Said, answer: &Answer, what: &str) {
    assert_eq!(said.text, answer.text.concat(), "{what}");
    assert_eq!(said.reasoning, answer.thought.concat(), "{what}");
    let calls: Vec<_> = said
        .calls
        .iter()
        .map(|(_, name, input)| (name.clone(), input.clone()))
        .collect();
    assert_eq!(calls, answer.calls, "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn generated_answers_keep_their_words_whole_and_streamed(answer in answer(), step in 1_usize..90) {
        for (caller, upstream) in directions() {
            let what = format!("{caller:?} of {upstream:?}");
            let bytes = said_by(upstream, &answer, true);
            let out = run(&open(caller, upstream, true), &bytes, step);
            same(&gathered(caller, &out), &answer, &what);
            let body = said_by(upstream, &answer, false);
            let read = open(caller, upstream, false).read(&body, &ReadOptions::default()).unwrap();
            same(&whole(caller, &serde_json::from_slice(&read.body).unwrap()), &answer, &what);
        }
    }

    #[test]
    fn generated_conversations_keep_their_words_in_order(words in prop::collection::vec("[a-z]{12}", 2..9)) {
        for (caller, upstream) in directions() {
            let turn = |(word, number): (&String, usize)| {
                let user = number % 2 == 0;
                match caller {
                    Format::Chat | Format::Anthropic => json!({"role": if user { "user" } else { "assistant" }, "content": word}),
                    Format::Responses => {
                        let kind = if user { "input_text" } else { "output_text" };
                        json!({"role": if user { "user" } else { "assistant" }, "content": [{"type": kind, "text": word}]})
                    }
                    Format::Gemini => json!({"role": if user { "user" } else { "model" }, "parts": [{"text": word}]}),
                }
            };
            let turns: Vec<Value> = words.iter().zip(0..).map(turn).collect();
            let body = match caller {
                Format::Chat => json!({"model": "m", "messages": turns}),
                Format::Anthropic => json!({"model": "m", "max_tokens": 9, "messages": turns}),
                Format::Responses => json!({"model": "m", "input": turns}),
                Format::Gemini => json!({"contents": turns}),
            };
            let text = body.to_string();
            let target = target(false);
            let opened = direction(caller, upstream).unwrap()(&Raw::body(&text), &target).unwrap();
            prop_assert!(opened.dropped.names().is_empty());
            let mut at = 0;
            for word in &words {
                let found = opened.body.get(at..).and_then(|rest| rest.find(word.as_str()));
                prop_assert!(found.is_some(), "{:?} to {:?}: {} in {}", caller, upstream, word, opened.body);
                at += found.unwrap_or(0) + word.len();
            }
        }
    }
}
