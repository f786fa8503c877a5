use super::*;

const TARGET: Target<'_> = Target {
    model: "gemini-3-flash",
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
        r#"{"model":"x","n":2,"max_completion_tokens":100,"messages":[{"role":"system","content":"S"},
        {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"image_url","image_url":{"url":"https://h/a.jpg?x"}},{"type":"input_audio","input_audio":{"data":"BB==","format":"wav"}}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":""},"extra_content":{"google":{"thought_signature":"SIG"}}},{"id":"c2","type":"custom","custom":{"name":"p","input":"raw"}}]},
        {"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c1","content":"{\"one\":1}"}],
        "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"custom","custom":{"name":"p"}}],
        "tool_choice":"required","temperature":1.0,"seed":7,"stop":"X","reasoning_effort":"low","logprobs":true,"top_logprobs":2,
        "response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}}"#,
    );
    assert_eq!(
        body,
        serde_json::json!({
            "contents": [
                {"role":"user","parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"AA=="}},{"fileData":{"mimeType":"image/jpeg","fileUri":"https://h/a.jpg?x"}},{"inlineData":{"mimeType":"audio/wav","data":"BB=="}}]},
                {"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"SIG"},{"functionCall":{"id":"c2","name":"p","args":{"input":"raw"}}}]},
                {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"one":1}}},{"functionResponse":{"id":"c2","name":"p","response":{"result":"two"}}}]},
            ],
            "systemInstruction": {"parts":[{"text":"S"}]},
            "tools": [{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}},{"name":"p","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]}],
            "toolConfig": {"functionCallingConfig":{"mode":"ANY"}},
            "generationConfig": {"maxOutputTokens":100,"candidateCount":2,"temperature":1.0,"seed":7,"stopSequences":["X"],
                "responseMimeType":"application/json","responseJsonSchema":{"type":"object"},"responseLogprobs":true,"logprobs":2,
                "thinkingConfig":{"thinkingLevel":"LOW","includeThoughts":true}},
        })
    );
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn what_gemini_has_nothing_for_is_refused_or_named() {
    let body =
        r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#;
    let refusal = open(&Raw::body(body), &TARGET).err().unwrap();
    assert!(refusal.unsupported);
    assert_eq!(refusal.param, "messages[0].content[0].file.file_id");
    let (_, dropped) = opened(
        r#"{"messages":[{"role":"user","content":"a","name":"n"}],"parallel_tool_calls":false,"logit_bias":{"1":2},"user":"u","enable_thinking":false}"#,
    );
    assert_eq!(
        dropped,
        [
            "messages[].name",
            "parallel_tool_calls",
            "logit_bias",
            "user",
            "enable_thinking"
        ]
    );
}
