use bytes::Bytes;

use super::ResponsesRequest;
use crate::dialect::{Change, DialectRequest as _, Form, Needs};
use crate::request::RequestError;
use crate::text::TextBuffer;

fn create(body: &str) -> ResponsesRequest {
    ResponsesRequest::peek(body.as_bytes()).unwrap()
}

fn prepared(body: &str, model: &str, output_cap: Option<u64>) -> String {
    let change = Change { model, output_cap };
    let out = create(body).prepare(&Bytes::copy_from_slice(body.as_bytes()), &change);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn a_request_tells_what_routing_needs() {
    let asked = create(
        r#"{"model":"gpt","max_output_tokens":100,"stream":true,"store":false,"background":false,"previous_response_id":"resp_0",
        "tools":[{"type":"function","name":"t"}],"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{}}},
        "input":[{"role":"user","content":[{"type":"input_image","image_url":"https://a/b.png"},
        {"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"input_text","text":"x"}]}]}"#,
    );
    assert_eq!((asked.model(), asked.form()), ("gpt", Form::Events));
    assert_eq!(asked.output_limit(), Some(100));
    assert_eq!(asked.previous_response(), Some("resp_0"));
    assert!(!asked.store && !asked.background());
    let needs = Needs {
        tools: true,
        vision: true,
        json: true,
        audio: true,
    };
    assert_eq!(asked.needs(), needs);
    assert!(asked.generates() && !asked.free());
}

#[test]
fn what_is_not_said_is_what_the_protocol_takes_it_for() {
    let nothing = create(r#"{"model":"m","input":"x"}"#);
    let empty = create(
        r#"{"model":"m","input":null,"stream":null,"store":null,"background":null,"max_output_tokens":null,"previous_response_id":null,"tools":[],"text":{"format":{"type":"text"}}}"#,
    );
    for asked in [nothing, empty] {
        assert_eq!(asked.form(), Form::Whole);
        assert!(asked.store && !asked.background());
        assert_eq!(asked.output_limit(), None);
        assert_eq!(asked.previous_response(), None);
        assert_eq!(asked.needs(), Needs::default());
    }
    let background = create(r#"{"model":"m","input":"x","background":true}"#);
    assert!(background.background());
}

#[test]
fn json_is_asked_for_by_the_format_of_text() {
    let json = |text: &str| {
        let body = format!(r#"{{"model":"m","input":"json_object","text":{text}}}"#);
        create(&body).needs().json
    };
    assert!(json(r#"{"format":{"type":"json_object"}}"#));
    assert!(json(r#"{"format":{"schema":{},"type":"json_schema"}}"#));
    assert!(!json(r#"{"format":{"type":"text"}}"#));
    assert!(!json(r#"{"format":null}"#));
    assert!(!json("null"));
}

#[test]
fn an_image_is_one_whether_its_bytes_or_its_file_are_named() {
    let images = |part: &str| {
        let body = format!(r#"{{"model":"m","input":[{{"role":"user","content":[{part}]}}]}}"#);
        let asked = create(&body);
        (asked.images, asked.needs().vision)
    };
    assert_eq!(
        images(r#"{"type":"input_image","file_id":"f","detail":"low"}"#),
        (1, true)
    );
    assert_eq!(
        images(r#"{"file_id":"f","image_url":null,"type":"input_image"}"#),
        (1, true)
    );
    assert_eq!(
        images(r#"{"type":"input_image","image_url":"https://a/b.png"}"#),
        (1, true)
    );
    assert_eq!(
        images(r#"{"type":"input_text","text":"input_image"}"#),
        (0, false)
    );
}

#[test]
fn media_are_no_text_wherever_they_stand() {
    let data = r#""data:image/png;base64,AAAAAAAAAAAA""#;
    let sound = r#"{"data":"AAAAAAAA","format":"wav"}"#;
    let body = format!(
        r#"{{"model":"m","input":[{{"role":"user","content":[{{"type":"input_image","image_url":{data}}},
        {{"type":"input_file","filename":"a.pdf","file_data":{data}}},{{"type":"input_audio","input_audio":{sound}}}]}},
        {{"type":"function_call_output","call_id":"c","output":[{{"type":"input_image","image_url":{data}}}]}},
        {{"type":"computer_call_output","output":{{"type":"computer_screenshot","image_url":{data}}}}}]}}"#
    );
    let asked = create(&body);
    assert_eq!((asked.images, asked.audios, asked.files), (3, 1, 1));
    let media = 4 * data.len() + sound.len();
    assert_eq!(asked.text_bytes, (body.len() - media) as u64);
}

#[test]
fn what_is_counted_is_what_a_model_reads() {
    let body = r#"{"model":"m","instructions":"be brief","metadata":{"a":"not this"},"tools":[{"name":"get"}],
        "input":[{"role":"user","content":"hi"},{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"yes","annotations":[]}]},
        {"type":"function_call","id":"fc_1","call_id":"c","name":"get","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"c","output":"22C"},
        {"type":"reasoning","id":"rs_1","encrypted_content":"AAAA","summary":[{"type":"summary_text","text":"hm"}]}]}"#;
    let mut text = TextBuffer::new(1 << 10);
    assert_eq!(create(body).input(body.as_bytes(), &mut text), 0);
    let expected = "be brief\n[{\"name\":\"get\"}]\nhi\nyes\nget\n{\"a\":1}\n22C\nhm\n";
    assert_eq!(text.text(), expected);
}

#[test]
fn mistakes_name_the_field_and_what_was_expected() {
    let number = "a whole number from 1 to 999999999999999999";
    let id = "the id of a response as a string";
    for (field, value, expected, got) in [
        ("model", "7", "the name of a model as a string", "a number"),
        ("stream", r#""yes""#, "true or false", "a string"),
        ("store", "0", "true or false", "a number"),
        ("background", "[]", "true or false", "an array"),
        ("max_output_tokens", "0", number, "0"),
        ("max_output_tokens", "-1", number, "-1"),
        ("max_output_tokens", "1.5", number, "1.5"),
        ("max_output_tokens", r#""9""#, number, "a string"),
        ("previous_response_id", "{}", id, "an object"),
    ] {
        let body = format!(r#"{{"model":"m","input":"x","{field}":{value}}}"#);
        let error = ResponsesRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), Some(field));
        let said = format!("`{field}` is invalid: expected {expected}, got {got}");
        assert_eq!(error.to_string(), said);
    }
    for body in [r#"{"input":"x"}"#, r#"{"model":"","input":"x"}"#] {
        let error = ResponsesRequest::peek(body.as_bytes()).unwrap_err();
        let said = "`model` is required: expected the name of a model";
        assert_eq!(
            (error.param(), error.to_string()),
            (Some("model"), said.to_owned())
        );
    }
    let error = ResponsesRequest::peek(b"[]").unwrap_err();
    let said = "the request body must be a JSON object, not an array";
    assert_eq!(error.to_string(), said);
    let error = ResponsesRequest::peek(b"{\"a\":\xff}").unwrap_err();
    assert_eq!(error, RequestError::Utf8 { at: 5 });
    for body in [r#"{"model":"m""#, r#"{"model":"m"} x"#, ""] {
        let error = ResponsesRequest::peek(body.as_bytes()).unwrap_err();
        assert!(matches!(error, RequestError::Json(_)), "{body}");
    }
}

#[test]
fn a_body_without_a_change_is_the_callers_own() {
    let body = "{ \"model\":\"m\", \"max_output_tokens\": 1e2,\"new_thing\":[1.0,null], \"temperature\":0,\"input\":\"\\u00e9\" }";
    assert_eq!(prepared(body, "m", None), body);
    assert_eq!(prepared(body, "m", Some(100)), body);
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let same = create(body).patch(&bytes, "m", None);
    assert_eq!(same.as_ptr(), bytes.as_ptr());
}

#[test]
fn only_model_and_limit_change() {
    let body = r#"{"model":"m", "max_output_tokens":9000,"x":1.50,"reasoning":{"effort":"low"},"input":[{"model":"m","max_output_tokens":9000}],"mod\u0065l":"m"}"#;
    assert_eq!(
        prepared(body, "u\"p", Some(4000)),
        r#"{"model":"u\"p", "max_output_tokens":4000,"x":1.50,"reasoning":{"effort":"low"},"input":[{"model":"m","max_output_tokens":9000}],"mod\u0065l":"u\"p"}"#
    );
    let without = r#"{"model":"m","input":"x" }"#;
    assert_eq!(
        prepared(without, "m", Some(5)),
        r#"{"model":"m","input":"x","max_output_tokens":5 }"#
    );
    let null = r#"{"max_output_tokens":null,"model":"m","input":"x"}"#;
    assert_eq!(prepared(null, "m", Some(5)), null.replace("null", "5"));
    assert_eq!(prepared(null, "m", None), null);
}
