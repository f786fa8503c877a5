//! Parts of an answer.

use bytes::Bytes;

use super::super::reader::{AnthropicReader, Way};
use crate::anthropic::{MessagesCall, MessagesRequest};
use crate::convert::part::Reader as _;
use crate::dialect::DialectRequest as _;
use crate::sse::Decoder;

/// The parts of a stream, each as its debug text.
fn parts(way: &Way, events: &str) -> Vec<String> {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(Bytes::copy_from_slice(events.as_bytes()));
    decoder.finish();
    let mut reader = AnthropicReader::new(way);
    let mut all = Vec::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        let data = decoder.data(&frame).unwrap();
        reader
            .event(None, data, &mut |_, part| all.push(format!("{part:?}")))
            .unwrap();
    }
    reader.end(&mut |_, part| all.push(format!("{part:?}")));
    all
}

fn whole(way: &Way, message: &str) -> Vec<String> {
    let asked = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let request = MessagesRequest::peek(asked, MessagesCall::Create).unwrap();
    let events = request.as_events(message.as_bytes());
    parts(way, std::str::from_utf8(&events).unwrap())
}

#[test]
fn thinking_redacted_thinking_text_and_calls_of_a_whole_answer_are_read_in_order() {
    let parts = whole(
        &Way::default(),
        r#"{"id":"m","type":"message","role":"assistant","model":"x","content":[
        {"type":"thinking","thinking":"hm","signature":"S+/="},{"type":"redacted_thinking","data":"R"},
        {"type":"text","text":"Hé","citations":[{"type":"web_search_result_location","url":"https://a","title":"A","cited_text":"c","encrypted_index":"e"}]},
        {"type":"tool_use","id":"t1","name":"f","input":{"a": 1}},{"type":"tool_use","id":"t2","name":"g","input":{}}],
        "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2}}"#,
    );
    let expected = [
        r"Begin { created: None }",
        r#"Reasoning("hm")"#,
        r#"Sealed(Seal { maker: Anthropic, redacted: false, value: "S+/=" })"#,
        r#"Sealed(Seal { maker: Anthropic, redacted: true, value: "R" })"#,
        r#"Text("Hé")"#,
        r#"Citation { url: "https://a", title: "A", span: Some((0, 2)), raw: "{\"type\":\"web_search_result_location\",\"url\":\"https://a\",\"title\":\"A\",\"cited_text\":\"c\",\"encrypted_index\":\"e\"}" }"#,
        r#"Call { key: 0, id: "t1", name: "f", custom: false, seal: None }"#,
        r#"Arguments { key: 0, piece: "{\"a\": 1}" }"#,
        "CallEnd { key: 0 }",
        r#"Call { key: 1, id: "t2", name: "g", custom: false, seal: None }"#,
        r#"Arguments { key: 1, piece: "{}" }"#,
        "CallEnd { key: 1 }",
        r#"Finish(Finish { reason: ToolCalls, raw: "tool_use" })"#,
    ];
    assert_eq!(parts, expected);
}

#[test]
fn an_input_may_come_whole_in_pieces_or_not_at_all() {
    let parts = parts(
        &Way::default(),
        concat!(
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"x\":1}}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"f\",\"input\":{}}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
            "data: {\"type\": \"content_block_delta\", \"index\": 1, \"delta\": {\"type\": \"input_json_delta\", \"partial_json\": \"{\\\"y\\\"\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\":2}\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{}}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
        ),
    );
    let arguments: Vec<_> = parts
        .iter()
        .filter(|part| part.starts_with("Arg"))
        .collect();
    assert_eq!(
        arguments,
        [
            r#"Arguments { key: 0, piece: "{\"x\":1}" }"#,
            r#"Arguments { key: 1, piece: "{\"y\"" }"#,
            r#"Arguments { key: 1, piece: ":2}" }"#,
        ]
    );
    assert_eq!(parts.last().unwrap(), "CallEnd { key: 2 }");
}

#[test]
fn calls_that_overlap_keep_their_inputs_apart() {
    let start = |index: u32, block: &str| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{block}}}\n\n"
        )
    };
    let call = |index, id: &str| {
        start(
            index,
            &format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#),
        )
    };
    let piece = |index: u32, space: &str, piece: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",{space}\"index\":{index},\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{piece}\"}}}}\n\n"
        )
    };
    let stop =
        |index: u32| format!("data: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n");
    let events = [
        call(1, "a"),
        call(2, "b"),
        piece(1, "", "[1"),
        piece(2, " ", "[2"),
        piece(1, " ", "]"),
        stop(1),
        piece(2, "", "]"),
        call(3, "c"),
        // The end of the third is not told: what is no call comes after all of them.
        start(4, r#"{"type":"text","text":"so"}"#),
        stop(4),
    ];
    let parts = parts(&Way::default(), &events.concat());
    let said: Vec<_> = parts
        .iter()
        .filter(|part| !part.starts_with("Call {"))
        .collect();
    assert_eq!(
        said,
        [
            r#"Arguments { key: 0, piece: "[1" }"#,
            r#"Arguments { key: 1, piece: "[2" }"#,
            r#"Arguments { key: 0, piece: "]" }"#,
            "CallEnd { key: 0 }",
            r#"Arguments { key: 1, piece: "]" }"#,
            "CallEnd { key: 1 }",
            "CallEnd { key: 2 }",
            r#"Text("so")"#,
        ]
    );
}

#[test]
fn the_input_of_the_tool_that_takes_the_answer_is_its_text() {
    let way = Way {
        answer: Some("give_the_answer"),
        ..Way::default()
    };
    let parts = whole(
        &way,
        r#"{"id":"m","type":"message","role":"assistant","model":"x","content":[
        {"type":"tool_use","id":"t1","name":"give_the_answer","input":{"a":1}}],
        "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2}}"#,
    );
    assert_eq!(
        parts,
        [
            "Begin { created: None }",
            r#"Text("{\"a\":1}")"#,
            r#"Finish(Finish { reason: Stop, raw: "tool_use" })"#,
        ]
    );
}

#[test]
fn every_stop_reason_is_told_and_an_unknown_one_keeps_its_word() {
    for (said, reason) in [
        ("end_turn", "Stop"),
        ("stop_sequence", "StopSequence(\"END\")"),
        ("max_tokens", "Length"),
        ("tool_use", "ToolCalls"),
        ("pause_turn", "Paused"),
        ("refusal", "Refused"),
        ("model_context_window_exceeded", "ContextFull"),
        ("a_new_one", "Other"),
    ] {
        let event = format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{said}\",\"stop_sequence\":\"END\"}},\"usage\":{{}}}}\n\n"
        );
        let expected = format!("Finish(Finish {{ reason: {reason}, raw: \"{said}\" }})");
        assert_eq!(parts(&Way::default(), &event), [expected]);
    }
}
