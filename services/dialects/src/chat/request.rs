//! What a chat request asks for, read in one pass over its bytes.

#[cfg(test)]
mod tests;

use crate::json::{Cursor, JsonError, Kind, Span, Value};
use crate::request::{RequestError, boolean, has_members, limit, utf8};
use crate::text::TextBuffer;
use crate::usage::key_is;

/// The facts of a request that routing, admission and patching need. Where a key occurs twice the last one counts, as
/// in every common parser; patches change all of them, so that upstreams cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatRequest {
    /// The model that was asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether the caller asked for usage in the stream (`stream_options.include_usage`).
    pub include_usage: bool,
    /// `max_completion_tokens`, if given.
    pub max_completion_tokens: Option<u64>,
    /// `max_tokens`, its older name, if given.
    pub max_tokens: Option<u64>,
    /// How many answers at once; 1 when not given.
    pub n: u64,
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
    pub(super) slots: Vec<Slot>,
    /// Where the last member of the request ends: new members go there.
    pub(super) end: usize,
}

/// A place in the body that a patch may have to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// The value of `model`.
    Model(Span),
    /// `stream_options` that is `null`.
    NullOptions(Span),
    /// The value of an `include_usage`, and whether it is `true` already.
    IncludeUsage(Span, bool),
    /// `stream_options` without `include_usage`: where one can be inserted, and whether a comma must precede it.
    OptionsEnd(usize, bool),
    /// The value of an output limit, and what it says.
    Limit(Span, Option<u64>),
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
        let mut request = Self {
            n: 1,
            ..Self::default()
        };
        let mut media = 0;
        let mut has_messages = false;
        cursor.enter_object()?;
        let mut first = true;
        loop {
            request.end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                break;
            };
            match &*key.decode(text) {
                "messages" => {
                    media += request.read_messages(&mut cursor)?;
                    has_messages = true;
                }
                "stream_options" => request.read_stream_options(&mut cursor)?,
                name => {
                    let value = cursor.skip()?;
                    request.read_field(text, name, value)?;
                }
            }
        }
        cursor.end()?;
        if request.model.is_empty() {
            return Err(RequestError::Missing {
                field: "model",
                expected: "the name of a model",
            });
        }
        if !has_messages {
            return Err(RequestError::Missing {
                field: "messages",
                expected: "an array of messages",
            });
        }
        request.text_bytes = body.len().saturating_sub(media) as u64;
        Ok(request)
    }

    /// The output limit that holds for each of the `n` answers: the smaller one where both names are used.
    #[must_use]
    pub fn output_limit(&self) -> Option<u64> {
        match (self.max_completion_tokens, self.max_tokens) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn read_field(&mut self, text: &str, name: &str, value: Value) -> Result<(), RequestError> {
        match name {
            "model" => {
                let expected = "the name of a model as a string";
                let Some(model) = value.text() else {
                    return Err(RequestError::kind("model", expected, value.kind));
                };
                if model.is_empty() {
                    return Err(RequestError::Field {
                        field: "model",
                        expected,
                        got: "an empty string".to_owned(),
                    });
                }
                self.model = model.decode(text).into_owned();
                self.slots.push(Slot::Model(value.span));
            }
            "stream" => self.stream = boolean("stream", text, value)?.unwrap_or(false),
            "max_completion_tokens" => {
                self.max_completion_tokens = limit("max_completion_tokens", text, value)?;
                self.slots
                    .push(Slot::Limit(value.span, self.max_completion_tokens));
            }
            "max_tokens" => {
                self.max_tokens = limit("max_tokens", text, value)?;
                self.slots.push(Slot::Limit(value.span, self.max_tokens));
            }
            "n" => {
                self.n = limit("n", text, value)?.unwrap_or(1);
                if !(1..=128).contains(&self.n) {
                    return Err(RequestError::Field {
                        field: "n",
                        expected: "a whole number from 1 to 128",
                        got: self.n.to_string(),
                    });
                }
            }
            "tools" | "functions" => {
                self.has_tools |= value.kind == Kind::Array && has_members(text, value);
            }
            "response_format" => {
                self.has_response_format =
                    value.kind == Kind::Object && value.span.of(text).contains("json");
            }
            _ => {}
        }
        Ok(())
    }

    fn read_stream_options(&mut self, cursor: &mut Cursor<'_>) -> Result<(), RequestError> {
        self.include_usage = false;
        let text = cursor.text();
        match cursor.kind()? {
            Kind::Object => {}
            Kind::Null => {
                self.slots.push(Slot::NullOptions(cursor.skip()?.span));
                return Ok(());
            }
            kind => {
                return Err(RequestError::kind("stream_options", "an object", kind));
            }
        }
        cursor.enter_object()?;
        let (mut first, mut found, mut empty) = (true, false, true);
        loop {
            let end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                if !found {
                    self.slots.push(Slot::OptionsEnd(end, !empty));
                }
                return Ok(());
            };
            empty = false;
            let value = cursor.skip()?;
            if key_is(text, key, "include_usage") {
                self.include_usage =
                    boolean("stream_options.include_usage", text, value)?.unwrap_or(false);
                self.slots
                    .push(Slot::IncludeUsage(value.span, self.include_usage));
                found = true;
            }
        }
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
