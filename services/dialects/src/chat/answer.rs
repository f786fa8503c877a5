//! A whole chat answer.

#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};

use super::chunk::{ChunkReader, Payload};
use super::patch::quote;
use crate::dialect::{ReadOptions, WholeAnswer};
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Edit, Kind, Span, Value, splice};
use crate::sse::DONE;
use crate::text::TextBuffer;
use crate::usage::{UsageReport, key_is};

/// A whole answer that has what its dialect demands (SPEC FWD-5).
#[derive(Debug, Clone)]
pub struct ChatAnswer {
    /// The usage that the upstream reported.
    pub usage: Option<UsageReport>,
    /// The output as a tokenizer would count it.
    pub text: TextBuffer,
    /// How many choices it has.
    pub choices: usize,
    /// Whether there is any content in it (SPEC FWD-3's table).
    pub has_content: bool,
    models: Vec<Span>,
}

impl ChatAnswer {
    /// Reads the body of an answer with a success status, keeping at most `text_bound` bytes of its text.
    ///
    /// # Errors
    /// When it is empty, cut, not JSON, an error object, or has no choice with a message.
    pub(crate) fn read(
        body: &[u8],
        payload: Payload,
        text_bound: usize,
    ) -> Result<Self, Box<UpstreamError>> {
        let found = |class, message| Box::new(UpstreamError::found(class, message));
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
        let mut reader = ChunkReader::new(payload, text_bound);
        let chunk = reader.read(text).map_err(|_| no_json())?;
        if let Some(failure) = chunk.failure(text, None) {
            return Err(failure);
        }
        let (member, kind, missing) = match payload {
            Payload::Message => (
                "message",
                Kind::Object,
                "the upstream's answer has no choices with messages",
            ),
            Payload::Text => (
                "text",
                Kind::String,
                "the upstream's answer has no choices with texts",
            ),
        };
        let all = chunk
            .choices
            .is_some_and(|choices| every_choice_has(text, choices, member, kind));
        if chunk.choice_count == 0 || !all {
            return Err(found(Class::Malformed, missing));
        }
        Ok(Self {
            usage: chunk.report(text),
            choices: chunk.choice_count,
            has_content: chunk.content,
            models: reader
                .members
                .iter()
                .filter(|member| member.name == super::chunk::Name::Model)
                .map(|member| member.value)
                .filter(|value| value.kind == Kind::String)
                .map(|value| value.span)
                .collect(),
            text: reader.text,
        })
    }

    /// Reads an answer and gives it as the caller gets it. Its text is kept only where it has to be counted.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn whole(
        body: &Bytes,
        payload: Payload,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        let mut answer = Self::read(body, payload, 0)?;
        let told = answer.usage.as_ref().and_then(|said| said.usage.output);
        let mut text = None;
        if told.is_none() && options.text_bound > 0 {
            answer = Self::read(body, payload, options.text_bound)?;
            text = Some(std::mem::take(&mut answer.text));
        }
        Ok(WholeAnswer {
            body: answer.patch(body, options.public_model),
            usage: answer.usage,
            text,
            ..WholeAnswer::default()
        })
    }

    /// The body with the public name in `model`; without a name, or if it is there already, the body itself.
    #[must_use]
    pub fn patch(&self, body: &Bytes, public_model: Option<&str>) -> Bytes {
        let Some(name) = public_model else {
            return body.clone();
        };
        let quoted = quote(name);
        let edits: Vec<Edit<'_>> = self
            .models
            .iter()
            .filter(|span| body.get(span.start..span.end) != Some(quoted.as_bytes()))
            .map(|span| Edit::replace(*span, quoted.clone()))
            .collect();
        if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        }
    }
}

fn every_choice_has(text: &str, choices: Value, member: &str, wanted: Kind) -> bool {
    let check = || {
        let mut cursor = Cursor::at_value(text, choices);
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            if cursor.kind()? != Kind::Object {
                return Ok(false);
            }
            cursor.enter_object()?;
            let (mut first, mut found) = (true, false);
            while let Some(key) = cursor.next_key(&mut first)? {
                let value = cursor.skip()?;
                found |= key_is(text, key, member) && value.kind == wanted;
            }
            if !found {
                return Ok(false);
            }
        }
        Ok::<bool, crate::json::JsonError>(true)
    };
    check().unwrap_or(false)
}

