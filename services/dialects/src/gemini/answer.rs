//! A whole answer.

#[cfg(test)]
mod tests;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::chunk::{ChunkReader, PublicName};
use super::request::{Call, GeminiRequest};
use crate::carry::StreamOptions;
use crate::dialect::{DialectRequest as _, Form, ReadOptions, WholeAnswer};
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Edit, JsonError, Kind, Value, splice};
use crate::sse::{Codec as _, ObjectSplitter};
use crate::usage::{UsageReport, key_is};

fn found(class: Class, message: &str) -> Box<UpstreamError> {
    Box::new(UpstreamError::found(class, message))
}

impl GeminiRequest {
    /// Reads and patches an answer (SPEC FWD-5).
    ///
    /// # Errors
    /// When it is empty, cut, not JSON, an error object, or lacks what its call promises.
    pub(super) fn read_answer(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        if body.trim_ascii().is_empty() {
            return Err(found(Class::Empty, "the upstream's answer was empty"));
        }
        let no_json = || {
            found(
                Class::Malformed,
                "the upstream's answer is not a JSON object",
            )
        };
        let text = std::str::from_utf8(body).map_err(|_| no_json())?;
        if let Some(error) = wrapped_error(text) {
            return Err(error);
        }
        // An array where a stream was asked for is one.
        if self.form() != Form::Whole && text.trim_ascii_start().starts_with('[') {
            self.check_series(body)?;
            return Ok(WholeAnswer {
                body: body.clone(),
                ..WholeAnswer::default()
            });
        }
        match self.call {
            Call::Generate | Call::StreamEvents | Call::StreamArray => {
                generated(body, text, options).map_err(|error| error.unwrap_or_else(no_json))
            }
            Call::CountTokens => plain(body, text, "totalTokens", Kind::Number),
            Call::Embed => plain(body, text, "embedding", Kind::Object),
            Call::EmbedBatch => plain(body, text, "embeddings", Kind::Array),
        }
    }

    /// Whether the pieces of a stream that came as one document are an answer: judged as the stream would be.
    fn check_series(&self, body: &[u8]) -> Result<(), Box<UpstreamError>> {
        let mut stream = self.stream(StreamOptions {
            text_bound: 0,
            hold_bound: usize::MAX,
            max_event: usize::MAX,
            ..StreamOptions::default()
        });
        stream.push(as_events(body))?;
        stream.finish()
    }
}

/// What was generated. `Err(None)`: it is no JSON object.
fn generated(
    body: &Bytes,
    text: &str,
    options: &ReadOptions<'_>,
) -> Result<WholeAnswer, Option<Box<UpstreamError>>> {
    // Its text is kept only where it has to be counted.
    let mut reader = ChunkReader::new(0);
    let chunk = reader.read(text).map_err(|_| None)?;
    if let Some(error) = chunk
        .error
        .and_then(|error| UpstreamError::from_embedded(text, error))
    {
        return Err(Some(Box::new(error)));
    }
    if !chunk.blocked && (chunk.candidates == 0 || !chunk.sound) {
        return Err(Some(found(
            Class::Malformed,
            "the upstream's answer has no candidates with content",
        )));
    }
    let usage = chunk
        .usage
        .and_then(|value| UsageReport::from_gemini(text, value));
    let told = usage.as_ref().and_then(|said| said.usage.output);
    let mut kept = None;
    if told.is_none() && options.text_bound > 0 {
        let mut reader = ChunkReader::new(options.text_bound);
        // What was read before reads again.
        let _same = reader.read(text);
        kept = Some(reader.text);
    }
    let renamed = options.public_model.and_then(|name| {
        let name = PublicName::new(name);
        let span = name.differs(chunk.model, text)?;
        Some(splice(body, vec![Edit::replace(span, name.quoted)]))
    });
    Ok(WholeAnswer {
        body: renamed.unwrap_or_else(|| body.clone()),
        usage,
        text: kept,
        ..WholeAnswer::default()
    })
}

/// Whether it is an array without items.
fn is_empty(text: &str, value: Value) -> bool {
    let inside = value.span.of(text).trim_matches(['[', ']']);
    value.kind == Kind::Array && inside.trim().is_empty()
}

/// An answer of another kind: it must have one member, with something in it.
fn plain(
    body: &Bytes,
    text: &str,
    member: &str,
    kind: Kind,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let read = || {
        let mut cursor = Cursor::new(text);
        let (mut error, mut has, mut usage): (Option<Value>, _, _) = (None, false, None);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(text) {
                "error" => error = Some(value),
                "usageMetadata" => usage = Some(value),
                name => has |= name == member && value.kind == kind && !is_empty(text, value),
            }
        }
        cursor.end()?;
        Ok::<_, JsonError>((error, has, usage))
    };
    let Ok((error, has, usage)) = read() else {
        return Err(found(
            Class::Malformed,
            "the upstream's answer is not a JSON object",
        ));
    };
    if let Some(error) = error.and_then(|error| UpstreamError::from_embedded(text, error)) {
        return Err(Box::new(error));
    }
    if !has {
        let message = format!("the upstream's answer has no `{member}`");
        return Err(found(Class::Malformed, &message));
    }
    Ok(WholeAnswer {
        body: body.clone(),
        usage: usage.and_then(|value| UsageReport::from_gemini(text, value)),
        ..WholeAnswer::default()
    })
}

/// The error of an answer that is an array with an error object in it: so Google says what goes wrong before a stream
/// that is an array.
fn wrapped_error(text: &str) -> Option<Box<UpstreamError>> {
    let mut cursor = Cursor::new(text);
    if cursor.kind().ok()? != Kind::Array {
        return None;
    }
    cursor.enter_array().ok()?;
    let mut first = true;
    while cursor.next_item(&mut first).ok()? {
        if cursor.kind().ok()? != Kind::Object {
            return None;
        }
        cursor.enter_object().ok()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first).ok()? {
            let value = cursor.skip().ok()?;
            if key_is(text, key, "error") {
                return UpstreamError::from_embedded(text, value).map(Box::new);
            }
        }
    }
    None
}

/// A whole answer as the one event that a stream of it would have; an array as the events that it holds.
pub(super) fn as_events(body: &[u8]) -> Bytes {
    let mut splitter = ObjectSplitter::new(body.len());
    let mut out = BytesMut::with_capacity(body.len() + 64);
    // What was accepted before is split without error.
    let _split = splitter.push(body, &mut out);
    out.put_slice(&splitter.finish());
    out.freeze()
}
