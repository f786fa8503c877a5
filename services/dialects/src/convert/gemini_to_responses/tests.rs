use serde_json::{Value, json};

use super::*;

fn converted(body: &Value) -> Result<(Value, Vec<String>), Box<Refusal>> {
    let target = Target {
        model: "up",
        public_model: "m",
        max_output: None,
        stream: true,
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
        "systemInstruction": {"parts": [{"text": "brief"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "eA=="}}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "switchboard.r.SEAL"},
                {"text": "well"},
                {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "GOOGLE"}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"result": "done"}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"maxOutputTokens": 5, "topK": 3, "temperature": 0.5, "responseMimeType": "application/json",
            "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": true}},
    }))
    .unwrap();
    assert_eq!(
        dropped,
        [
            "contents[].parts[].thoughtSignature",
            "generationConfig.topK"
        ]
    );
    assert_eq!(
        body,
        json!({
            "model": "up", "stream": true, "store": false,
            "input": [
                {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "brief"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"},
                    {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "auto"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "SEAL"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "well"}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
            ],
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false}],
            "tool_choice": "required",
            "temperature": 0.5, "max_output_tokens": 16,
            "text": {"format": {"type": "json_object"}},
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
        })
    );
}

#[test]
fn several_candidates_and_sound_are_refused_by_name() {
    let body = |more: Value| {
        let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        converted(&body).unwrap_err()
    };
    let refusal = body(json!({"generationConfig": {"candidateCount": 2}}));
    assert_eq!(refusal.param, "generationConfig.candidateCount");
    let sound = json!({"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "eA=="}}]}]});
    assert_eq!(body(sound).param, "contents[0].parts[0]");
}
