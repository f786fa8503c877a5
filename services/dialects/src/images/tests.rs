use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::carry::{AnswerStream, StreamOptions};
use crate::dialect::{Change, DialectRequest as _, Form, ReadOptions};
use crate::error::Class;

const STREAMED: &str = r#"{"model":"m","prompt":"a cat","stream":true,"n":1}"#;

fn peek(body: &str) -> ImagesRequest {
    ImagesRequest::peek("application/json", body.as_bytes(), false).unwrap()
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (name, value) in fields {
        body +=
            &format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body + "--B\r\nContent-Disposition: form-data; name=\"image[]\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n\u{1}PNG\r\n--B--\r\n"
}

const FORM: &str = "multipart/form-data; boundary=B";

#[test]
fn what_routing_and_money_need_is_read() {
    let request = peek(r#"{"model":"m","prompt":"a c\u0061t","n":3,"size":"auto"}"#);
    assert_eq!(
        (request.model(), request.images(), request.choices()),
        ("m", 3, 3)
    );
    assert_eq!((request.form(), request.text_bytes()), (Form::Whole, 5));
    let streamed = peek(STREAMED);
    assert_eq!((streamed.form(), streamed.images()), (Form::Events, 1));
}

#[test]
fn wrong_requests_are_told_which_field() {
    for (body, param) in [
        (r#"{"prompt":"x"}"#, "model"),
        (r#"{"model":"m"}"#, "prompt"),
        (r#"{"model":"m","prompt":["x"]}"#, "prompt"),
        (r#"{"model":"m","prompt":"x","n":0}"#, "n"),
        (r#"{"model":"m","prompt":"x","stream":"true"}"#, "stream"),
    ] {
        let error = ImagesRequest::peek("application/json", body.as_bytes(), true).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
    let no_image = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B--";
    for (body, param) in [
        (form(&[("prompt", "x")]), "model"),
        (form(&[("model", "m")]), "prompt"),
        (form(&[("model", "m"), ("prompt", "x"), ("n", "many")]), "n"),
        (no_image.to_owned(), "image"),
    ] {
        let error = ImagesRequest::peek(FORM, body.as_bytes(), true).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
}

#[test]
fn a_form_keeps_every_byte_but_the_model() {
    let body = form(&[
        ("model", "m"),
        ("prompt", "a hat"),
        ("n", "2"),
        ("stream", "true"),
    ]);
    let request = ImagesRequest::peek(FORM, body.as_bytes(), true).unwrap();
    assert_eq!(
        (request.model(), request.images(), request.form()),
        ("m", 2, Form::Events)
    );
    assert_eq!(request.content_type(), Some(FORM));
    let bytes = Bytes::from(body.clone());
    let change = |model| Change {
        model,
        ..Change::default()
    };
    let sent = request.prepare(&bytes, &change("up/model:1"));
    assert_eq!(
        &*sent,
        body.replacen("\r\n\r\nm\r\n", "\r\n\r\nup/model:1\r\n", 1)
            .as_bytes()
    );
    assert_eq!(
        request.prepare(&bytes, &change("m")).as_ptr(),
        bytes.as_ptr()
    );
}

#[test]
fn each_image_of_an_answer_counts() {
    let read = |body: &'static str| {
        peek(STREAMED).read(
            &Bytes::from_static(body.as_bytes()),
            &ReadOptions::default(),
        )
    };
    let answer = read(r#"{"created":1,"data":[{"b64_json":"eA=="},{"url":"http://x"}],"usage":{"input_tokens":5,"output_tokens":10,"total_tokens":15,"input_tokens_details":{"text_tokens":1,"image_tokens":4}}}"#).unwrap();
    let report = answer.usage.unwrap();
    assert_eq!(
        (
            report.usage.images,
            report.usage.input,
            report.usage.output,
            report.usage.input_image
        ),
        (Some(2), Some(5), Some(10), Some(4))
    );
    assert!(report.raw.starts_with(b"{\"input_tokens\":5"));
    let old = read(r#"{"created":1,"data":[{"url":"http://x"}]}"#).unwrap();
    let report = old.usage.unwrap();
    assert_eq!(
        (report.usage.images, report.usage.input, report.raw.len()),
        (Some(1), None, 0)
    );
    for (body, class) in [
        ("", Class::Empty),
        ("[]", Class::Malformed),
        (r#"{"data":[]}"#, Class::Malformed),
        (r#"{"data":[{"b64_json":""}]}"#, Class::Malformed),
        (r#"{"data":[{"url":"x"},{}]}"#, Class::Malformed),
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

const PARTIAL: &str = "event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"eA==\",\"partial_image_index\":0}\n\n";
const LAST: &str = "event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"eHk=\",\"usage\":{\"input_tokens\":5,\"output_tokens\":10,\"total_tokens\":15}}\n\n";

fn open(body: &str) -> Box<dyn AnswerStream> {
    peek(body).stream(StreamOptions {
        public_model: Some("m".to_owned()),
        ..StreamOptions::default()
    })
}

fn carried(stream: &mut dyn AnswerStream, body: &[u8], piece: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in body.chunks(piece) {
        stream.push(Bytes::copy_from_slice(piece)).unwrap();
        out.extend_from_slice(&stream.take().unwrap_or_default());
    }
    stream.finish().unwrap();
    out.extend_from_slice(&stream.take().unwrap_or_default());
    out
}

#[test]
fn partial_images_pass_byte_for_byte_and_the_last_one_ends_the_stream() {
    let mut stream = open(STREAMED);
    stream.push(PARTIAL.into()).unwrap();
    assert_eq!(stream.take().unwrap(), PARTIAL);
    assert!(stream.committed() && stream.has_content() && !stream.done() && !stream.complete());
    stream.push(LAST.into()).unwrap();
    assert_eq!(stream.take().unwrap(), LAST);
    assert!(stream.done());
    let usage = stream.usage().unwrap().usage;
    assert_eq!(
        (usage.images, usage.input, usage.output),
        (Some(1), Some(5), Some(10))
    );
}

#[test]
fn fewer_images_than_asked_for_are_an_answer_none_are_not() {
    let two = STREAMED.replace("\"n\":1", "\"n\":2");
    let mut fewer = open(&two);
    fewer.push(LAST.into()).unwrap();
    assert!(!fewer.done());
    fewer.finish().unwrap();
    assert_eq!(fewer.usage().unwrap().usage.images, Some(1));
    let mut cut = open(&two);
    cut.push(PARTIAL.into()).unwrap();
    assert_eq!(cut.finish().unwrap_err().class, Class::Cut);
    assert_eq!(open(&two).finish().unwrap_err().class, Class::Empty);
}

#[test]
fn an_error_in_the_stream_is_a_failure() {
    for event in [
        "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"no\"}\n\n",
        "data: {\"error\":{\"message\":\"no\",\"code\":503}}\n\n",
        "data: {\"type\":\"image_generation.failed\",\"message\":\"no\",\"code\":503}\n\n",
        "data: nothing\n\n",
    ] {
        let mut stream = open(STREAMED);
        assert!(stream.push(event.into()).is_err(), "{event}");
        assert!(stream.take().is_none());
    }
}

#[test]
fn a_whole_answer_can_be_streamed() {
    let two = peek(r#"{"model":"m","prompt":"p","stream":true,"n":2}"#);
    let body = br#"{"created":7,"data":[{"b64_json":"eA=="},{"b64_json":"eQ=="}],"usage":{"input_tokens":5,"output_tokens":10}}"#;
    let mut stream = two.stream(StreamOptions::default());
    let events = two.as_events(body);
    stream.push(events.clone()).unwrap();
    assert!(stream.done());
    assert_eq!(stream.take().unwrap(), events);
    let usage = stream.usage().unwrap().usage;
    assert_eq!((usage.images, usage.output), (Some(2), Some(10)));
    let text = String::from_utf8(events.to_vec()).unwrap();
    assert!(text.starts_with("event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"created_at\":7,\"b64_json\":\"eA==\"}\n\n"), "{text}");
}

proptest! {
    #[test]
    fn any_split_gives_the_same(piece in 1_usize..300) {
        let body = format!("{PARTIAL}{PARTIAL}{LAST}");
        let mut stream = open(STREAMED);
        prop_assert_eq!(carried(&mut *stream, body.as_bytes(), piece), body.as_bytes());
        prop_assert_eq!(stream.usage().unwrap().usage.images, Some(1));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ImagesRequest::peek("", &bytes, true);
        let _ = peek(STREAMED).read(&Bytes::from(bytes.clone()), &ReadOptions::default());
        let _ = peek(STREAMED).as_events(&bytes);
        let mut stream = open(STREAMED);
        let _ = stream.push(Bytes::from(bytes));
        let _ = stream.finish();
    }
}
