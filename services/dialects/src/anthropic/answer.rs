//! Whole answers: a message, or a count of tokens.

use bytes::Bytes;

use super::events::block_text;
use super::request::member;
use crate::chat::quote;
use crate::dialect::{ReadOptions, WholeAnswer};
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Edit, JsonError, Kind, Value, splice, whole_number};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// The members of an answer that matter.
#[derive(Default)]
struct Found {
    kind: Option<Value>,
    id: Option<Value>,
    role: Option<Value>,
    content: Option<Value>,
    model: Option<Value>,
    usage: Option<Value>,
    error: Option<Value>,
    input_tokens: Option<Value>,
}

/// Reads an answer that must be a message: `id`, `type`, `role` and `content` (SPEC FWD-5), and gives it the public name.
pub(super) fn message(
    body: &Bytes,
    options: &ReadOptions<'_>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let text = json_text(body)?;
    let found = find(text)?;
    let is = |value: Option<Value>, word: &str| {
        let said = value.and_then(|value| value.text());
        said.is_some_and(|said| said.decode(text) == word)
    };
    let content = found.content.filter(|value| value.kind == Kind::Array);
    let has_id = found.id.is_some_and(|value| value.kind == Kind::String);
    let (true, true, true, Some(content)) = (
        is(found.kind, "message"),
        is(found.role, "assistant"),
        has_id,
        content,
    ) else {
        let what = "the upstream's answer is no message with id, role and content";
        return Err(Box::new(UpstreamError::found(Class::Malformed, what)));
    };
    let usage = found
        .usage
        .and_then(|value| UsageReport::from_anthropic(text, value));
    // Its text is kept only where it has to be counted.
    let told = usage.as_ref().and_then(|said| said.usage.output);
    let counted = told.is_none() && options.text_bound > 0;
    let counted = counted.then(|| output_text(text, content, options.text_bound));
    Ok(WholeAnswer {
        body: rename(body, text, found.model, options.public_model),
        usage,
        text: counted,
        ..WholeAnswer::default()
    })
}

/// Reads an answer that must be a count.
pub(super) fn count(body: &Bytes) -> Result<WholeAnswer, Box<UpstreamError>> {
    let text = json_text(body)?;
    let found = find(text)?;
    let count = found
        .input_tokens
        .filter(|value| value.kind == Kind::Number)
        .and_then(|value| whole_number(value.span.of(text)));
    if count.is_none() {
        let what = "the upstream's answer has no input_tokens";
        return Err(Box::new(UpstreamError::found(Class::Malformed, what)));
    }
    Ok(WholeAnswer {
        body: body.clone(),
        ..WholeAnswer::default()
    })
}

fn json_text(body: &[u8]) -> Result<&str, Box<UpstreamError>> {
    if body.trim_ascii().is_empty() {
        let what = "the upstream's answer was empty";
        return Err(Box::new(UpstreamError::found(Class::Empty, what)));
    }
    std::str::from_utf8(body).map_err(|_| no_json())
}

fn no_json() -> Box<UpstreamError> {
    let what = "the upstream's answer is not a JSON object";
    Box::new(UpstreamError::found(Class::Malformed, what))
}

/// Finds the members; an error object ends it.
fn find(text: &str) -> Result<Found, Box<UpstreamError>> {
    let found = members(text).map_err(|_| no_json())?;
    if let Some(error) = found
        .error
        .and_then(|error| UpstreamError::from_embedded(text, error))
    {
        return Err(Box::new(error));
    }
    let failed = found
        .kind
        .is_some_and(|kind| kind.span.of(text) == "\"error\"");
    if failed {
        return Err(Box::new(UpstreamError::from_flat(text)));
    }
    Ok(found)
}

fn members(text: &str) -> Result<Found, JsonError> {
    let mut found = Found::default();
    let mut cursor = Cursor::new(text);
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        let place = match &*key.decode(text) {
            "type" => &mut found.kind,
            "id" => &mut found.id,
            "role" => &mut found.role,
            "content" => &mut found.content,
            "model" => &mut found.model,
            "usage" => &mut found.usage,
            "error" => &mut found.error,
            "input_tokens" => &mut found.input_tokens,
            _ => continue,
        };
        *place = Some(value);
    }
    cursor.end()?;
    Ok(found)
}

/// The body with the public name in `model`; without a name, or if it is there already, the body itself.
fn rename(body: &Bytes, text: &str, model: Option<Value>, public: Option<&str>) -> Bytes {
    match renamed(text, model, public) {
        Some(edit) => splice(body, vec![edit]),
        None => body.clone(),
    }
}

/// What puts the public name into the place of a model's name that is another.
pub(super) fn renamed(
    text: &str,
    model: Option<Value>,
    public: Option<&str>,
) -> Option<Edit<'static>> {
    let (model, public) = (model?, public?);
    let differs = model.text()?.decode(text) != public;
    differs.then(|| Edit::replace(model.span, quote(public)))
}

/// The output as a tokenizer would count it.
fn output_text(text: &str, content: Value, bound: usize) -> TextBuffer {
    let mut out = TextBuffer::new(bound);
    let mut read = || {
        let mut cursor = Cursor::at_value(text, content);
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            let block = cursor.skip()?;
            block_text(text, block, &mut out)?;
            if let Some(input) = member(text, block, "input")? {
                out.push(input.span.of(text));
            }
        }
        Ok::<(), JsonError>(())
    };
    // it was found valid before
    let _whole = read();
    out
}
