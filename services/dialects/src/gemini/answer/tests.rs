use super::*;
use crate::text::TextBuffer;

const WHOLE: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1,"totalTokenCount":4},"modelVersion":"up-001","responseId":"r"}"#;

fn read(call: Call, body: &str, public: Option<&str>) -> Result<WholeAnswer, Box<UpstreamError>> {
    let asked = br#"{"contents":[],"content":{},"requests":[]}"#;
    let request = GeminiRequest::peek(call, "m", asked).unwrap();
    let options = ReadOptions {
        public_model: public,
        text_bound: 100,
        ..ReadOptions::default()
    };
    request.read(&Bytes::copy_from_slice(body.as_bytes()), &options)
}

fn class(call: Call, body: &str) -> Class {
    read(call, body, None).unwrap_err().class
}

#[test]
fn an_answer_passes_as_it_came_but_for_the_public_name() {
    let answer = read(Call::Generate, WHOLE, None).unwrap();
    assert_eq!(answer.body, WHOLE);
    assert!(answer.text.is_none(), "usage was told");
    let usage = answer.usage.unwrap();
    assert_eq!((usage.usage.input, usage.usage.output), (Some(3), Some(1)));
    let renamed = read(Call::Generate, WHOLE, Some("pub")).unwrap();
    assert_eq!(renamed.body, WHOLE.replace("up-001", "pub"));
}

#[test]
fn text_is_kept_where_it_must_be_counted() {
    let body = r#"{"candidates":[{"content":{"parts":[{"text":"a","thought":true},{"text":"b"},{"functionCall":{"name":"f","args":{"x":1}}}]}}]}"#;
    let answer = read(Call::Generate, body, None).unwrap();
    assert_eq!(
        answer.text.as_ref().map(TextBuffer::text),
        Some("abf{\"x\":1}")
    );
    assert!(answer.usage.is_none());
}

#[test]
fn what_is_no_answer_is_a_failure_though_the_status_is_200() {
    for (body, expected) in [
        ("", Class::Empty),
        (" \n", Class::Empty),
        ("<html>", Class::Malformed),
        (&WHOLE[..WHOLE.len() - 9], Class::Malformed),
        ("{}", Class::Malformed),
        (r#"{"candidates":[]}"#, Class::Malformed),
        (r#"{"candidates":[{"index":0}]}"#, Class::Malformed),
        (r#"{"promptFeedback":{}}"#, Class::Malformed),
        (
            r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}"#,
            Class::RateLimited,
        ),
        (
            r#"[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]"#,
            Class::Overloaded,
        ),
        (
            r#"{"error":{"code":400,"message":"The input token count exceeds the maximum","status":"INVALID_ARGUMENT"}}"#,
            Class::ContextLength,
        ),
    ] {
        assert_eq!(class(Call::Generate, body), expected, "{body}");
    }
}

#[test]
fn a_blocked_prompt_and_a_candidate_that_only_ended_are_answers() {
    for body in [
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}"#,
        r#"{"candidates":[{"finishReason":"SAFETY","index":0}]}"#,
    ] {
        assert_eq!(read(Call::Generate, body, None).unwrap().body, body);
    }
}

#[test]
fn a_count_and_vectors_must_be_there() {
    for (call, body) in [
        (Call::CountTokens, r#"{"totalTokens":0}"#),
        (Call::Embed, r#"{"embedding":{"values":[1]}}"#),
        (
            Call::EmbedBatch,
            r#"{"embeddings":[{"values":[0.10]}],"usageMetadata":{"promptTokenCount":2}}"#,
        ),
    ] {
        assert_eq!(read(call, body, Some("pub")).unwrap().body, body);
        assert_eq!(class(call, "{}"), Class::Malformed);
        let error = r#"{"error":{"code":500,"message":"m","status":"INTERNAL"}}"#;
        assert_eq!(class(call, error), Class::Server);
    }
    let nothing = r#"{"embeddings":[ ]}"#;
    assert_eq!(class(Call::EmbedBatch, nothing), Class::Malformed);
}

#[test]
fn a_whole_answer_is_one_event_and_an_array_is_several() {
    assert_eq!(
        &*as_events(b" {\n \"candidates\": []\r\n}\n"),
        b"data: {  \"candidates\": []  }\n\n"
    );
    let array = format!("[{WHOLE}\n,\r\n{WHOLE}]");
    assert_eq!(class(Call::Generate, &array), Class::Malformed);
    let read = read(Call::StreamEvents, &array, None).unwrap();
    let event = format!("data: {WHOLE}\n\n");
    assert_eq!(as_events(&read.body), event.repeat(2));
}

#[test]
fn a_series_is_judged_as_the_stream_that_it_is() {
    let unended = WHOLE.replace(r#","finishReason":"STOP""#, "");
    let error = r#"{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}"#;
    for (body, expected) in [
        ("[]".to_owned(), Class::Empty),
        (format!("[{unended}]"), Class::Cut),
        (format!("[{WHOLE},{}", &WHOLE[..20]), Class::Cut),
        (format!("[{unended},\"{WHOLE}]"), Class::Malformed),
        (format!("[{unended},{error}]"), Class::Overloaded),
    ] {
        for call in [Call::StreamEvents, Call::StreamArray] {
            assert_eq!(class(call, &body), expected, "{body}");
        }
    }
}

#[test]
fn a_whole_answer_needs_no_reason_of_its_end_as_events_either() {
    let unended = WHOLE.replace(r#","finishReason":"STOP""#, "");
    for call in [Call::StreamEvents, Call::StreamArray] {
        let body = read(call, &unended, None).unwrap().body;
        let request = GeminiRequest::peek(call, "m", br#"{"contents":[]}"#).unwrap();
        let mut stream = request.stream(StreamOptions::default());
        stream.push(request.as_events(&body)).unwrap();
        stream.finish_whole().unwrap();
        assert!(stream.done() && stream.has_content());
        let out = stream.take().unwrap();
        assert!(out.ends_with(if call == Call::StreamArray {
            b"\n]"
        } else {
            b"\n\n"
        }));
    }
}
