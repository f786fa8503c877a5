use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::carry::StreamOptions;
use crate::dialect::{Change, DialectRequest, Form, ReadOptions};
use crate::error::Class;
use crate::sse::Framing;
use crate::text::TextBuffer;

const FORM: &str = "multipart/form-data; boundary=B";

fn form(fields: &[(&str, &str)], audio: &[u8]) -> Vec<u8> {
    let mut body = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"t.wav\"\r\nContent-Type: audio/wav\r\n\r\n".to_vec();
    body.extend_from_slice(audio);
    for (name, value) in fields {
        let part =
            format!("\r\n--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}");
        body.extend_from_slice(part.as_bytes());
    }
    body.extend_from_slice(b"\r\n--B--\r\n");
    body
}

fn asked(fields: &[(&str, &str)]) -> TranscriptionRequest {
    let all = [&[("model", "whisper-1")], fields].concat();
    TranscriptionRequest::peek(FORM, &form(&all, &[7; 32_000])).unwrap()
}

fn wav(rate: u32, told: u32, data: usize, size: u32) -> Vec<u8> {
    let mut out = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x01\0".to_vec();
    out.extend_from_slice(&rate.to_le_bytes());
    out.extend_from_slice(&told.to_le_bytes());
    out.extend_from_slice(b"\x02\0\x10\0data");
    out.extend_from_slice(&size.to_le_bytes());
    out.resize(out.len() + data, 0);
    out
}

#[test]
fn the_length_of_audio_is_read_of_wav_and_assumed_of_the_rest() {
    assert_eq!(length::millis(&[0; 16_001]), 1_001);
    assert_eq!(length::millis(&wav(8_000, 16_000, 24_000, 24_000)), 1_500);
    // Written as a stream: it says that it goes on for ever.
    assert_eq!(length::millis(&wav(8_000, 16_000, 24_000, u32::MAX)), 1_500);
    // A header that lies makes it longer, never shorter.
    assert_eq!(length::millis(&wav(8_000, u32::MAX, 24_000, 24_000)), 1_500);
    assert_eq!(length::millis(&wav(8_000, 0, 24_000, 24_000)), 24_000);
    assert_eq!(length::millis(b"RIFF\0\0\0\0WAVE"), 1);
    assert_eq!(length::millis(b""), 0);
}

#[test]
fn a_transcription_says_what_routing_and_money_need() {
    let request = asked(&[("prompt", "names: Zoé"), ("stream", "true")]);
    assert_eq!(
        (request.model(), request.form()),
        ("whisper-1", Form::Events)
    );
    assert_eq!(request.audio_millis(), 2_000);
    assert_eq!(request.text_bytes(), 20 * 3 + 11);
    assert!(request.needs().audio);
    assert_eq!(request.content_type(), Some(FORM));
    let mut text = TextBuffer::new(100);
    assert_eq!(
        (request.input(b"", &mut text), text.text()),
        (20, "names: Zoé")
    );
    for (fields, param) in [
        (&[("language", "en")][..], "model"),
        (&[("model", "a"), ("model", "b")], "model"),
        (&[("model", "a"), ("stream", "yes")], "stream"),
        (&[("model", "a"), ("prompt", ""), ("prompt", "")], "prompt"),
    ] {
        let error = TranscriptionRequest::peek(FORM, &form(fields, b"x")).unwrap_err();
        assert_eq!(error.param(), Some(param), "{error}");
    }
    let no_file = b"--B\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n--B--";
    let error = TranscriptionRequest::peek(FORM, no_file).unwrap_err();
    assert_eq!(error.param(), Some("file"));
}

#[test]
fn a_form_keeps_every_byte_but_the_model() {
    let audio: Vec<u8> = (0..=255).cycle().take(9_000).collect();
    let body = Bytes::from(form(&[("model", "whisper-1"), ("language", "en")], &audio));
    let request = TranscriptionRequest::peek(FORM, &body).unwrap();
    let change = |model| Change {
        model,
        ..Change::default()
    };
    let expected = form(&[("model", "up"), ("language", "en")], &audio);
    assert_eq!(request.prepare(&body, &change("up")), expected);
    // Once more, as another attempt would.
    assert_eq!(request.prepare(&body, &change("up")), expected);
    assert_eq!(
        request.prepare(&body, &change("whisper-1")).as_ptr(),
        body.as_ptr()
    );
}

fn read(
    request: &dyn DialectRequest,
    body: &str,
) -> Result<crate::WholeAnswer, Box<crate::UpstreamError>> {
    let options = ReadOptions {
        text_bound: 1_000,
        ..ReadOptions::default()
    };
    request.read(&Bytes::copy_from_slice(body.as_bytes()), &options)
}

