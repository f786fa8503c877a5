use super::*;

const TARGET: Target<'_> = Target {
    model: "gemini-3-pro",
    public_model: "m",
    max_output: None,
    stream: false,
    request_id: "r",
    now: 0,
};

fn opened(body: &str) -> (serde_json::Value, Vec<String>) {
    let opened = open(&Raw::body(body), &TARGET).unwrap();
    (
        serde_json::from_str(&opened.body).unwrap(),
        opened.dropped.names().to_vec(),
    )
}

#[test]
fn a_request_is_carried_whole() {
    let (body, dropped) = opened(
        r#"{"model":"x","max_tokens":100,"stream":true,"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"messages":[
        {"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"switchboard.g.SIG"},{"type":"tool_use","id":"t1","name":"f","input":{"n":12345678901234567890}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no"},{"type":"text","text":"go"}]}],
        "tools":[{"name":"f","description":"d","input_schema":{"type":"object","additionalProperties":false}}],
        "tool_choice":{"type":"tool","name":"f"},"temperature":0.70,"top_k":3,"stop_sequences":["X"],
        "thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}"#,
    );
    assert_eq!(
        body,
        serde_json::json!({
            "contents": [
                {"role":"user","parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]},
                {"role":"model","parts":[{"functionCall":{"id":"t1","name":"f","args":{"n":12_345_678_901_234_567_890_u64}},"thoughtSignature":"SIG"}]},
                {"role":"user","parts":[{"functionResponse":{"id":"t1","name":"f","response":{"error":"no"}}},{"text":"go"}]},
            ],
            "systemInstruction": {"parts":[{"text":"S"}]},
            "tools": [{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object","additionalProperties":false}}]}],
            "toolConfig": {"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},
            "generationConfig": {"maxOutputTokens":100,"temperature":0.7,"topK":3,"stopSequences":["X"],
                "responseMimeType":"application/json","responseJsonSchema":{"type":"object"},
                "thinkingConfig":{"thinkingLevel":"MEDIUM","includeThoughts":true}},
        })
    );
    assert_eq!(dropped, ["system[].cache_control"]);
}

#[test]
fn what_only_anthropic_has_is_refused_or_named() {
    for (body, param) in [
        (
            r#"{"max_tokens":1,"messages":[],"tools":[{"type":"web_search_20250305","name":"w"}]}"#,
            "tools[0].type",
        ),
        (
            r#"{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}"#,
            "messages[0].content[0].source.file_id",
        ),
    ] {
        let refusal = open(&Raw::body(body), &TARGET).err().unwrap();
        assert!(refusal.unsupported);
        assert_eq!(refusal.param, param);
    }
    let (_, dropped) = opened(
        r#"{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"own"},{"type":"text","text":"a"}]}],"metadata":{"user_id":"u"},"unknown":1}"#,
    );
    assert_eq!(
        dropped,
        [
            "messages[].content[].thinking",
            "metadata.user_id",
            "unknown"
        ]
    );
}
