use super::super::message::{Content, FileSource, Message};
use super::*;
use crate::convert::Format;

fn read(body: &str) -> Request<'_> {
    Request::read(&Raw::body(body)).unwrap()
}

fn refused(body: &str) -> Box<Refusal> {
    Request::read(&Raw::body(body)).unwrap_err()
}

#[test]
fn every_role_and_part_is_read_in_order() {
    let request = read(
        r#"{"model":"m","messages":[
        {"role":"developer","content":"be brief"},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},
            {"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AA==","filename":"a.pdf"}}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":""},"extra_content":{"google":{"thought_signature":"S=="}}},
            {"id":"c2","type":"custom","custom":{"name":"g","input":"free text"}}]},
        {"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"2"}]},
        {"role":"assistant","content":"","refusal":"no"}]}"#,
    );
    let [
        Message::Instructions {
            developer: true, ..
        },
        Message::User { content, .. },
        Message::Assistant { calls, .. },
        Message::Tool { id: first, .. },
        Message::Tool { id: second, .. },
        Message::Assistant { content: no, .. },
    ] = &*request.messages
    else {
        panic!("{:?}", request.messages)
    };
    assert!(matches!(
        &**content,
        [
            Content::Text { .. },
            Content::Image { url, detail: Some(_), .. },
            Content::Audio { .. },
            Content::File { source: FileSource::Data(_), .. }
        ] if url == "https://x/y.png"
    ));
    assert_eq!((&*calls[0].arguments, calls[0].custom), ("", false));
    let seal = calls[0].seal().unwrap();
    assert_eq!(seal.for_target(Format::Gemini), Some("S=="));
    assert_eq!((&*calls[1].arguments, calls[1].custom), ("free text", true));
    assert_eq!((&**first, &**second), ("c1", "c2"));
    assert!(matches!(&**no, [Content::Refusal { text }] if text == "no"));
}

#[test]
fn an_older_function_call_is_a_call_and_its_result_finds_it() {
    let request = read(
        r#"{"messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"}],
        "functions":[{"name":"f","parameters":{}}],"function_call":{"name":"f"}}"#,
    );
    let [
        _,
        Message::Assistant { calls, .. },
        Message::Tool { id, rest, .. },
    ] = &*request.messages
    else {
        panic!("{:?}", request.messages)
    };
    assert_eq!(calls[0].id, *id);
    assert!(!rest.has("name"));
    assert!(request.asked.functions);
    assert_eq!(request.parallel_tool_calls, Some(false));
    let named = super::super::tools::Named {
        name: "f".into(),
        custom: false,
    };
    assert_eq!(request.choice, Some(Choice::Tool(named)));
}

#[test]
fn thoughts_come_back_in_order_each_with_its_seal() {
    let request = read(
        r#"{"messages":[{"role":"assistant","content":"a","reasoning_content":"onefreetwo",
        "reasoning_details":[{"type":"reasoning.text","text":"one","signature":"switchboard.a.S1","index":0},
        {"type":"reasoning.text","text":"two","signature":"switchboard.a.S2"},{"type":"reasoning.encrypted","data":"switchboard.ax.R"}]}]}"#,
    );
    let [Message::Assistant { thoughts, .. }] = &*request.messages else {
        panic!("{:?}", request.messages)
    };
    let all: Vec<_> = thoughts
        .iter()
        .map(|thought| {
            let seal = thought.seal();
            let value = seal.and_then(|seal| seal.for_target(Format::Anthropic).map(str::to_owned));
            (&*thought.text, value)
        })
        .collect();
    let own = |text: &str| Some(text.to_owned());
    assert_eq!(
        all,
        [
            ("one", own("S1")),
            ("free", None),
            ("two", own("S2")),
            ("", own("R"))
        ]
    );
}

#[test]
fn a_providers_own_detail_is_its_seal_as_a_whole() {
    let request = read(
        r#"{"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.encrypted","data":"xyz","format":"f","index":0}]}]}"#,
    );
    let [Message::Assistant { thoughts, .. }] = &*request.messages else {
        panic!("{:?}", request.messages)
    };
    let seal = thoughts[0].seal().unwrap();
    assert_eq!(
        seal.for_target(Format::Chat),
        Some(r#"{"type":"reasoning.encrypted","data":"xyz","format":"f","index":0}"#)
    );
    assert_eq!(seal.for_target(Format::Anthropic), None);
}

#[test]
fn tools_choice_format_and_limits_are_read() {
    let request = read(
        r#"{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}},
        {"type":"custom","custom":{"name":"g","format":{"type":"text"}}},{"type":"browser"}],
        "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}},
        "response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"},"strict":false}},
        "max_tokens":7,"max_completion_tokens":5,"stop":["a",""],"stream_options":{"include_usage":true},"n":2,"logprobs":true}"#,
    );
    assert!(matches!(
        &*request.tools,
        [Tool::Function { strict: Some(true), .. }, Tool::Custom { .. }, Tool::Other { kind, .. }] if kind == "browser"
    ));
    assert!(matches!(
        &request.choice,
        Some(Choice::Allowed { required: true, tools }) if tools.len() == 1
    ));
    assert!(
        matches!(&request.format, OutputFormat::JsonSchema { name, strict: Some(false), .. } if name == "s")
    );
    assert_eq!(request.max_output, Some(5));
    assert_eq!(request.stop, ["a"]);
    assert!(request.asked.include_usage);
    assert_eq!(request.one_plain_answer().unwrap_err().param, "n");
}

#[test]
fn what_is_left_is_named_but_not_what_is_wanted_anyway() {
    let request = read(
        r#"{"messages":[],"presence_penalty":0.0,"logit_bias":{},"service_tier":"auto","verbosity":"medium","stream_options":{"include_obfuscation":false},
        "seed":1,"enable_thinking":false}"#,
    );
    let mut drops = Drops::default();
    request.drop_rest(&mut drops);
    assert_eq!(drops.names(), ["seed", "enable_thinking"]);
}

#[test]
fn sound_is_refused_and_a_wrong_field_is_named() {
    let sound = refused(r#"{"messages":[],"modalities":["text","audio"],"audio":{}}"#);
    assert_eq!((&*sound.param, sound.unsupported), ("modalities", true));
    let wrong = refused(r#"{"messages":[{"role":"user","content":[{"type":"video"}]}]}"#);
    assert_eq!(
        (&*wrong.param, wrong.unsupported),
        ("messages[0].content[0].type", false)
    );
}
