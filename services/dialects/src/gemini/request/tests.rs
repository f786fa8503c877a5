use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;
use crate::dialect::{Change, DialectRequest as _, Form, Needs};

fn peek(body: &str) -> GeminiRequest {
    GeminiRequest::peek(Call::Generate, "m", body.as_bytes()).unwrap()
}

fn refused(call: Call, body: &str) -> String {
    GeminiRequest::peek(call, "m", body.as_bytes())
        .unwrap_err()
        .to_string()
}

fn patched(call: Call, body: &str, model: &str, cap: Option<u64>) -> String {
    let request = GeminiRequest::peek(call, "m", body.as_bytes()).unwrap();
    let body = Bytes::copy_from_slice(body.as_bytes());
    let change = Change {
        model,
        output_cap: cap,
    };
    String::from_utf8(request.prepare(&body, &change).to_vec()).unwrap()
}

#[test]
fn both_spellings_are_read() {
    let camel = r#"{"contents":[{"parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],"tools":[{"functionDeclarations":[]}],"generationConfig":{"maxOutputTokens":7,"candidateCount":2,"responseMimeType":"application/json"}}"#;
    let snake = r#"{"contents":[{"parts":[{"text":"a"},{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}],"tools":[{"function_declarations":[]}],"generation_config":{"max_output_tokens":"7","candidate_count":2,"response_mime_type":"application/json"}}"#;
    for body in [camel, snake] {
        let request = peek(body);
        assert_eq!(
            (request.output_limit(), request.choices()),
            (Some(7), 2),
            "{body}"
        );
        let needs = Needs {
            tools: true,
            vision: true,
            json: true,
            audio: false,
        };
        assert_eq!(request.needs(), needs);
        let media = if body == camel {
            r#"{"mimeType":"image/png","data":"AAAA"}"#
        } else {
            r#"{"mime_type":"image/png","data":"AAAA"}"#
        };
        assert_eq!(request.text_bytes(), (body.len() - media.len()) as u64);
    }
}

#[test]
fn one_object_may_stand_where_several_may() {
    let request = peek(
        r#"{"contents":{"parts":{"fileData":{"mimeType":"audio/wav","fileUri":"u"}}},"tools":{"googleSearch":{}}}"#,
    );
    assert!(request.needs().audio && request.needs().tools);
    assert!(!request.needs().vision);
}

