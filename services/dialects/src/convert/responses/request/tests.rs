use super::*;
use crate::convert::Format;
use crate::convert::responses::{Content, Media, Role};

fn read(body: &str) -> Request<'_> {
    Request::read(&Raw::body(body)).unwrap()
}

fn refusal(body: &str) -> Refusal {
    *Request::read(&Raw::body(body)).unwrap_err()
}

fn left_out(request: Request<'_>) -> Vec<String> {
    let mut drops = Drops::default();
    request.drop_rest(&mut drops);
    drops.names().to_vec()
}

#[test]
fn a_string_is_what_the_user_says() {
    let request = read(r#"{"model":"m","input":"hi","store":true,"stream":false}"#);
    let [Item::Message { role, content, .. }] = &*request.input else {
        panic!("{:?}", request.input);
    };
    assert_eq!(*role, Role::User);
    assert!(matches!(&**content, [Content::Text { text, .. }] if text == "hi"));
    assert!(left_out(request).is_empty());
}

#[test]
fn items_of_every_kind_are_read_in_order() {
    let body = r#"{"model":"m","instructions":"be brief","input":[
        {"role":"developer","content":"d"},
        {"type":"message","role":"user","content":[
            {"type":"input_text","text":"t"},
            {"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"},
            {"type":"input_image","file_id":"file_1"},
            {"type":"input_file","filename":"a.pdf","file_data":"AAAA"},
            {"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]},
        {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"E"},
        {"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary",
            "content":[{"type":"output_text","text":"o","annotations":[{"type":"url_citation"}],"logprobs":[]},{"type":"refusal","refusal":"no"}]},
        {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}","status":"completed"},
        {"type":"custom_tool_call","call_id":"c2","name":"p","input":"free"},
        {"type":"function_call_output","call_id":"c1","output":"r"},
        {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"}]},
        {"type":"web_search_call","id":"ws_1","action":{}}]}"#;
    let request = read(body);
    assert_eq!(request.instructions.as_deref(), Some("be brief"));
    let [
        Item::Message {
            role: Role::Developer,
            ..
        },
        Item::Message { content, .. },
        thought @ Item::Reasoning { summary, .. },
        Item::Message {
            role: Role::Assistant,
            content: said,
            ..
        },
        Item::Call {
            id,
            name,
            arguments,
            custom: false,
            ..
        },
        Item::Call {
            arguments: free,
            custom: true,
            ..
        },
        Item::Output { .. },
        Item::Output { .. },
        Item::Other { name: other },
    ] = &*request.input
    else {
        panic!("{:?}", request.input);
    };
    assert!(matches!(
        &**content,
        [
            Content::Text { .. },
            Content::Image {
                source: Media::Url(_),
                ..
            },
            Content::Image {
                source: Media::Id(_),
                ..
            },
            Content::File {
                source: Media::Base64(_),
                ..
            },
            Content::Audio { .. },
        ]
    ));
    assert_eq!(summary, &["s"]);
    assert_eq!(
        thought.seal().unwrap().for_target(Format::Responses),
        Some("E")
    );
    assert!(matches!(
        &**said,
        [Content::Text { .. }, Content::Refusal { .. }]
    ));
    assert_eq!((&**id, &**name, &**arguments), ("c1", "f", "{}"));
    assert_eq!(free, "free");
    assert_eq!(other, "input[].web_search_call");
}

#[test]
fn what_is_kept_elsewhere_is_refused_and_named() {
    for (body, param) in [
        (
            r#"{"input":"x","previous_response_id":"resp_1"}"#,
            "previous_response_id",
        ),
        (r#"{"input":"x","conversation":"conv_1"}"#, "conversation"),
        (r#"{"input":"x","prompt":{"id":"p"}}"#, "prompt"),
        (r#"{"input":"x","background":true}"#, "background"),
        (
            r#"{"input":[{"type":"item_reference","id":"i"}]}"#,
            "input[0]",
        ),
        (
            r#"{"input":[{"type":"compaction","encrypted_content":"E"}]}"#,
            "input[0]",
        ),
        (
            r#"{"input":"x","tools":[{"type":"web_search"}],"tool_choice":"required"}"#,
            "tools[0].web_search",
        ),
        (
            r#"{"input":"x","tool_choice":{"type":"file_search"}}"#,
            "tool_choice",
        ),
    ] {
        let refusal = refusal(body);
        assert_eq!(refusal.param, param);
        assert!(refusal.unsupported, "{body}");
    }
    let quiet =
        r#"{"input":"x","previous_response_id":null,"background":false,"truncation":"disabled"}"#;
    assert!(left_out(read(quiet)).is_empty());
}

#[test]
fn a_field_that_makes_no_sense_is_named() {
    for (body, param) in [
        (r"{}", "input"),
        (r#"{"input":5}"#, "input"),
        (
            r#"{"input":[{"role":"robot","content":"x"}]}"#,
            "input[0].role",
        ),
        (
            r#"{"input":[{"role":"user","content":[{"type":"smell"}]}]}"#,
            "input[0].content[0].type",
        ),
        (
            r#"{"input":"x","text":{"format":{"type":"xml"}}}"#,
            "text.format.type",
        ),
        (r#"{"input":"x","tool_choice":"any"}"#, "tool_choice"),
        (
            r#"{"input":"x","max_output_tokens":-1}"#,
            "max_output_tokens",
        ),
        (
            r#"{"input":[{"type":"function_call","name":"f","arguments":"{}"}]}"#,
            "input[0].call_id",
        ),
    ] {
        let refusal = refusal(body);
        assert_eq!(refusal.param, param);
        assert!(!refusal.unsupported, "{body}");
    }
}

#[test]
fn what_has_no_counterpart_is_named() {
    let body = r#"{"input":"x","tools":[{"type":"web_search"},{"type":"function","name":"f"}],"max_tool_calls":3,
        "client_metadata":{"a":"b"},"reasoning":{"effort":"low","context":"auto"},"text":{"verbosity":"low","tone":"warm"},
        "include":["reasoning.encrypted_content","web_search_call.results","stars"]}"#;
    let request = read(body);
    assert_eq!(
        request.reasoning.as_ref().unwrap().effort.as_deref(),
        Some("low")
    );
    assert_eq!(
        left_out(request),
        [
            "tools[].web_search",
            "text.tone",
            "include",
            "reasoning.context",
            "max_tool_calls",
            "client_metadata"
        ]
    );
}

#[test]
fn tools_of_namespaces_get_names_of_their_own() {
    let long = "n".repeat(60);
    let body = format!(
        r#"{{"input":[{{"type":"function_call","call_id":"c","namespace":"b","name":"read","arguments":"{{}}"}},
            {{"type":"function_call","call_id":"d","name":"only","arguments":"{{}}"}},
            {{"type":"function_call_output","call_id":"d","output":""}},
            {{"type":"function_call_output","call_id":"c","output":""}},
            {{"type":"additional_tools","role":"developer","tools":[{{"type":"custom","name":"patch","format":{{"type":"text"}}}}]}}],
        "tools":[
            {{"type":"namespace","name":"a","tools":[{{"type":"function","name":"read","parameters":{{}}}},{{"type":"function","name":"only"}}]}},
            {{"type":"namespace","name":"b__","description":"d","tools":[{{"type":"function","name":"read"}}]}},
            {{"type":"namespace","name":"{long}","tools":[{{"type":"function","name":"read"}}]}},
            {{"type":"function","name":"a__read"}}],
        "tool_choice":{{"type":"allowed_tools","mode":"required","tools":[{{"type":"function","name":"only"}},{{"type":"custom","name":"patch"}}]}}}}"#
    );
    let body = body.replace(r#""namespace":"b""#, r#""namespace":"b__""#);
    let request = read(&body);
    let names: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names[..2], ["a__read", "patch"]);
    assert!(names[2].starts_with("a__read_"), "{names:?}");
    assert_eq!(names[3..5], ["a__only", "b__read"]);
    assert!(names[5].len() <= 64 && names[5].starts_with("nnn"));
    let called = request.input.iter().map(|item| match item {
        Item::Call { name, .. } => &**name,
        _ => "",
    });
    assert_eq!(called.collect::<Vec<_>>(), ["b__read", "a__only", "", ""]);
    let back = request.names.find("b__read").unwrap();
    assert_eq!(
        (back.namespace.as_deref(), &*back.name),
        (Some("b__"), "read")
    );
    assert_eq!(
        request.choice,
        Some(Choice::Allowed {
            required: true,
            names: vec!["a__only".into(), "patch".into()]
        })
    );
}

#[test]
fn what_a_response_repeats_keeps_its_bytes() {
    let body = r#"{"input":"x","temperature":1e0,"tools":[ ],"metadata":{"a":"é"},"text":{"format":{"type":"json_schema","name":"n","schema":{"x":9007199254740993},"strict":true}}}"#;
    let request = read(body);
    assert_eq!(request.echo[0], ("metadata", r#"{"a":"é"}"#));
    assert_eq!(request.echo[1], ("temperature", "1e0"));
    let TextFormat::JsonSchema {
        name,
        schema,
        strict,
        ..
    } = &request.format
    else {
        panic!("{:?}", request.format);
    };
    assert_eq!(
        (&**name, schema.text, *strict),
        ("n", r#"{"x":9007199254740993}"#, Some(true))
    );
}
