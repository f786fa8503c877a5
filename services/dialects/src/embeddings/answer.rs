//! An embeddings answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::Encoding;
use crate::chat::quote;
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Edit, JsonError, Kind, Span, Value, splice};
use crate::usage::UsageReport;

/// An answer that has what its dialect demands (SPEC FWD-5).
#[derive(Debug, Clone)]
pub struct EmbeddingsAnswer {
    /// The usage that the upstream reported.
    pub usage: Option<UsageReport>,
    /// How many vectors there are.
    pub count: u64,
    vectors: Vec<Value>,
    models: Vec<Span>,
}

impl EmbeddingsAnswer {
    /// Reads the body of an answer with a success status.
    ///
    /// # Errors
    /// When it is empty, not JSON, an error object, or has no vectors.
    pub fn read(body: &[u8]) -> Result<Self, Box<UpstreamError>> {
        let found = |class, message| Box::new(UpstreamError::found(class, message));
        if body.trim_ascii().is_empty() {
            return Err(found(Class::Empty, "the upstream's answer was empty"));
        }
        let text = std::str::from_utf8(body).ok();
        let read = text.and_then(|text| Some((text, Members::read(text).ok()?)));
        let Some((text, members)) = read else {
            return Err(found(
                Class::Malformed,
                "the upstream's answer is not a JSON object",
            ));
        };
        if let Some(error) = members
            .error
            .and_then(|error| UpstreamError::from_embedded(text, error))
        {
            return Err(Box::new(error));
        }
        if members.flat_error {
            return Err(Box::new(UpstreamError::from_flat(text)));
        }
        let vectors = members.data.and_then(|data| vectors(text, data).ok()?);
        let Some(vectors) = vectors.filter(|vectors| !vectors.is_empty()) else {
            return Err(found(
                Class::Malformed,
                "the upstream's answer has no embeddings",
            ));
        };
        Ok(Self {
            usage: members
                .usage
                .and_then(|value| UsageReport::from_openai(text, value)),
            count: vectors.len() as u64,
            vectors,
            models: members.models,
        })
    }

    /// The body for the caller: with the public name in `model` where one is given, and with each vector in the form that
    /// was asked for, whatever the upstream made of it (CASES D10). Order and `index` stay. Without a change it is the body
    /// itself.
    ///
    /// # Errors
    /// When a vector that has to be written anew is none: something else than finite numbers, or no base64 of `f32`.
    pub fn patch(
        &self,
        body: &Bytes,
        public_model: Option<&str>,
        encoding: Encoding,
    ) -> Result<Bytes, Box<UpstreamError>> {
        let text = std::str::from_utf8(body).unwrap_or("");
        let mut edits = Vec::new();
        if let Some(name) = public_model {
            let quoted = quote(name);
            for span in &self.models {
                if span.of(text) != quoted {
                    edits.push(Edit::replace(*span, quoted.clone()));
                }
            }
        }
        for vector in &self.vectors {
            let written = match (encoding, vector.kind) {
                (Encoding::Base64, Kind::Array) => encode(text, *vector),
                (Encoding::Unsaid | Encoding::Float, Kind::String) => decode(text, *vector),
                _ => continue,
            };
            let Some(written) = written else {
                return Err(Box::new(UpstreamError::found(
                    Class::Malformed,
                    "the upstream's answer has an embedding that is no vector",
                )));
            };
            edits.push(Edit::replace(vector.span, written));
        }
        Ok(if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        })
    }
}

/// The top-level members that matter.
#[derive(Default)]
struct Members {
    data: Option<Value>,
    usage: Option<Value>,
    error: Option<Value>,
    flat_error: bool,
    models: Vec<Span>,
}

impl Members {
    fn read(text: &str) -> Result<Self, JsonError> {
        let mut members = Self::default();
        let mut cursor = Cursor::new(text);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(text) {
                "data" => members.data = Some(value),
                "usage" => members.usage = Some(value),
                "error" => members.error = Some(value),
                "object" => members.flat_error = value.span.of(text) == "\"error\"",
                "model" if value.kind == Kind::String => members.models.push(value.span),
                _ => {}
            }
        }
        cursor.end()?;
        Ok(members)
    }
}

/// The value of each item's `embedding`; `None` when one has none.
fn vectors(text: &str, data: Value) -> Result<Option<Vec<Value>>, JsonError> {
    if data.kind != Kind::Array {
        return Ok(None);
    }
    let mut cursor = Cursor::at_value(text, data);
    let mut out = Vec::new();
    cursor.enter_array()?;
    let mut first = true;
    while cursor.next_item(&mut first)? {
        if cursor.kind()? != Kind::Object {
            return Ok(None);
        }
        let mut vector = None;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            if key.decode(text) == "embedding" {
                vector = Some(value);
            }
        }
        match vector {
            Some(vector) if begins_as_one(text, vector) => out.push(vector),
            _ => return Ok(None),
        }
    }
    Ok(Some(out))
}

/// Whether it is an array that begins with a number, or a text.
fn begins_as_one(text: &str, vector: Value) -> bool {
    let inside = vector.span.of(text).get(1..).unwrap_or("");
    let first = inside.trim_ascii_start().bytes().next();
    match vector.kind {
        Kind::Array => first.is_some_and(|first| first == b'-' || first.is_ascii_digit()),
        Kind::String => first != Some(b'"'),
        _ => false,
    }
}

/// An array of finite numbers as a JSON string: base64 of little-endian `f32`.
fn encode(text: &str, vector: Value) -> Option<String> {
    let mut bytes = Vec::new();
    let mut cursor = Cursor::at_value(text, vector);
    cursor.enter_array().ok()?;
    let mut first = true;
    while cursor.next_item(&mut first).ok()? {
        let value = cursor.skip().ok()?;
        let number: f32 = value.span.of(text).parse().ok()?;
        if !number.is_finite() {
            return None;
        }
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    Some(format!("\"{}\"", STANDARD.encode(bytes)))
}

/// The reverse: a JSON string as an array of numbers, each in the shortest text that reads as the same `f32`.
fn decode(text: &str, vector: Value) -> Option<String> {
    let bytes = STANDARD.decode(&*vector.text()?.decode(text)).ok()?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(numbers.len() * 12 + 2);
    out.push('[');
    for bytes in numbers {
        let number = f32::from_le_bytes(*bytes);
        if !number.is_finite() {
            return None;
        }
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&number.to_string());
    }
    out.push(']');
    Some(out)
}