#[test]
fn what_is_seen_and_heard_is_told_by_its_type_wherever_it_stands() {
    let with = |mime: &str| {
        peek(&format!(
            r#"{{"contents":[{{"parts":[{{"functionResponse":{{"name":"f","parts":[{{"inlineData":{{"data":"A","mimeType":"{mime}"}}}}]}}}}]}}]}}"#
        ))
        .needs()
    };
    assert!(with("video/mp4").vision);
    assert!(with("audio/mp3").audio);
    assert_eq!(with("application/pdf"), Needs::default());
    let spoken = peek(r#"{"contents":[],"generationConfig":{"responseModalities":["AUDIO"]}}"#);
    assert!(spoken.needs().audio);
    let schema = peek(r#"{"contents":[],"generationConfig":{"responseJsonSchema":{}}}"#);
    assert!(schema.needs().json);
}

#[test]
fn what_the_path_asks_for_decides_the_form() {
    for (call, form, generates, free) in [
        (Call::Generate, Form::Whole, true, false),
        (Call::StreamEvents, Form::Events, true, false),
        (Call::StreamArray, Form::Array, true, false),
        (Call::CountTokens, Form::Whole, false, true),
    ] {
        let request = GeminiRequest::peek(call, "a/b:c", br#"{"contents":[]}"#).unwrap();
        assert_eq!(request.model(), "a/b:c");
        assert_eq!(request.form(), form);
        assert_eq!((request.generates(), request.free()), (generates, free));
    }
}

#[test]
fn mistakes_are_named() {
    let generate = |body: &str| refused(Call::Generate, body);
    assert_eq!(
        generate("[]"),
        "the request body must be a JSON object, not an array"
    );
    assert_eq!(
        generate("{}"),
        "`contents` is required: expected an array of contents"
    );
    assert_eq!(
        generate(r#"{"contents":"a"}"#),
        "`contents` is invalid: expected an array of contents, got a string"
    );
    for (config, field, got) in [
        (
            r#"{"maxOutputTokens":0}"#,
            "generationConfig.maxOutputTokens",
            "0",
        ),
        (
            r#"{"candidateCount":1.5}"#,
            "generationConfig.candidateCount",
            "1.5",
        ),
        (
            r#"{"candidateCount":"x"}"#,
            "generationConfig.candidateCount",
            "a string",
        ),
        (
            r#"{"candidateCount":129}"#,
            "generationConfig.candidateCount",
            "129",
        ),
        ("3", "generationConfig", "a number"),
    ] {
        let said = generate(&format!(r#"{{"contents":[],"generationConfig":{config}}}"#));
        assert!(said.starts_with(&format!("`{field}` is invalid")), "{said}");
        assert!(said.ends_with(&format!("got {got}")), "{said}");
    }
    assert_eq!(
        refused(Call::EmbedBatch, "{}"),
        "`requests` is required: expected an array of requests"
    );
}

#[test]
fn nothing_changes_where_nothing_must() {
    let body = r#"{ "contents":[{"parts":[{"text":"é\u0041 1e3"}]}] ,"x":1.0}"#;
    let request = peek(body);
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let change = Change {
        model: "up",
        ..Change::default()
    };
    assert_eq!(
        request.prepare(&bytes, &change).as_ptr(),
        bytes.as_ptr(),
        "the model stands in the address"
    );
}

#[test]
fn a_model_that_the_body_repeats_changes_in_its_own_form() {
    assert_eq!(
        patched(
            Call::CountTokens,
            r#"{"generateContentRequest":{"model":"models/m","contents":[]}}"#,
            "up",
            Some(5)
        ),
        r#"{"generateContentRequest":{"model":"models/up","contents":[]}}"#
    );
    assert_eq!(
        patched(
            Call::EmbedBatch,
            r#"{"requests":[{"model":"models/m"},{"model":"models/m"}]}"#,
            "up",
            None
        ),
        r#"{"requests":[{"model":"models/up"},{"model":"models/up"}]}"#
    );
    assert_eq!(
        patched(
            Call::Generate,
            r#"{"model":"m","contents":[]}"#,
            "a\"b",
            None
        ),
        r#"{"model":"a\"b","contents":[]}"#
    );
}

#[test]
fn the_output_cap_stands_wherever_the_limit_does() {
    let capped = |body: &str| patched(Call::Generate, body, "m", Some(10));
    for (before, after) in [
        (
            r#"{"contents":[]}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":10}}"#,
        ),
        (
            r#"{"contents":[],"generationConfig":null}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":10}}"#,
        ),
        (
            r#"{"contents":[],"generationConfig":{}}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":10}}"#,
        ),
        (
            r#"{"generation_config":{"topK":1},"contents":[]}"#,
            r#"{"generation_config":{"topK":1,"maxOutputTokens":10},"contents":[]}"#,
        ),
        (
            r#"{"contents":[],"generationConfig":{"max_output_tokens":11}}"#,
            r#"{"contents":[],"generationConfig":{"max_output_tokens":10}}"#,
        ),
        (
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":9}}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":9}}"#,
        ),
        (
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":null}}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":10}}"#,
        ),
    ] {
        assert_eq!(capped(before), after);
    }
}

#[test]
fn what_a_model_reads_is_counted_and_nothing_else() {
    let body = r#"{"systemInstruction":{"role":"system","parts":[{"text":"be brief"}]},"contents":[{"role":"user","parts":[{"text":"hi","thoughtSignature":"S"},{"inlineData":{"data":"AAAA"}},{"functionCall":{"id":"1","name":"f","args":{"city":"Paris"}}}]}],"tools":[{"x":1}],"safetySettings":[{"category":"C"}]}"#;
    let mut text = TextBuffer::new(1 << 10);
    assert_eq!(peek(body).input(body.as_bytes(), &mut text), 0);
    assert_eq!(text.text(), "be brief\nhi\nf\nParis\n[{\"x\":1}]\n");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _any = GeminiRequest::peek(Call::Generate, "m", &bytes);
        let _any = GeminiRequest::input_text(&bytes, &mut TextBuffer::new(100));
    }

    #[test]
    fn a_patched_body_is_the_same_but_for_the_cap(limit in prop::option::of(1u64..100), cap in 1u64..100, rest in any::<i32>()) {
        let mut body = json!({"contents": [{"parts": [{"text": "a"}]}], "rest": rest});
        if let Some(limit) = limit {
            body["generationConfig"] = json!({"maxOutputTokens": limit, "seed": 1});
        }
        let sent: Tree = serde_json::from_str(&patched(Call::Generate, &body.to_string(), "up", Some(cap))).unwrap();
        let mut expected = body;
        expected["generationConfig"]["maxOutputTokens"] = limit.unwrap_or(cap).min(cap).into();
        prop_assert_eq!(sent, expected);
    }
}
