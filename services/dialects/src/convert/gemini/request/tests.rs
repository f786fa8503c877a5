use super::*;

fn read(body: &str) -> Request<'_> {
    Request::read(&Raw::body(body)).unwrap()
}

fn dropped(request: Request<'_>) -> Vec<String> {
    let mut drops = Drops::default();
    drop_rest(request.rest, &mut drops);
    drops.names().to_vec()
}

#[test]
fn both_names_of_a_member_are_read() {
    for body in [
        r#"{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}],"generationConfig":{"maxOutputTokens":"5","topK":3}}"#,
        r#"{"contents":{"parts":{"inline_data":{"mime_type":"image/png","data":"AA=="}}},"generation_config":{"max_output_tokens":5,"top_k":3}}"#,
    ] {
        let request = read(body);
        let piece = &request.turns[0].pieces[0];
        assert!(
            matches!(&piece.content, Content::Inline { mime, data, .. } if mime == "image/png" && data == "AA==")
        );
        assert_eq!(request.config.max_output, Some(5));
        assert_eq!(request.config.top_k.as_ref().unwrap().text, "3");
        assert_eq!(dropped(request), Vec::<String>::new());
    }
}

#[test]
fn responses_find_their_calls_by_id_or_by_name_and_order() {
    let request = read(
        r#"{"contents":[
        {"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"f"}},{"functionCall":{"id":"call_0","name":"g"}}]},
        {"role":"user","parts":[{"functionResponse":{"id":"call_0","name":"g"}},{"functionResponse":{"name":"f","response":{"result":"a"}}},{"functionResponse":{"id":"x","name":"f","response":{"error":"b"}}}]}]}"#,
    );
    let ids = |turn: usize| -> Vec<String> {
        let pieces = request.turns[turn].pieces.iter();
        pieces
            .map(|piece| match &piece.content {
                Content::Call { id, .. } | Content::Response { id, .. } => id.to_string(),
                _ => String::new(),
            })
            .collect()
    };
    assert_eq!(ids(0), ["call_1", "call_2", "call_0"]);
    assert_eq!(ids(1), ["call_0", "call_1", "call_2"]);
}

#[test]
fn a_response_without_a_call_is_refused() {
    let body = r#"{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}]}"#;
    let refusal = Request::read(&Raw::body(body)).unwrap_err();
    assert_eq!(refusal.param, "contents[0].parts[0].functionResponse");
    assert!(!refusal.unsupported);
}

#[test]
fn what_functions_gave_back_is_text_to_others() {
    let given_of = |text: &'static str| given(Some(&Raw::body(text)));
    assert_eq!(given_of(r#"{"result":"a\nb"}"#).text, "a\nb");
    assert!(given_of(r#"{"error":"no"}"#).error);
    assert_eq!(
        given_of(r#"{"result":{"a":1}}"#).text,
        r#"{"result":{"a":1}}"#
    );
    assert_eq!(given_of(r#"{"a":1,"b":2}"#).text, r#"{"a":1,"b":2}"#);
    assert_eq!(given(None).text, "{}");
}

#[test]
fn tools_and_schemas_are_read() {
    let request = read(
        r#"{"contents":[],"tools":[{"function_declarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}},{"name":"g","parametersJsonSchema":{"type":"object"},"behavior":"BLOCKING"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"},"thinkingConfig":{"thinkingBudget":-1,"includeThoughts":true}},"safetySettings":[]}"#,
    );
    let schemas: Vec<_> = request
        .functions
        .iter()
        .map(|f| f.parameters.as_ref().unwrap().render())
        .collect();
    assert_eq!(
        schemas,
        [
            r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
            r#"{"type":"object"}"#
        ]
    );
    assert_eq!(
        (request.choice.mode, &*request.choice.allowed[0]),
        (Mode::Any, "f")
    );
    assert!(
        matches!(&request.config.output, Output::Schema(schema) if schema.render() == r#"{"type":"object"}"#)
    );
    let thinking = request.config.thinking.as_ref().unwrap();
    assert_eq!((thinking.effort(), thinking.include), (None, true));
    assert_eq!(
        dropped(request),
        ["tools[].function_declarations[].behavior", "safetySettings"]
    );
}

#[test]
fn the_newer_form_of_structured_output_is_read() {
    let request = read(
        r#"{"contents":[],"generationConfig":{"responseFormat":[{"text":{"mimeType":"application/json","jsonSchema":{"type":"object"}}}]}}"#,
    );
    assert!(
        matches!(&request.config.output, Output::Schema(schema) if schema.render() == r#"{"type":"object"}"#)
    );
    assert_eq!(dropped(request), Vec::<String>::new());
    let body = r#"{"contents":[],"generation_config":{"response_format":[{"image":{}}]}}"#;
    let refusal = Request::read(&Raw::body(body)).unwrap_err();
    assert_eq!(refusal.param, "generation_config.response_format[0].image");
}

#[test]
fn what_no_other_dialect_has_is_refused() {
    for (body, param) in [
        (
            r#"{"contents":[],"tools":[{"googleSearch":{}}]}"#,
            "tools[0].googleSearch",
        ),
        (
            r#"{"contents":[],"cachedContent":"cachedContents/1"}"#,
            "cachedContent",
        ),
        (
            r#"{"contents":[],"generationConfig":{"responseModalities":["AUDIO"]}}"#,
            "generationConfig.responseModalities",
        ),
        (
            r#"{"contents":[],"generationConfig":{"responseMimeType":"text/x.enum"}}"#,
            "generationConfig.responseMimeType",
        ),
    ] {
        let refusal = Request::read(&Raw::body(body)).unwrap_err();
        assert_eq!(refusal.param, param);
        assert!(refusal.unsupported, "{param}");
    }
}
