use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;
use crate::chat::Patch;

fn peek(body: &str) -> ChatRequest {
    ChatRequest::peek(body.as_bytes()).unwrap()
}

fn patched(body: &str, patch: &Patch<'_>) -> String {
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    String::from_utf8(peek(body).patch(&bytes, patch).to_vec()).unwrap()
}

const USAGE: Patch<'_> = Patch {
    model: None,
    include_usage: true,
    output_cap: None,
    output_cap_field: "max_completion_tokens",
};

#[test]
fn facts_are_read() {
    let request = peek(
        r#"{"model":"m\u00e9","messages":[{"role":"user","content":[{"type":"text","text":"hi"},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"input_audio","input_audio":{"data":"A"}}]},
            {"role":"assistant","content":null}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,
            "max_completion_tokens":1e2,"n":2,"tools":[{}],"response_format":{"type":"json_object"}}"#,
    );
    assert_eq!(request.fields.model, "mé");
    assert!(
        request.fields.stream
            && request.fields.include_usage
            && request.has_tools
            && request.has_response_format
    );
    assert_eq!(
        (
            request.messages,
            request.images,
            request.audios,
            request.fields.n
        ),
        (2, 1, 1, 2)
    );
    assert_eq!(
        (request.max_tokens, request.max_completion_tokens),
        (Some(5), Some(100))
    );
    assert_eq!(request.output_limit(), Some(100));
    let twice = peek(r#"{"messages":[{}],"model":"m","max_tokens":9,"max_tokens":1}"#);
    assert_eq!(twice.output_limit(), Some(9));
    let plain = peek(
        r#"{"messages":[{}],"model":"m","n":null,"stream":null,"tools":[ ],"response_format":{"type":"text"}}"#,
    );
    assert!(
        !plain.fields.stream
            && !plain.fields.include_usage
            && !plain.has_tools
            && !plain.has_response_format
    );
    assert_eq!((plain.fields.n, plain.output_limit()), (1, None));
}

#[test]
fn media_do_not_count_as_text() {
    let blob = "A".repeat(3_000_000);
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{blob}"}}}}]}}]}}"#
    );
    assert!(peek(&body).text_bytes < 200);
}

