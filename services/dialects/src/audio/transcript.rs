//! The answer to a transcription: JSON or plain text, whole or as events.

use bytes::{Bytes, BytesMut};

use crate::chat::quote;
use crate::dialect::{ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::json::{Kind, Value};
use crate::sse::write_event;
use crate::text::TextBuffer;
use crate::typed::Kinds;
use crate::usage::{Usage, UsageReport};
use crate::whole::{Object, empty, malformed, one_line};

/// `transcript.text.*`.
pub(super) const KINDS: Kinds = Kinds {
    content: &[".delta", ".segment"],
    last: ".done",
    text: Some("delta"),
    usage: |_: &mut Usage, _| (),
};

/// What plain answers are where the upstream does not say.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Checks an answer in JSON: it has a text, which may be empty where nobody speaks.
pub(super) fn json(
    body: &Bytes,
    options: &ReadOptions<'_>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let object = Object::read(body, &["text", "usage", "duration"])?;
    let text = object.get("text").and_then(|value| value.text());
    let Some(text) = text else {
        return Err(malformed("the upstream's answer has no text"));
    };
    let usage = report(&object);
    let told = usage.as_ref().is_some_and(|said| is_whole(&said.usage));
    let mut counted = None;
    if !told && options.text_bound > 0 {
        let mut buffer = TextBuffer::new(options.text_bound);
        text.pieces(object.text, |piece| buffer.push(piece));
        counted = Some(buffer);
    }
    Ok(WholeAnswer {
        body: object.renamed(body, options.public_model),
        usage,
        text: counted,
        ..WholeAnswer::default()
    })
}

/// Takes an answer in plain text as it is, unless it is an error.
pub(super) fn plain(
    body: &Bytes,
    options: &ReadOptions<'_>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    if body.is_empty() {
        return Err(empty());
    }
    if body.trim_ascii_start().starts_with(b"{") {
        // Somebody may have dictated a brace: what is no JSON is text.
        if let Err(error) = Object::read(body, &[])
            && error.class != crate::error::Class::Malformed
        {
            return Err(error);
        }
    }
    if is_page(body) {
        return Err(malformed("the upstream's answer is a page, no transcript"));
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return Err(malformed("the upstream's answer is no text"));
    };
    let mut counted = TextBuffer::new(options.text_bound);
    counted.push(text);
    Ok(WholeAnswer {
        body: body.clone(),
        content_type: Some(options.content_type.unwrap_or(PLAIN).to_owned().into()),
        text: Some(counted),
        ..WholeAnswer::default()
    })
}

/// Whether it is HTML. The content type does not say: there are upstreams that give transcripts that of a page.
fn is_page(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    let begins = |with: &[u8]| {
        body.get(..with.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(with))
    };
    begins(b"<!doctype") || begins(b"<html")
}

/// Tokens or seconds, whichever the upstream bills; older models tell the seconds beside the text alone.
fn report(object: &Object<'_>) -> Option<UsageReport> {
    let usage = object.get("usage").filter(|v| v.kind == Kind::Object);
    let of = |value: Value| UsageReport::from_openai(object.text, value);
    usage.and_then(of).or_else(|| {
        let duration = object.get("duration")?;
        UsageReport::from_seconds(object.text, duration)
    })
}

fn is_whole(usage: &Usage) -> bool {
    usage.audio_millis.is_some() || (usage.input.is_some() && usage.output.is_some())
}

/// A whole answer as events.
pub(super) fn as_events(body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    let plain = std::str::from_utf8(body).unwrap_or("");
    let object = Object::read(body, &["text", "usage"]).ok();
    let found = object.as_ref().and_then(|object| {
        let text = object.get("text").filter(|v| v.kind == Kind::String)?;
        Some(text.span.of(object.text).to_owned())
    });
    let text = found.unwrap_or_else(|| quote(plain));
    let usage = object.as_ref().and_then(|object| {
        let usage = object.get("usage").filter(|v| v.kind == Kind::Object)?;
        Some(format!(r#","usage":{}"#, usage.span.of(object.text)))
    });
    if text != "\"\"" {
        let delta = format!(r#"{{"type":"transcript.text.delta","delta":{text}}}"#);
        write_event(&mut out, Some(b"transcript.text.delta"), &delta);
    }
    let done = format!(
        r#"{{"type":"transcript.text.done","text":{text}{}}}"#,
        usage.unwrap_or_default()
    );
    write_event(&mut out, Some(b"transcript.text.done"), &one_line(&done));
    out.freeze()
}
