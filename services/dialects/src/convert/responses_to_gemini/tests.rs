use super::*;

const TARGET: Target<'_> = Target {
    model: "gemini-2.5-flash",
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
        r#"{"model":"x","store":false,"max_output_tokens":100,"instructions":"S","input":[
        {"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AA=="},{"type":"input_file","filename":"a.csv","file_data":"BB=="}]},
        {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"switchboard.g.SIG"},
        {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}","status":"completed"},
        {"type":"function_call","call_id":"c2","name":"g","arguments":"{\"a\":1}"},
        {"type":"function_call_output","call_id":"c1","output":"one"},
        {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]}],
        "tools":[{"type":"function","name":"f","strict":false,"parameters":{"type":"object"}},{"type":"function","name":"g"}],
        "tool_choice":{"type":"function","name":"g"},"reasoning":{"effort":"medium","summary":"auto"},"temperature":0,"top_p":0.5,
        "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},"include":["reasoning.encrypted_content"]}"#,
    );
    assert_eq!(
        body,
        serde_json::json!({
            "contents": [
                {"role":"user","parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"AA=="}},{"inlineData":{"mimeType":"text/csv","data":"BB=="}}]},
                {"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"SIG"},{"functionCall":{"id":"c2","name":"g","args":{"a":1}}}]},
                {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"result":"one"}}},{"functionResponse":{"id":"c2","name":"g","response":{"result":"two"}}}]},
            ],
            "systemInstruction": {"parts":[{"text":"S"}]},
            "tools": [{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}},{"name":"g"}]}],
            "toolConfig": {"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}},
            "generationConfig": {"maxOutputTokens":100,"temperature":0,"topP":0.5,
                "responseMimeType":"application/json","responseJsonSchema":{"type":"object"},
                "thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}},
        })
    );
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn state_is_refused_and_what_has_no_counterpart_is_named() {
    let body = r#"{"input":"a","previous_response_id":"resp_1"}"#;
    let refusal = open(&Raw::body(body), &TARGET).err().unwrap();
    assert!(refusal.unsupported);
    assert_eq!(refusal.param, "previous_response_id");
    let (body, dropped) = opened(
        r#"{"input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"own"}],"metadata":{"a":"b"},"parallel_tool_calls":false}"#,
    );
    assert_eq!(
        body,
        serde_json::json!({"contents":[{"role":"user","parts":[{"text":"a"}]}]})
    );
    assert_eq!(
        dropped,
        ["input[].reasoning", "parallel_tool_calls", "metadata"]
    );
}