#[test]
fn tokens_or_seconds_are_what_a_transcription_reports() {
    let request = asked(&[]);
    let usage = |body: &str| {
        read(&request, body)
            .unwrap()
            .usage
            .map(|report| report.usage)
    };
    let tokens = usage(r#"{"text":"a","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":2,"audio_tokens":12},"output_tokens":6,"total_tokens":20}}"#).unwrap();
    assert_eq!(
        (
            tokens.input,
            tokens.input_audio,
            tokens.output,
            tokens.audio_millis
        ),
        (Some(14), Some(12), Some(6), None)
    );
    for (told, millis) in [
        (r#""usage":{"type":"duration","seconds":9}"#, Some(9_000)),
        (
            r#""usage":{"type":"duration","seconds":1.2345}"#,
            Some(1_234),
        ),
        (
            r#""usage":{"type":"duration","seconds":1.2355}"#,
            Some(1_236),
        ),
        (
            r#""usage":{"type":"duration","seconds":1.23450001}"#,
            Some(1_235),
        ),
        (
            r#""usage":{"type":"duration","seconds":12e-1}"#,
            Some(1_200),
        ),
        (
            r#""usage":{"type":"duration","seconds":1E2}"#,
            Some(100_000),
        ),
        (r#""usage":{"type":"duration","seconds":-1}"#, None),
        (r#""usage":{"type":"duration","seconds":1e300}"#, None),
        (r#""duration":8.47"#, Some(8_470)),
        (r#""duration":"8.47""#, Some(8_470)),
        (
            r#""duration":8,"usage":{"type":"duration","seconds":9}"#,
            Some(9_000),
        ),
        (r#""language":"en""#, None),
    ] {
        let said = usage(&format!(r#"{{"text":"a",{told}}}"#));
        assert_eq!(said.and_then(|usage| usage.audio_millis), millis, "{told}");
    }
}

#[test]
fn a_transcription_needs_its_text_in_the_form_that_was_asked_for() {
    let json = asked(&[("response_format", "verbose_json")]);
    for (body, class) in [
        ("", Class::Empty),
        ("hello", Class::Malformed),
        (r#"{"usage":{}}"#, Class::Malformed),
        (r#"{"text":null}"#, Class::Malformed),
    ] {
        assert_eq!(read(&json, body).unwrap_err().class, class, "{body}");
    }
    assert_eq!(
        read(&json, r#"{"text":"héard"}"#)
            .unwrap()
            .text
            .unwrap()
            .text(),
        "héard"
    );
    assert!(
        read(&json, r#"{"text":""}"#).is_ok(),
        "silence has no words"
    );
    for format in ["text", "srt", "vtt"] {
        let plain = asked(&[("response_format", format)]);
        let answer = read(&plain, "heard {it}\n").unwrap();
        assert_eq!(
            (&*answer.body, answer.content_type.as_deref()),
            (&b"heard {it}\n"[..], Some("text/plain; charset=utf-8"))
        );
        assert_eq!(answer.text.unwrap().text(), "heard {it}\n");
        assert!(read(&plain, "{it} was said").is_ok());
        assert_eq!(read(&plain, "").unwrap_err().class, Class::Empty);
        let error = read(&plain, r#"{"error":{"message":"busy","code":503}}"#).unwrap_err();
        assert!(error.class.retryable());
    }
}

const DELTA: &str = "event: transcript.text.delta\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\"h\\u00e9 \"}\n\n";
const LAST: &str = "event: transcript.text.done\ndata: {\"type\":\"transcript.text.done\",\"text\":\"h\\u00e9 \",\"usage\":{\"type\":\"duration\",\"seconds\":2}}\n\n";

#[test]
fn a_transcript_passes_byte_for_byte_to_its_last_event() {
    let mut stream = asked(&[("stream", "1")]).stream(StreamOptions::default());
    stream.push(DELTA.into()).unwrap();
    assert_eq!(stream.take().unwrap(), DELTA);
    stream.push(LAST.into()).unwrap();
    assert_eq!(stream.take().unwrap(), LAST);
    assert!(stream.done());
    assert_eq!(stream.text().text(), "hé ");
    assert_eq!(stream.usage().unwrap().usage.audio_millis, Some(2_000));
    let mut cut = asked(&[("stream", "1")]).stream(StreamOptions::default());
    cut.push(DELTA.into()).unwrap();
    assert_eq!(cut.finish().unwrap_err().class, Class::Cut);
}

#[test]
fn a_whole_transcript_can_be_streamed() {
    let request = asked(&[("stream", "true")]);
    assert_eq!(
        request.framing(Some("text/plain; charset=utf-8")),
        Some(Framing::Whole)
    );
    assert_eq!(request.framing(Some("text/event-stream")), None);
    for body in [
        r#"{"text":"two\nwords","usage":{"type":"duration","seconds":2}}"#,
        "two\nwords",
    ] {
        let events = String::from_utf8(request.as_events(body.as_bytes()).to_vec()).unwrap();
        assert!(
            events.contains(r#""delta":"two\nwords"}"#)
                && events.contains(r#""text":"two\nwords""#),
            "{events}"
        );
        let mut stream = request.stream(StreamOptions::default());
        stream.push(events.clone().into()).unwrap();
        assert!(stream.done());
        assert_eq!(stream.take().unwrap(), events);
        assert_eq!(stream.text().text(), "two\nwords");
    }
}

const SPEECH: &str = r#"{"model":"m","input":"hello","voice":"alloy","instructions":"softly"}"#;

fn speech(body: &str) -> SpeechRequest {
    SpeechRequest::peek(body.as_bytes()).unwrap()
}

#[test]
fn speech_is_estimated_by_its_text() {
    let request = speech(SPEECH);
    assert_eq!(
        (request.model(), request.form(), request.text_bytes()),
        ("m", Form::Bytes, 11)
    );
    assert!(request.needs().audio && !request.generates());
    let mut text = TextBuffer::new(100);
    assert_eq!(
        (request.input(b"", &mut text), text.text()),
        (0, "hellosoftly")
    );
    for (body, param) in [
        (r#"{"input":"x"}"#, "model"),
        (r#"{"model":"m"}"#, "input"),
        (r#"{"model":"m","input":""}"#, "input"),
        (
            r#"{"model":"m","input":"x","stream_format":"mp3"}"#,
            "stream_format",
        ),
    ] {
        let error = SpeechRequest::peek(body.as_bytes()).unwrap_err();
        assert_eq!(error.param(), Some(param), "{body}: {error}");
    }
}

#[test]
fn audio_passes_as_it_comes_and_json_is_an_error() {
    let request = speech(SPEECH);
    assert_eq!(request.framing(Some("audio/mpeg")), Some(Framing::Events));
    assert_eq!(
        request.framing(Some("application/json; charset=utf-8")),
        Some(Framing::Whole)
    );
    let mut stream = request.stream(StreamOptions::default());
    stream.push(Bytes::from_static(b"\0\xffID3")).unwrap();
    assert!(stream.committed());
    assert_eq!(stream.take().unwrap(), &b"\0\xffID3"[..]);
    stream.finish().unwrap();
    assert!(stream.done() && stream.take().is_none());
    assert_eq!(
        request
            .stream(StreamOptions::default())
            .finish()
            .unwrap_err()
            .class,
        Class::Empty
    );
    assert!(
        read(&request, r#"{"error":{"message":"busy","code":503}}"#)
            .unwrap_err()
            .class
            .retryable()
    );
    assert_eq!(
        read(&request, r#"{"audio":"eA=="}"#).unwrap_err().class,
        Class::Malformed
    );
}

#[test]
fn speech_as_events_has_audio_tokens() {
    let request = speech(r#"{"model":"m","input":"hello","stream_format":"sse"}"#);
    assert_eq!(request.form(), Form::Events);
    assert_eq!(
        request.framing(Some("text/event-stream")),
        Some(Framing::Events)
    );
    assert_eq!(request.framing(Some("audio/mpeg")), Some(Framing::Whole));
    let events = "data: {\"type\":\"speech.audio.delta\",\"audio\":\"eA==\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":3,\"output_tokens\":9,\"total_tokens\":12}}\n\n";
    let mut stream = request.stream(StreamOptions::default());
    stream.push(events.into()).unwrap();
    assert!(stream.done());
    assert_eq!(stream.take().unwrap(), events);
    let usage = stream.usage().unwrap().usage;
    assert_eq!(
        (usage.input, usage.output, usage.output_audio),
        (Some(3), Some(9), Some(9))
    );
    let made = request.as_events(b"\0\xff");
    let mut stream = request.stream(StreamOptions::default());
    stream.push(made.clone()).unwrap();
    assert_eq!(stream.take().unwrap(), made);
    assert!(stream.done() && made.starts_with(b"event: speech.audio.delta\ndata: {\"type\":\"speech.audio.delta\",\"audio\":\"AP8=\"}\n\n"));
}

proptest! {
    #[test]
    fn any_split_gives_the_same(piece in 1_usize..200) {
        let body = format!("{DELTA}: x\n\n{DELTA}{LAST}");
        let mut stream = asked(&[("stream", "1")]).stream(StreamOptions::default());
        let mut out = Vec::new();
        for piece in body.as_bytes().chunks(piece) {
            stream.push(Bytes::copy_from_slice(piece)).unwrap();
            out.extend_from_slice(&stream.take().unwrap_or_default());
        }
        prop_assert_eq!(out, format!("{DELTA}{DELTA}{LAST}").into_bytes());
        prop_assert_eq!(stream.text().text(), "hé hé ");
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), seconds in "[0-9]{0,20}\\.?[0-9]{0,20}(e-?[0-9]{1,9})?") {
        let _ = length::millis(&bytes);
        let _ = length::millis(&[b"RIFF\0\0\0\0WAVEfmt ", &bytes[..]].concat());
        let _ = SpeechRequest::peek(&bytes);
        let _ = read(&asked(&[]), &format!(r#"{{"text":"","duration":"{seconds}"}}"#));
        let request = asked(&[("stream", "1"), ("response_format", "text")]);
        let _ = request.read(&Bytes::from(bytes.clone()), &ReadOptions::default());
        let _ = request.as_events(&bytes);
        let mut stream = request.stream(StreamOptions::default());
        let _ = stream.push(Bytes::from(bytes));
        let _ = stream.finish();
    }
}
