use bytes::Bytes;

use super::*;
use crate::dialect::{DialectRequest as _, ReadOptions};
use crate::error::Class;

#[test]
fn every_form_of_input_is_counted() {
    for (input, inputs, tokens) in [
        (r#""text""#, 1, 0),
        (r#"["a","b","c"]"#, 3, 0),
        ("[1,2,3]", 1, 3),
        ("[[1,2,3],[4,5]]", 2, 5),
    ] {
        let body = format!(r#"{{"model":"m","input":{input}}}"#);
        let request = EmbeddingsRequest::peek(body.as_bytes()).unwrap();
        assert_eq!(
            (request.inputs.count, request.inputs.tokens),
            (inputs, tokens),
            "{input}"
        );
        assert_eq!(request.encoding, Encoding::Unsaid);
    }
}

#[test]
fn wrong_requests_are_told_which_field() {
    for (body, param) in [
        (r#"{"input":"x"}"#, "model"),
        (r#"{"model":"","input":"x"}"#, "model"),
        (r#"{"model":3,"input":"x"}"#, "model"),
        (r#"{"model":"m"}"#, "input"),
        (r#"{"model":"m","input":[]}"#, "input"),
        (r#"{"model":"m","input":null}"#, "input"),
        (r#"{"model":"m","input":[{}]}"#, "input"),
        (
            r#"{"model":"m","input":"x","encoding_format":"hex"}"#,
            "encoding_format",
        ),
    ] {
        let error = EmbeddingsRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
}

#[test]
fn only_the_model_changes_in_a_request() {
    let body = Bytes::from_static(
        br#"{ "input" : ["a"],"model":"pub", "encoding_format":"base64", "x":1e2}"#,
    );
    let request = EmbeddingsRequest::peek(&body).unwrap();
    assert_eq!(request.encoding, Encoding::Base64);
    assert_eq!(
        &*request.patch(&body, "up"),
        br#"{ "input" : ["a"],"model":"up", "encoding_format":"base64", "x":1e2}"#
    );
    assert_eq!(request.patch(&body, "pub").as_ptr(), body.as_ptr());
}

#[test]
fn vectors_have_the_form_that_was_asked_for() {
    let body = Bytes::from_static(
        br#"{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0.5, -1e0]},{"embedding":"AAAAAA==","index":0}],"model":"up","usage":{"prompt_tokens":4,"total_tokens":4}}"#,
    );
    let answer = EmbeddingsAnswer::read(&body).unwrap();
    assert_eq!(answer.count, 2);
    let usage = answer.usage.clone().unwrap();
    assert_eq!((usage.usage.input, usage.usage.output), (Some(4), None));
    for encoding in [Encoding::Float, Encoding::Unsaid] {
        assert_eq!(
            &*answer.patch(&body, None, encoding).unwrap(),
            br#"{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0.5, -1e0]},{"embedding":[0],"index":0}],"model":"up","usage":{"prompt_tokens":4,"total_tokens":4}}"#
        );
    }
    assert_eq!(
        &*answer.patch(&body, Some("pub"), Encoding::Base64).unwrap(),
        br#"{"object":"list","data":[{"object":"embedding","index":1,"embedding":"AAAAPwAAgL8="},{"embedding":"AAAAAA==","index":0}],"model":"pub","usage":{"prompt_tokens":4,"total_tokens":4}}"#
    );
}

#[test]
fn a_vector_keeps_its_values_from_one_form_to_the_other_and_back() {
    let floats = Bytes::from_static(br#"{"data":[{"embedding":[0.1,-2.5,0.00000001,16777216]}]}"#);
    let answer = EmbeddingsAnswer::read(&floats).unwrap();
    let text = |encoding| answer.patch(&floats, None, encoding).unwrap();
    assert_eq!(text(Encoding::Float).as_ptr(), floats.as_ptr());
    let coded = text(Encoding::Base64);
    let answer = EmbeddingsAnswer::read(&coded).unwrap();
    assert_eq!(answer.patch(&coded, None, Encoding::Float).unwrap(), floats);
}

#[test]
fn what_is_no_vector_is_a_failure_and_is_never_passed_half_converted() {
    for (vector, encoding) in [
        ("[1,null]", Encoding::Base64),
        ("[1,\"2\"]", Encoding::Base64),
        ("[1e999]", Encoding::Base64),
        ("\"AAA!\"", Encoding::Float),
        ("\"AAAA\"", Encoding::Float),
        ("\"AACAfw==\"", Encoding::Unsaid),
    ] {
        let body = Bytes::from(format!(r#"{{"data":[{{"embedding":{vector}}}]}}"#));
        let answer = EmbeddingsAnswer::read(&body).unwrap();
        let error = answer.patch(&body, None, encoding).unwrap_err();
        assert_eq!(error.class, Class::Malformed, "{vector}");
    }
}

#[test]
fn an_answer_without_vectors_is_a_failure() {
    for (body, class) in [
        ("", Class::Empty),
        ("{\"data\":[{\"embed", Class::Malformed),
        ("{}", Class::Malformed),
        (r#"{"data":[]}"#, Class::Malformed),
        (r#"{"data":[{"index":0}]}"#, Class::Malformed),
        (r#"{"data":[{"embedding":null}]}"#, Class::Malformed),
        (r#"{"data":[{"embedding":[]}]}"#, Class::Malformed),
        (r#"{"data":[{"embedding":[ null]}]}"#, Class::Malformed),
        (r#"{"data":[{"embedding":[[1]]}]}"#, Class::Malformed),
        (r#"{"data":[{"embedding":""}]}"#, Class::Malformed),
        (
            r#"{"error":{"message":"x","code":429}}"#,
            Class::RateLimited,
        ),
    ] {
        assert_eq!(
            EmbeddingsAnswer::read(body.as_bytes()).unwrap_err().class,
            class,
            "{body}"
        );
    }
}

#[test]
fn each_input_has_its_vector() {
    let request = EmbeddingsRequest::peek(br#"{"model":"m","input":["a","b"]}"#).unwrap();
    let vectors = |count| {
        let vectors = vec![r#"{"embedding":[1]}"#; count].join(",");
        let body = Bytes::from(format!(r#"{{"data":[{vectors}]}}"#));
        request.read(&body, &ReadOptions::default())
    };
    assert_eq!(vectors(1).unwrap_err().class, Class::Malformed);
    assert!(vectors(2).is_ok());
}
