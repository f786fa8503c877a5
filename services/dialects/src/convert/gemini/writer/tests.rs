use super::*;
use crate::convert::Format;
use crate::convert::part::{Finish, Reason};
use crate::convert::seal::Seal;

fn say(form: Form, parts: &[(u32, Part<'_>)]) -> String {
    let mut writer = GeminiWriter::new(&Head {
        form,
        model: "m".to_owned(),
        seed: "r1".to_owned(),
        created: 7,
    });
    let mut out = BytesMut::new();
    for (choice, part) in parts {
        writer.part(*choice, part.clone(), &mut out);
    }
    writer.end(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

const STOP: Part<'_> = Part::Finish(Finish {
    reason: Reason::ToolCalls,
    raw: "tool_use",
});

fn answer() -> Vec<(u32, Part<'static>)> {
    let call = |key, id, name| Part::Call {
        key,
        id,
        name,
        custom: false,
        seal: None,
    };
    let parts = vec![
        Part::Begin { created: None },
        Part::Reasoning("thi"),
        Part::Reasoning("nk"),
        Part::Sealed(Seal {
            maker: Format::Anthropic,
            redacted: false,
            value: "s=",
        }),
        Part::Text("Let "),
        Part::Text("me\n"),
        call(0, "a", "f"),
        call(1, "b", "g"),
        Part::Arguments {
            key: 0,
            piece: "{\"x\":\n",
        },
        Part::CallEnd { key: 1 },
        Part::Arguments {
            key: 0,
            piece: "1}",
        },
        Part::CallEnd { key: 0 },
        STOP,
        Part::Usage(Usage {
            input: Some(40),
            cached_input: Some(60),
            output: Some(20),
            reasoning: Some(5),
            ..Usage::default()
        }),
    ];
    parts.into_iter().map(|part| (0, part)).collect()
}

#[test]
fn a_stream_has_whole_objects_with_new_parts_and_ends_with_reasons_and_usage() {
    let end = r#","modelVersion":"m","responseId":"r1"}"#;
    let event = |part: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{part}]}},\"index\":0}}]{end}\n\n"
        )
    };
    let mut expected: String = [
        r#"{"text":"thi","thought":true}"#,
        r#"{"text":"nk","thought":true}"#,
        r#"{"text":"","thought":true,"thoughtSignature":"c3dpdGNoYm9hcmQuYS5zPQ=="}"#,
        r#"{"text":"Let "}"#,
        r#"{"text":"me\n"}"#,
        r#"{"functionCall":{"id":"a","name":"f","args":{"x": 1}}}"#,
        r#"{"functionCall":{"id":"b","name":"g","args":{}}}"#,
    ]
    .iter()
    .map(|part| event(part))
    .collect();
    expected += r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":15,"thoughtsTokenCount":5,"totalTokenCount":120}"#;
    expected += end;
    expected += "\n\n";
    assert_eq!(say(Form::Events, &answer()), expected);
}

#[test]
fn a_whole_answer_has_text_of_one_kind_in_one_part() {
    assert_eq!(
        say(Form::Whole, &answer()),
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"think","thought":true},{"text":"","thought":true,"thoughtSignature":"c3dpdGNoYm9hcmQuYS5zPQ=="},{"text":"Let me\n"},{"functionCall":{"id":"a","name":"f","args":{"x": 1}}},{"functionCall":{"id":"b","name":"g","args":{}}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":15,"thoughtsTokenCount":5,"totalTokenCount":120},"modelVersion":"m","responseId":"r1"}"#
    );
}

#[test]
fn an_array_is_valid_and_has_the_same_elements() {
    let array = say(Form::Array, &answer());
    let elements: Vec<serde_json::Value> = serde_json::from_str(&array).unwrap();
    let events = say(Form::Events, &answer());
    let events: Vec<serde_json::Value> = events
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    assert_eq!(elements, events);
}

