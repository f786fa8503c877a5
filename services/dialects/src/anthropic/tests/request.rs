use super::{bytes, create};
use crate::anthropic::{MessagesCall, MessagesRequest};
use crate::dialect::{Change, DialectRequest as _, Form, Needs};
use crate::request::RequestError;
use crate::text::TextBuffer;

fn refused(body: &str) -> String {
    let error = MessagesRequest::peek(body.as_bytes(), MessagesCall::Create).unwrap_err();
    error.to_string()
}

fn prepared(body: &str, model: &str, output_cap: Option<u64>) -> String {
    let change = Change { model, output_cap };
    let out = create(body).prepare(&bytes(body), &change);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn a_request_tells_what_routing_needs() {
    let asked = create(
        r#"{"model":"claude","max_tokens":100,"stream":true,"tools":[{"name":"t","input_schema":{}}],
        "output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},
        "messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a/b.png"}},{"type":"text","text":"x"}]}]}"#,
    );
    assert_eq!((asked.model(), asked.form()), ("claude", Form::Events));
    assert_eq!(asked.output_limit(), Some(100));
    let needs = Needs {
        tools: true,
        vision: true,
        json: true,
        audio: false,
    };
    assert_eq!(asked.needs(), needs);
    assert!(asked.generates() && !asked.free());
    let plain = create(
        r#"{"model":"m","max_tokens":0,"tools":[],"messages":[{"role":"user","content":"x"}]}"#,
    );
    assert_eq!(
        (plain.needs(), plain.form()),
        (Needs::default(), Form::Whole)
    );
    assert_eq!(plain.output_limit(), Some(0));
}

#[test]
fn files_are_no_text_wherever_they_stand() {
    let file = r#"{"type":"base64","media_type":"image/png","data":"AAAAAAAAAAAAAAAA"}"#;
    let body = format!(
        r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":[
        {{"type":"tool_result","tool_use_id":"t","content":[{{"source":{file},"type":"image"}}]}},
        {{"type":"document","source":{{"type":"content","content":[{{"type":"image","source":{file}}},{{"type":"text","text":"in"}}]}}}},
        {{"type":"document","source":{file}}},
        {{"type":"document","source":{{"type":"text","media_type":"text/plain","data":"a text"}}}},
        {{"type":"image","source":{{"type":"file","file_id":"f"}}}}]}}]}}"#
    );
    let asked = create(&body);
    assert_eq!((asked.images, asked.documents), (3, 1));
    let id = r#"{"type":"file","file_id":"f"}"#;
    let media = 3 * file.len() + id.len();
    assert_eq!(asked.text_bytes, (body.len() - media) as u64);
}

#[test]
fn what_is_counted_is_what_a_model_reads() {
    let body = r#"{"model":"m","max_tokens":1,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],
        "tools":[{"name":"get"}],
        "messages":[{"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"get","input":{"city":"Rome"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"22C"},
        {"type":"document","source":{"type":"text","media_type":"text/plain","data":"a text"},"title":"T"},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}"#;
    let mut text = TextBuffer::new(1 << 10);
    assert_eq!(create(body).input(body.as_bytes(), &mut text), 0);
    let expected = "be brief\n[{\"name\":\"get\"}]\nhi\nhm\nget\nRome\n22C\na text\nT\n";
    assert_eq!(text.text(), expected);
}

#[test]
fn mistakes_name_the_field_and_what_was_expected() {
    for (body, said) in [
        ("[]", "the request body must be a JSON object, not an array"),
        (
            r#"{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}"#,
            "`model` is required: expected the name of a model",
        ),
        (
            r#"{"model":"m","max_tokens":1}"#,
            "`messages` is required: expected an array of messages",
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
            "`max_tokens` is required: expected a whole number from 0 to 999999999999999999",
        ),
        (
            r#"{"model":"m","max_tokens":-1,"messages":[{}]}"#,
            "`max_tokens` is invalid: expected a whole number from 0 to 999999999999999999, got -1",
        ),
        (
            r#"{"model":"m","max_tokens":1,"messages":[]}"#,
            "`messages` is invalid: expected at least one message, got an empty array",
        ),
        (
            r#"{"model":"m","max_tokens":1,"stream":"yes","messages":[{}]}"#,
            "`stream` is invalid: expected true or false, got a string",
        ),
    ] {
        assert_eq!(refused(body), said, "{body}");
    }
    let error = MessagesRequest::peek(b"{\"a\":\xff}", MessagesCall::Create).unwrap_err();
    assert_eq!(error, RequestError::Utf8 { at: 5 });
}

#[test]
fn counting_is_free_needs_no_limit_and_is_never_streamed() {
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}"#;
    let asked = MessagesRequest::peek(body.as_bytes(), MessagesCall::CountTokens).unwrap();
    assert!(asked.free() && !asked.generates());
    assert_eq!((asked.form(), asked.output_limit()), (Form::Whole, None));
    assert_eq!(asked.operation(), "count_tokens");
    assert_eq!(asked.keep_alive(), None);
}

#[test]
fn a_body_without_a_change_is_the_callers_own() {
    let body = "{ \"model\":\"m\", \"max_tokens\": 1e2,\"new_thing\":[1.0,null], \"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}] }";
    assert_eq!(prepared(body, "m", None), body);
    assert_eq!(prepared(body, "m", Some(100)), body);
}

#[test]
fn only_model_limit_and_budget_change() {
    let body = r#"{"model":"m","max_tokens":9000,"x":1,"thinking":{"type":"enabled","budget_tokens":5000},"messages":[{"role":"user","content":"m"}],"mod\u0065l":"m"}"#;
    let out = prepared(body, "up", Some(4000));
    assert_eq!(
        out,
        r#"{"model":"up","max_tokens":4000,"x":1,"thinking":{"type":"enabled","budget_tokens":3999},"messages":[{"role":"user","content":"m"}],"mod\u0065l":"up"}"#
    );
    // a budget that still fits stays; one that cannot be made to fit is the upstream's to refuse
    let fits = prepared(body, "m", Some(6000));
    assert!(fits.contains(r#""budget_tokens":5000"#) && fits.contains(r#""max_tokens":6000"#));
    let tight = prepared(body, "m", Some(300));
    assert!(tight.contains(r#""budget_tokens":5000"#) && tight.contains(r#""max_tokens":300"#));
}
