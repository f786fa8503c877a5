//! What a chat request asks for, read in one pass over its bytes.

#[cfg(test)]
mod tests;

use super::fields::Fields;
use crate::json::{Cursor, JsonError, Kind, Value};
use crate::request::{RequestError, has_members, utf8};
use crate::text::TextBuffer;
use crate::usage::key_is;

/// The facts of a request that routing, admission and patching need. Where a key occurs twice the last one counts, as
/// in every common parser; patches change all of them, so that upstreams cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatRequest {
    /// What completions have too.
    pub fields: Fields,
    /// `max_completion_tokens`, if given.
    pub max_completion_tokens: Option<u64>,
    /// `max_tokens`, its older name, if given.
    pub max_tokens: Option<u64>,
    /// Number of messages.
    pub messages: u64,
    /// Whether tools (or the older functions) are given.
    pub has_tools: bool,
    /// Number of image parts.
    pub images: u64,
    /// Number of audio parts.
    pub audios: u64,
    /// Number of file parts.
    pub files: u64,
    /// Whether `response_format` asks for JSON (`json_object` or `json_schema`).
    pub has_response_format: bool,
    /// Bytes of the body without the media parts' values: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
}

impl ChatRequest {
    /// Reads a request body and checks what we rely on; everything else is the upstream's to judge.
    ///
    /// # Errors
    /// When the body is no JSON object, `model` or `messages` are missing or of the wrong kind, or a field that money
    /// and routing depend on (`stream`, `stream_options`, `n`, output limits) makes no sense.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            return Err(RequestError::NotObject(kind.noun()));
        }
        let mut request = Self::default();
        let mut media = 0;
        let mut has_messages = false;
        cursor.enter_object()?;
        let mut first = true;
        loop {
            request.fields.end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                break;
            };
            match &*key.decode(text) {
                "messages" => {
                    media += request.read_messages(&mut cursor)?;
                    has_messages = true;
                }
                name => {
                    let value = cursor.skip()?;
                    request.read_field(text, name, value)?;
                }
            }
        }
        cursor.end()?;
        request.fields.has_model()?;
        if !has_messages {
            return Err(RequestError::Missing {
                field: "messages",
                expected: "an array of messages",
            });
        }
        request.text_bytes = body.len().saturating_sub(media) as u64;
        Ok(request)
    }

    /// The output limit of each of the `n` answers: the larger one where both names are used, as upstreams differ in which of them
    /// they heed, and money must be held for either (BILL-3).
    #[must_use]
    pub fn output_limit(&self) -> Option<u64> {
        match (self.max_completion_tokens, self.max_tokens) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        }
    }

    fn read_field(&mut self, text: &str, name: &str, value: Value) -> Result<(), RequestError> {
        match name {
            "max_completion_tokens" => {
                let limit = self.fields.limit("max_completion_tokens", 1, text, value)?;
                self.max_completion_tokens = self.max_completion_tokens.max(limit);
            }
            // Said twice, either may count.
            "max_tokens" => {
                let limit = self.fields.limit("max_tokens", 1, text, value)?;
                self.max_tokens = self.max_tokens.max(limit);
            }
            "tools" | "functions" => {
                self.has_tools |= value.kind == Kind::Array && has_members(text, value);
            }
            "response_format" => {
                self.has_response_format =
                    value.kind == Kind::Object && value.span.of(text).contains("json");
            }
            name => {
                self.fields.read(text, name, value)?;
            }
        }
        Ok(())
    }

    /// Gives the bytes of the media parts' values.
    fn read_messages(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, RequestError> {
        let kind = cursor.kind()?;
        if kind != Kind::Array {
            return Err(RequestError::kind("messages", "an array of messages", kind));
        }
        (self.messages, self.images, self.audios, self.files) = (0, 0, 0, 0);
        let mut media = 0;
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            let kind = cursor.kind()?;
            if kind != Kind::Object {
                return Err(RequestError::kind("messages", "an array of objects", kind));
            }
            self.messages += 1;
            media += self.read_message(cursor)?;
        }
        if self.messages == 0 {
            return Err(RequestError::Field {
                field: "messages",
                expected: "at least one message",
                got: "an empty array".to_owned(),
            });
        }
        Ok(media)
    }

    fn read_message(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, JsonError> {
        let text = cursor.text();
        let mut media = 0;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            if !key_is(text, key, "content") || cursor.kind()? != Kind::Array {
                cursor.skip()?;
                continue;
            }
            cursor.enter_array()?;
            let mut first = true;
            while cursor.next_item(&mut first)? {
                if cursor.kind()? == Kind::Object {
                    media += self.read_part(cursor)?;
                } else {
                    cursor.skip()?;
                }
            }
        }
        Ok(media)
    }

    fn read_part(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, JsonError> {
        let text = cursor.text();
        let mut media = 0;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            let count = match &*key.decode(text) {
                "image_url" => &mut self.images,
                "input_audio" => &mut self.audios,
                "file" => &mut self.files,
                _ => continue,
            };
            *count += 1;
            media += value.span.end - value.span.start;
        }
        Ok(media)
    }

    /// Collects what a model reads of the request, for counting tokens at settlement (SPEC BILL-6): every string inside
    /// `messages` but roles, types, ids and media, and the declarations of tools as they stand.
    ///
    /// # Errors
    /// When the body is not the one that was peeked at.
    pub fn input_text(body: &[u8], out: &mut TextBuffer) -> Result<(), RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(text) {
                "messages" => strings(&mut cursor, out)?,
                "tools" | "functions" | "response_format" => {
                    out.push(cursor.skip()?.span.of(text));
                    out.push("\n");
                }
                _ => {
                    cursor.skip()?;
                }
            }
        }
        Ok(())
    }
}

/// Adds every string of the next value that a model reads. The depth of recursion is that of the JSON, which the
/// scanner bounds.
fn strings(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let text = cursor.text();
    let mut first = true;
    match cursor.kind()? {
        Kind::Object => {
            cursor.enter_object()?;
            while let Some(key) = cursor.next_key(&mut first)? {
                match &*key.decode(text) {
                    "role" | "type" | "id" | "tool_call_id" | "image_url" | "input_audio"
                    | "file" => {
                        cursor.skip()?;
                    }
                    _ => strings(cursor, out)?,
                }
            }
        }
        Kind::Array => {
            cursor.enter_array()?;
            while cursor.next_item(&mut first)? {
                strings(cursor, out)?;
            }
        }
        Kind::String => {
            let string = cursor.string()?;
            string.pieces(text, |piece| out.push(piece));
            out.push("\n");
        }
        _ => {
            cursor.skip()?;
        }
    }
    Ok(())
}