#[test]
fn a_call_whose_arguments_are_no_object_is_told_of_at_the_end() {
    let parts = [
        (
            0,
            Part::Call {
                key: 0,
                id: "a",
                name: "f",
                custom: false,
                seal: None,
            },
        ),
        (
            0,
            Part::Arguments {
                key: 0,
                piece: "{\"x\":",
            },
        ),
        (0, Part::CallEnd { key: 0 }),
        (0, STOP),
    ];
    let said: serde_json::Value = serde_json::from_str(&say(Form::Whole, &parts)).unwrap();
    let candidate = &said["candidates"][0];
    assert_eq!(candidate["finishReason"], "MALFORMED_FUNCTION_CALL");
    assert_eq!(
        candidate["finishMessage"],
        "Malformed function call: f({\"x\":)"
    );
    assert_eq!(
        candidate["content"]["parts"],
        serde_json::json!([{"text": ""}])
    );
}

#[test]
fn reasons_keep_the_upstreams_word_where_they_say_less() {
    for (reason, raw, said, message) in [
        (Reason::Stop, "end_turn", "STOP", None),
        (Reason::Length, "length", "MAX_TOKENS", None),
        (
            Reason::ContextFull,
            "model_context_window_exceeded",
            "MAX_TOKENS",
            Some("model_context_window_exceeded"),
        ),
        (Reason::Paused, "pause_turn", "STOP", Some("pause_turn")),
        (Reason::Refused, "refusal", "SAFETY", Some("refusal")),
        (
            Reason::Filtered,
            "content_filter",
            "SAFETY",
            Some("content_filter"),
        ),
        (Reason::Other, "new_word", "OTHER", Some("new_word")),
        (Reason::Cut, "incomplete", "MAX_TOKENS", Some("incomplete")),
    ] {
        let parts = [
            (0, Part::Text("x")),
            (0, Part::Finish(Finish { reason, raw })),
        ];
        let answer: serde_json::Value = serde_json::from_str(&say(Form::Whole, &parts)).unwrap();
        let candidate = &answer["candidates"][0];
        assert_eq!(candidate["finishReason"], said, "{raw}");
        assert_eq!(candidate["finishMessage"].as_str(), message, "{raw}");
    }
}

#[test]
fn candidates_citations_and_log_probabilities_are_said() {
    let parts = [
        (0, Part::Text("ab")),
        (1, Part::Text("é")),
        (
            0,
            Part::Citation {
                url: "https://x",
                title: "X",
                span: Some((0, 2)),
                raw: "{}",
            },
        ),
        (
            1,
            Part::Citation {
                url: "https://y",
                title: "",
                span: Some((0, 1)),
                raw: "{}",
            },
        ),
        (
            0,
            Part::Logprobs(
                r#"{"token":"a\n","logprob":-0.5,"bytes":null,"top_logprobs":[{"token":"b","logprob":-1e0,"bytes":[98]}]}"#,
            ),
        ),
    ];
    let answer: serde_json::Value = serde_json::from_str(&say(Form::Whole, &parts)).unwrap();
    let candidates = &answer["candidates"];
    assert_eq!(candidates[1]["content"]["parts"][0]["text"], "é");
    assert_eq!(
        candidates[0]["citationMetadata"],
        serde_json::json!({"citationSources":[{"startIndex":0,"endIndex":2,"uri":"https://x","title":"X"}]})
    );
    assert_eq!(
        candidates[1]["citationMetadata"],
        serde_json::json!({"citationSources":[{"uri":"https://y"}]})
    );
    assert_eq!(
        candidates[0]["logprobsResult"],
        serde_json::json!({"topCandidates":[{"candidates":[{"token":"b","logProbability":-1.0}]}],"chosenCandidates":[{"token":"a\n","logProbability":-0.5}]})
    );
}

#[test]
fn a_call_that_was_cut_off_keeps_the_reason_of_it() {
    for (reason, raw, expected) in [
        (Reason::Length, "length", "MAX_TOKENS"),
        (Reason::ToolCalls, "tool_calls", "MALFORMED_FUNCTION_CALL"),
    ] {
        let parts = [
            Part::Call {
                key: 0,
                id: "a",
                name: "f",
                custom: false,
                seal: None,
            },
            Part::Arguments {
                key: 0,
                piece: "{\"x\":",
            },
            Part::Finish(Finish { reason, raw }),
        ];
        let said = say(Form::Whole, &parts.map(|part| (0, part)));
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let candidate = &said["candidates"][0];
        assert_eq!(candidate["finishReason"], expected);
        let message = "Malformed function call: f({\"x\":)";
        assert_eq!(candidate["finishMessage"], message);
    }
}
