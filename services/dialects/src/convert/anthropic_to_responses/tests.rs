use serde_json::{Value, json};

use super::*;

fn converted(body: &Value) -> Result<(Value, Vec<String>), Box<Refusal>> {
    let target = Target {
        model: "up",
        public_model: "m",
        max_output: None,
        stream: false,
        request_id: "r1",
        now: 7,
    };
    let text = body.to_string();
    let opened = open(&Raw::body(&text), &target)?;
    let body = serde_json::from_str(&opened.body).unwrap();
    Ok((body, opened.dropped.names().to_vec()))
}

#[test]
fn a_conversation_becomes_items_in_order() {
    let (body, dropped) = converted(&json!({
        "model": "m", "max_tokens": 2048,
        "system": [{"type": "text", "text": "brief", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "stop_sequences": ["x"], "top_k": 5, "temperature": 0.5,
        "metadata": {"user_id": "u"},
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "switchboard.r.SEAL"},
                {"type": "thinking", "thinking": "own", "signature": "ANTHROPIC"},
                {"type": "text", "text": "well"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [
                    {"type": "text", "text": "no"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}]},
                {"type": "text", "text": "again"}]},
        ],
    }))
    .unwrap();
    assert_eq!(
        dropped,
        [
            "system[].cache_control",
            "messages[].content[].thinking",
            "stop_sequences",
            "top_k"
        ]
    );
    assert_eq!(
        body,
        json!({
            "model": "up", "store": false,
            "input": [
                {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "brief"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "SEAL"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "well"}]},
                {"type": "function_call", "call_id": "t1", "name": "f", "arguments": "{\"a\":1}"},
                {"type": "function_call_output", "call_id": "t1", "output": [
                    {"type": "input_text", "text": "[error]"}, {"type": "input_text", "text": "no"},
                    {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "auto"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "again"}]},
            ],
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false}],
            "tool_choice": "required", "parallel_tool_calls": false,
            "max_output_tokens": 2048,
            "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": true}},
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "temperature": 0.5, "safety_identifier": "u",
        })
    );
}

#[test]
fn what_only_anthropic_has_is_refused_by_name() {
    let hosted = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    let refusal = converted(&hosted).unwrap_err();
    assert!(refusal.unsupported);
    assert_eq!(refusal.param, "tools[0].type");
}