/// Turns a whole answer (that [`ChatAnswer::read`] accepted) into a stream of two chunks, a usage chunk and `[DONE]`, to
/// be pushed through a [`ChatStream`](super::ChatStream): a target that cannot stream may serve a streaming caller
/// (SPEC FWD-7). Every value keeps its bytes.
#[must_use]
pub fn answer_as_stream(body: &[u8]) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or("");
    let mut envelope = String::new();
    let mut deltas = String::new();
    let mut finishes = String::new();
    let mut usage = None;
    let mut read = || {
        let mut cursor = Cursor::new(text);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(text) {
                "choices" => split_choices(&mut cursor, &mut deltas, &mut finishes)?,
                "usage" => usage = Some(cursor.skip()?).filter(|value| value.kind == Kind::Object),
                "object" => {
                    cursor.skip()?;
                }
                name => {
                    envelope.push_str(&quote(name));
                    envelope.push(':');
                    envelope.push_str(cursor.skip()?.span.of(text));
                    envelope.push(',');
                }
            }
        }
        Ok::<(), crate::json::JsonError>(())
    };
    // what was accepted before reads again
    let _same = read();
    let mut out = BytesMut::with_capacity(body.len() + 512);
    let mut event = |choices: &str, usage: Option<Value>| {
        let usage = usage.map_or(String::new(), |value| {
            format!(r#","usage":{}"#, value.span.of(text))
        });
        let data = format!(
            r#"{{{envelope}"object":"chat.completion.chunk","choices":[{choices}]{usage}}}"#
        );
        crate::sse::write_event(&mut out, None, &data.replace(['\n', '\r'], " "));
    };
    event(&deltas, None);
    event(&finishes, None);
    if usage.is_some() {
        event("", usage);
    }
    out.put_slice(DONE);
    out.freeze()
}

/// Splits each choice into a chunk with its message and one with its finish reason.
fn split_choices(
    cursor: &mut Cursor<'_>,
    deltas: &mut String,
    finishes: &mut String,
) -> Result<(), crate::json::JsonError> {
    let text = cursor.text();
    cursor.enter_array()?;
    let mut first = true;
    while cursor.next_item(&mut first)? {
        let (mut index, mut message, mut finish) = ("0", String::from("{}"), "\"stop\"");
        let mut others = String::new();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = key.decode(text);
            if name == "message" && cursor.kind()? == Kind::Object {
                message = as_delta(cursor)?;
                continue;
            }
            let raw = cursor.skip()?.span.of(text);
            match &*name {
                "index" => index = raw,
                "finish_reason" => finish = raw,
                _ => {
                    others.push(',');
                    others.push_str(&quote(&name));
                    others.push(':');
                    others.push_str(raw);
                }
            }
        }
        let comma = if deltas.is_empty() { "" } else { "," };
        deltas.push_str(&format!(
            r#"{comma}{{"index":{index},"delta":{message}{others},"finish_reason":null}}"#
        ));
        finishes.push_str(&format!(
            r#"{comma}{{"index":{index},"delta":{{}},"logprobs":null,"finish_reason":{finish}}}"#
        ));
    }
    Ok(())
}

/// A message as a delta: the same, but that tool calls need an index.
fn as_delta(cursor: &mut Cursor<'_>) -> Result<String, crate::json::JsonError> {
    let text = cursor.text();
    let mut out = String::from("{");
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        if out.len() > 1 {
            out.push(',');
        }
        let name = key.decode(text);
        out.push_str(&quote(&name));
        out.push(':');
        if name == "tool_calls" && cursor.kind()? == Kind::Array {
            out.push('[');
            cursor.enter_array()?;
            let (mut first, mut index) = (true, 0);
            while cursor.next_item(&mut first)? {
                let call = cursor.skip()?;
                let raw = call.span.of(text);
                if index > 0 {
                    out.push(',');
                }
                let inside = raw.strip_prefix('{').map(str::trim_ascii_start);
                match inside {
                    Some("}") => out.push_str(&format!(r#"{{"index":{index}}}"#)),
                    Some(inside) => out.push_str(&format!(r#"{{"index":{index},{inside}"#)),
                    None => out.push_str(raw),
                }
                index += 1;
            }
            out.push(']');
        } else {
            out.push_str(cursor.skip()?.span.of(text));
        }
    }
    out.push('}');
    Ok(out)
}
