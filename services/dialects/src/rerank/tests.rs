use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::dialect::{Change, DialectRequest as _, ReadOptions};
use crate::error::Class;
use crate::text::TextBuffer;

const ASKED: &str =
    r#"{"model":"m","query":"q","documents":["a",{"text":"b","image":"eA=="}],"top_n":1}"#;

fn peek(body: &str) -> RerankRequest {
    RerankRequest::peek(body.as_bytes()).unwrap()
}

#[test]
fn query_and_documents_are_what_is_counted() {
    let request = peek(ASKED);
    assert_eq!(
        (request.model(), request.text_bytes()),
        ("m", ASKED.len() as u64)
    );
    assert!(!request.generates());
    let mut text = TextBuffer::new(100);
    assert_eq!(request.input(ASKED.as_bytes(), &mut text), 0);
    assert_eq!(text.text(), "q\na\nb\n");
    let change = Change {
        model: "up",
        ..Change::default()
    };
    let sent = request.prepare(&Bytes::from_static(ASKED.as_bytes()), &change);
    assert_eq!(sent, ASKED.replace("\"m\"", "\"up\""));
}

#[test]
fn wrong_requests_are_told_which_field() {
    for (body, param) in [
        (r#"{"query":"q","documents":["a"]}"#, "model"),
        (r#"{"model":"m","documents":["a"]}"#, "query"),
        (r#"{"model":"m","query":["q"],"documents":["a"]}"#, "query"),
        (r#"{"model":"m","query":"q"}"#, "documents"),
        (r#"{"model":"m","query":"q","documents":[]}"#, "documents"),
        (r#"{"model":"m","query":"q","documents":"a"}"#, "documents"),
        (
            r#"{"model":"m","query":"q","documents":["a"],"top_n":0}"#,
            "top_n",
        ),
    ] {
        let error = RerankRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
}

#[test]
fn every_result_has_a_documents_place_and_its_score() {
    let read = |body: &str| {
        peek(ASKED).read(
            &Bytes::copy_from_slice(body.as_bytes()),
            &ReadOptions::default(),
        )
    };
    assert!(
        read(r#"{"results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}}]}"#).is_ok()
    );
    for (body, class) in [
        ("", Class::Empty),
        (r#"{"results":[]}"#, Class::Malformed),
        (
            r#"{"results":[{"index":2,"relevance_score":0.9}]}"#,
            Class::Malformed,
        ),
        (r#"{"results":[{"index":0}]}"#, Class::Malformed),
        (
            r#"{"results":[{"index":-1,"relevance_score":0.9}]}"#,
            Class::Malformed,
        ),
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

#[test]
fn usage_is_read_of_each_vendors_report() {
    for (told, input, raw) in [
        (
            r#""usage":{"total_tokens":15}"#,
            Some(15),
            r#"{"total_tokens":15}"#,
        ),
        (
            r#""usage":{"prompt_tokens":9,"total_tokens":15}"#,
            Some(9),
            r#"{"prompt_tokens":9,"total_tokens":15}"#,
        ),
        (
            r#""meta":{"billed_units":{"search_units":1},"tokens":{"input_tokens":7}}"#,
            Some(7),
            r#"{"billed_units":{"search_units":1},"tokens":{"input_tokens":7}}"#,
        ),
        (
            r#""meta":{"billed_units":{"input_tokens":8}}"#,
            Some(8),
            r#"{"billed_units":{"input_tokens":8}}"#,
        ),
        (r#""meta":{"billed_units":{"search_units":1}}"#, None, ""),
        (r#""usage":null"#, None, ""),
    ] {
        let body = format!(r#"{{"results":[{{"index":0,"relevance_score":1}}],{told}}}"#);
        let report = peek(ASKED)
            .read(&Bytes::from(body), &ReadOptions::default())
            .unwrap()
            .usage;
        let found = report
            .as_ref()
            .map(|report| (report.usage.input, &*report.raw));
        assert_eq!(
            found,
            input.map(|input| (Some(input), raw.as_bytes())),
            "{told}"
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = RerankRequest::peek(&bytes);
        let _ = peek(ASKED).read(&Bytes::from(bytes), &ReadOptions::default());
    }
}
