use serde_json::{Value, json};

use super::*;

fn target() -> Target<'static> {
    Target {
        model: "up",
        public_model: "m",
        max_output: None,
        stream: true,
        request_id: "r1",
        now: 7,
    }
}

fn converted(body: &Value) -> (Value, Vec<String>) {
    let text = body.to_string();
    let opened = open(&Raw::body(&text), &target()).unwrap();
    let body = serde_json::from_str(&opened.body).unwrap();
    (body, opened.dropped.names().to_vec())
}

fn refused(body: &Value) -> Box<Refusal> {
    open(&Raw::body(&body.to_string()), &target())
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn a_conversation_becomes_items_in_order() {
    let (body, dropped) = converted(&json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "brief"},
            {"role": "user", "name": "ana", "content": [{"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA==", "detail": "low"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"}}]},
            {"role": "assistant", "content": "well", "reasoning_content": "hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "switchboard.r.SEAL"}],
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            {"role": "developer", "content": "now short"},
        ],
        "max_tokens": 4,
        "stop": ["x"],
        "store": true,
    }));
    assert_eq!(dropped, ["messages[].name", "stop", "store"]);
    assert_eq!(
        body,
        json!({
            "model": "up", "stream": true, "store": false,
            "input": [
                {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "brief"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "low"},
                    {"type": "input_file", "file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "SEAL"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "well"}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "now short"}]},
            ],
            "max_output_tokens": 16,
            "include": ["reasoning.encrypted_content"],
        })
    );
}

#[test]
fn tools_forms_and_numbers_keep_their_bytes() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":1e0,
        "tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":12345678901234567890}}},
            {"type":"custom","custom":{"name":"g","format":{"type":"grammar","grammar":{"definition":"x","syntax":"lark"}}}}],
        "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
        "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"b":1,"a":2},"strict":true}},
        "reasoning_effort":"high","verbosity":"low","logprobs":true,"top_logprobs":2,"user":"u"}"#;
    let opened = open(&Raw::body(body), &target()).unwrap();
    assert_eq!(opened.dropped.names(), [""; 0]);
    for part in [
        r#""tools":[{"type":"function","name":"f","parameters":{"z":1,"a":12345678901234567890},"strict":false},"#,
        r#"{"type":"custom","name":"g","format":{"type":"grammar","definition":"x","syntax":"lark"}}]"#,
        r#""tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false"#,
        r#""text":{"format":{"type":"json_schema","name":"n","schema":{"b":1,"a":2},"strict":true},"verbosity":"low"}"#,
        r#""reasoning":{"effort":"high","summary":"auto"}"#,
        r#""include":["reasoning.encrypted_content","message.output_text.logprobs"],"top_logprobs":2"#,
        r#""temperature":1e0"#,
        r#""user":"u""#,
    ] {
        assert!(opened.body.contains(part), "{part} in {}", opened.body);
    }
}

#[test]
fn what_it_has_nothing_for_is_refused_by_name() {
    let with = |name: &str, value: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        body[name] = value;
        refused(&body)
    };
    assert_eq!(with("n", json!(2)).param, "n");
    let sound = json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}}]}]);
    let refusal = with("messages", sound);
    assert!(refusal.unsupported);
    assert_eq!(refusal.param, "messages[0].content[0]");
}
