use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::dialect::{Change, DialectRequest as _, ReadOptions};
use crate::error::Class;
use crate::text::TextBuffer;

fn peek(body: &str) -> ModerationsRequest {
    ModerationsRequest::peek(body.as_bytes()).unwrap()
}

fn prepared(body: &str, model: &str) -> String {
    let change = Change {
        model,
        ..Change::default()
    };
    let sent = peek(body).prepare(&Bytes::copy_from_slice(body.as_bytes()), &change);
    String::from_utf8(sent.to_vec()).unwrap()
}

#[test]
fn a_request_without_a_model_asks_for_the_usual_one() {
    for body in [r#"{"input":"x"}"#, r#"{"model":null,"input":"x"}"#] {
        assert_eq!(peek(body).model(), "omni-moderation-latest");
    }
    assert_eq!(
        prepared(r#"{"input":"x" }"#, "up"),
        r#"{"input":"x","model":"up" }"#
    );
    assert_eq!(
        prepared(r#"{"model":"m","input":"x"}"#, "up"),
        r#"{"model":"up","input":"x"}"#
    );
    assert_eq!(
        prepared(r#"{"model":"up","input":"x"}"#, "up"),
        r#"{"model":"up","input":"x"}"#
    );
}

#[test]
fn texts_count_and_images_do_not() {
    let url = "A".repeat(100_000);
    let body = format!(
        r#"{{"model":"m","input":[{{"type":"text","text":"one"}},{{"type":"image_url","image_url":{{"url":"data:{url}"}}}}]}}"#
    );
    let request = peek(&body);
    assert!(request.text_bytes() < 200);
    let mut text = TextBuffer::new(100);
    request.input(body.as_bytes(), &mut text);
    assert_eq!(text.text().trim(), "one");
    let mut text = TextBuffer::new(100);
    let body = r#"{"input":["one","two"]}"#;
    peek(body).input(body.as_bytes(), &mut text);
    assert_eq!(text.text(), "one\ntwo\n");
}

#[test]
fn wrong_requests_are_told_which_field() {
    for (body, param) in [
        (r#"{"model":"m"}"#, "input"),
        (r#"{"model":"m","input":null}"#, "input"),
        (r#"{"model":7,"input":"x"}"#, "model"),
    ] {
        let error = ModerationsRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
}

#[test]
fn an_answer_judges_every_input() {
    let options = ReadOptions {
        public_model: Some("m"),
        ..ReadOptions::default()
    };
    let read = |body: &str| {
        peek(r#"{"input":"x"}"#).read(&Bytes::copy_from_slice(body.as_bytes()), &options)
    };
    let answer =
        read(r#"{"id":"modr-1","model":"up","results":[{"flagged":false},{"flagged":true}]}"#)
            .unwrap();
    assert_eq!(
        &*answer.body,
        br#"{"id":"modr-1","model":"m","results":[{"flagged":false},{"flagged":true}]}"#
    );
    assert_eq!(answer.usage, None);
    for (body, class) in [
        ("", Class::Empty),
        (r#"{"results":[]}"#, Class::Malformed),
        (r#"{"results":[{"flagged":"no"}]}"#, Class::Malformed),
        (r#"{"results":[7]}"#, Class::Malformed),
    ] {
        assert_eq!(read(body).unwrap_err().class, class, "{body}");
    }
    assert!(
        read(r#"{"error":{"message":"busy","code":503}}"#)
            .unwrap_err()
            .class
            .retryable()
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ModerationsRequest::peek(&bytes);
        let _ = peek(r#"{"input":"x"}"#).read(&Bytes::from(bytes), &ReadOptions::default());
    }
}