#[test]
fn wrong_requests_are_told_which_field() {
    for (body, param) in [
        ("[]", None),
        ("nope", None),
        ("{\"model\": ", None),
        ("{\"model\":\"m\",\"messages\":[{}]} x", None),
        (r#"{"messages":[{}]}"#, Some("model")),
        (r#"{"model":"","messages":[{}]}"#, Some("model")),
        (r#"{"model":7,"messages":[{}]}"#, Some("model")),
        (r#"{"model":"m"}"#, Some("messages")),
        (r#"{"model":"m","messages":[]}"#, Some("messages")),
        (r#"{"model":"m","messages":"hi"}"#, Some("messages")),
        (r#"{"model":"m","messages":["hi"]}"#, Some("messages")),
        (
            r#"{"model":"m","messages":[{}],"stream":"yes"}"#,
            Some("stream"),
        ),
        (
            r#"{"model":"m","messages":[{}],"stream_options":true}"#,
            Some("stream_options"),
        ),
        (
            r#"{"model":"m","messages":[{}],"stream_options":{"include_usage":1}}"#,
            Some("stream_options.include_usage"),
        ),
        (r#"{"model":"m","messages":[{}],"n":0}"#, Some("n")),
        (r#"{"model":"m","messages":[{}],"n":129}"#, Some("n")),
        (
            r#"{"model":"m","messages":[{}],"max_tokens":-1}"#,
            Some("max_tokens"),
        ),
        (
            r#"{"model":"m","messages":[{}],"max_completion_tokens":"9"}"#,
            Some("max_completion_tokens"),
        ),
    ] {
        let error = ChatRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), param, "{body}: {error}");
    }
    assert!(matches!(
        ChatRequest::peek(b"{\"a\":\"\xff\"}"),
        Err(RequestError::Utf8 { at: 6 })
    ));
}

#[test]
fn a_deeply_nested_request_is_refused_without_overflow() {
    let body = format!(
        r#"{{"model":"m","messages":[{{"content":{}"#,
        "[".repeat(2_000_000)
    );
    assert!(matches!(
        ChatRequest::peek(body.as_bytes()),
        Err(RequestError::Json(JsonError::TooDeep { .. }))
    ));
}

#[test]
fn nothing_changes_without_need() {
    let body = Bytes::from_static(br#"{"model":"m","messages":[{}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":5}"#);
    let request = ChatRequest::peek(&body).unwrap();
    let patch = Patch {
        model: Some("m"),
        include_usage: true,
        output_cap: Some(5),
        ..Patch::default()
    };
    assert_eq!(request.patch(&body, &patch).as_ptr(), body.as_ptr());
}

#[test]
fn only_what_must_change_changes() {
    let body = "{ \"temperature\" : 0.10, \"mod\\u0065l\":\t\"pub\" ,\"messages\":[ {\"content\":\"\\u00e9\"} ],\"x\":{\"a\":[1e5,null]},\"stream\":true }\n";
    assert_eq!(
        patched(
            body,
            &Patch {
                model: Some("up/\"x\""),
                ..USAGE
            }
        ),
        "{ \"temperature\" : 0.10, \"mod\\u0065l\":\t\"up/\\\"x\\\"\" ,\"messages\":[ {\"content\":\"\\u00e9\"} ],\"x\":{\"a\":[1e5,null]},\"stream\":true,\"stream_options\":{\"include_usage\":true} }\n"
    );
}

#[test]
fn usage_is_asked_for_whatever_stands_there() {
    for (given, want) in [
        ("null", r#"{"include_usage":true}"#),
        ("{}", r#"{"include_usage":true}"#),
        ("{ }", r#"{"include_usage":true }"#),
        (r#"{"include_usage":false}"#, r#"{"include_usage":true}"#),
        (
            r#"{"include_usage":null,"y":1}"#,
            r#"{"include_usage":true,"y":1}"#,
        ),
        (
            r#"{"include_obfuscation":false}"#,
            r#"{"include_obfuscation":false,"include_usage":true}"#,
        ),
    ] {
        let body = |options: &str| {
            format!(r#"{{"stream_options":{options},"model":"m","messages":[{{}}],"stream":true}}"#)
        };
        assert_eq!(patched(&body(given), &USAGE), body(want));
    }
    let whole = r#"{"model":"m","messages":[{}]}"#;
    assert_eq!(
        patched(whole, &USAGE),
        whole,
        "only streams need to be asked"
    );
}

#[test]
fn the_cap_lowers_limits_and_never_raises_them() {
    let cap = |field| Patch {
        output_cap: Some(100),
        output_cap_field: field,
        ..Patch::default()
    };
    let body = |extra: &str| format!(r#"{{"model":"m","messages":[{{}}]{extra}}}"#);
    for (given, want) in [
        ("", r#","max_completion_tokens":100"#),
        (r#","max_tokens":null"#, r#","max_tokens":100"#),
        (r#","max_tokens":99"#, r#","max_tokens":99"#),
        (
            r#","max_tokens":101,"max_completion_tokens":50"#,
            r#","max_tokens":100,"max_completion_tokens":50"#,
        ),
        (
            r#","max_tokens":101,"max_tokens":102"#,
            r#","max_tokens":100,"max_tokens":100"#,
        ),
    ] {
        assert_eq!(
            patched(&body(given), &cap("max_completion_tokens")),
            body(want)
        );
    }
    assert_eq!(
        patched(&body(""), &cap("max_tokens")),
        body(r#","max_tokens":100"#)
    );
}

#[test]
fn of_two_equal_keys_the_last_counts_and_both_are_patched() {
    let body = r#"{"model":"a","messages":[{}],"model":"b","stream":true,"stream_options":{"include_usage":true},"stream_options":null}"#;
    let request = peek(body);
    assert_eq!(request.fields.model, "b");
    assert!(!request.fields.include_usage);
    assert_eq!(
        patched(
            body,
            &Patch {
                model: Some("u"),
                ..USAGE
            }
        ),
        r#"{"model":"u","messages":[{}],"model":"u","stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}"#
    );
}

#[test]
fn the_text_that_a_model_reads_is_collected() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"one"},{"role":"user","content":[{"type":"text","text":"tw\u006f"},
        {"type":"image_url","image_url":{"url":"data:xxx"}}]},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}],
        "tools":[{"type":"function"}]}"#;
    let mut text = TextBuffer::new(1000);
    ChatRequest::input_text(body.as_bytes(), &mut text).unwrap();
    assert_eq!(text.text(), "one\ntwo\nf\n{}\n[{\"type\":\"function\"}]\n");
    let mut short = TextBuffer::new(5);
    ChatRequest::input_text(body.as_bytes(), &mut short).unwrap();
    assert_eq!((short.text(), short.truncated()), ("one\nt", true));
    assert_eq!(short.bytes(), text.bytes());
}

proptest! {
    #[test]
    fn a_patch_changes_the_meaning_only_where_it_should(extra in prop::collection::btree_map("[a-z]{1,6}_x", any::<i64>(), 0..4),
        options in prop::sample::select(vec![json!(null), json!({}), json!({"include_usage": false, "z": 1}), json!({"z": [1]})]),
        limit in prop::option::of(1u64..5000), model in "[a-z/\"é]{1,8}", pretty in any::<bool>()) {
        let mut body = json!({"model": "public", "messages": [{"role": "user", "content": "x"}], "stream": true});
        for (key, value) in extra { body[key] = value.into(); }
        body["stream_options"] = options;
        if let Some(limit) = limit { body["max_tokens"] = limit.into(); }
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
        let got = patched(&text, &Patch { model: Some(&model), include_usage: true, output_cap: Some(1000), ..Patch::default() });
        let mut want = body;
        want["model"] = model.into();
        if want["stream_options"].is_null() { want["stream_options"] = json!({}); }
        want["stream_options"]["include_usage"] = true.into();
        match limit {
            Some(limit) => want["max_tokens"] = limit.min(1000).into(),
            None => want["max_completion_tokens"] = 1000.into(),
        }
        prop_assert_eq!(serde_json::from_str::<Tree>(&got).unwrap(), want);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = ChatRequest::peek(&bytes);
    }
}
