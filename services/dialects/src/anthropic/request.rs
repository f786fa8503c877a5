//! What a Messages request asks for, read in one pass over its bytes.

use crate::json::{Cursor, JsonError, Kind, Span, Value, whole_number};
use crate::request::{RequestError, boolean, has_members, utf8};
use crate::text::TextBuffer;

/// Which of the two calls a body belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagesCall {
    /// `/v1/messages`.
    Create,
    /// `/v1/messages/count_tokens`: the same body without an output limit; it generates nothing and is free.
    CountTokens,
}

/// The facts of a request that routing, admission and patching need. Where a key occurs twice the last one counts, as in
/// every common parser; patches change all of them, so that upstreams cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagesRequest {
    /// What is asked.
    pub call: MessagesCall,
    /// The model that was asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// `max_tokens`; 0 only warms the cache. `None` only where tokens are counted.
    pub max_tokens: Option<u64>,
    /// Number of messages.
    pub messages: u64,
    /// Whether tools are given.
    pub has_tools: bool,
    /// Number of image blocks, those inside tool results and documents included.
    pub images: u64,
    /// Number of document blocks that are files (PDF), not text.
    pub documents: u64,
    /// Whether `output_config.format` (once `output_format`) asks for JSON.
    pub wants_json: bool,
    /// Bytes of the body without images and files: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
    pub(super) slots: Vec<Slot>,
}

/// A place in the body that a patch may have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// The value of `model`.
    Model(Span),
    /// The value of `max_tokens`, and what it says.
    MaxTokens(Span, u64),
    /// The value of `thinking.budget_tokens`, which must stay below `max_tokens`, and what it says.
    Budget(Span, u64),
}

/// What a block's `source` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Bytes in base64, or an address: this many bytes that are no text.
    File(usize),
    /// The id of a file that the provider has.
    Id(usize),
    /// Text, or blocks of which this many bytes are media.
    Text(usize),
}

impl MessagesRequest {
    /// Reads a request body and checks what we rely on; everything else is the upstream's to judge.
    ///
    /// # Errors
    /// When the body is no JSON object, `model`, `messages` or (for an answer) `max_tokens` are missing or of the wrong
    /// kind, or `stream` makes no sense.
    pub fn peek(body: &[u8], call: MessagesCall) -> Result<Self, RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            return Err(RequestError::NotObject(kind.noun()));
        }
        let mut request = Self {
            call,
            model: String::new(),
            stream: false,
            max_tokens: None,
            messages: 0,
            has_tools: false,
            images: 0,
            documents: 0,
            wants_json: false,
            text_bytes: 0,
            slots: Vec::new(),
        };
        let mut media = 0;
        let mut has_messages = false;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
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
        request.text_bytes = body.len().saturating_sub(media) as u64;
        request.checked(has_messages)
    }

    fn checked(self, has_messages: bool) -> Result<Self, RequestError> {
        let missing = |field, expected| Err(RequestError::Missing { field, expected });
        if self.model.is_empty() {
            return missing("model", "the name of a model");
        }
        if !has_messages {
            return missing("messages", "an array of messages");
        }
        if self.call == MessagesCall::Create && self.max_tokens.is_none() {
            return missing("max_tokens", LIMIT);
        }
        Ok(self)
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
            "stream" => {
                self.stream = boolean("stream", text, value)?.unwrap_or(false);
            }
            "max_tokens" => {
                let limit = limit(text, value)?;
                self.max_tokens = Some(limit);
                self.slots.push(Slot::MaxTokens(value.span, limit));
            }
            "thinking" => {
                let budget = member(text, value, "budget_tokens")?;
                let said = budget.and_then(|budget| whole_number(budget.span.of(text)));
                if let (Some(budget), Some(said)) = (budget, said) {
                    self.slots.push(Slot::Budget(budget.span, said));
                }
            }
            "tools" => {
                self.has_tools = value.kind == Kind::Array && has_members(text, value);
            }
            "output_config" => {
                self.wants_json |= member(text, value, "format")?.is_some_and(is_object);
            }
            "output_format" => self.wants_json |= is_object(value),
            _ => {}
        }
        Ok(())
    }

    /// Gives the bytes of what is no text.
    fn read_messages(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, RequestError> {
        let kind = cursor.kind()?;
        if kind != Kind::Array {
            return Err(RequestError::kind("messages", "an array of messages", kind));
        }
        (self.messages, self.images, self.documents) = (0, 0, 0);
        let mut media = 0;
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            let kind = cursor.kind()?;
            if kind != Kind::Object {
                return Err(RequestError::kind("messages", "an array of objects", kind));
            }
            self.messages += 1;
            media += self.block(cursor)?;
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

    /// A message's, a tool result's or a document's `content`. Recursion is as deep as the JSON, which the scanner bounds.
    fn content(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, JsonError> {
        let mut media = 0;
        if cursor.kind()? != Kind::Array {
            cursor.skip()?;
            return Ok(0);
        }
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            if cursor.kind()? == Kind::Object {
                media += self.block(cursor)?;
            } else {
                cursor.skip()?;
            }
        }
        Ok(media)
    }

    /// A message or a block.
    fn block(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, JsonError> {
        let text = cursor.text();
        let (mut media, mut kind, mut source) = (0, None, None);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(text) {
                "content" => media += self.content(cursor)?,
                "source" if cursor.kind()? == Kind::Object => source = Some(self.source(cursor)?),
                "type" => kind = cursor.skip()?.text().map(|word| word.decode(text)),
                _ => {
                    cursor.skip()?;
                }
            }
        }
        let image = kind.as_deref() == Some("image");
        match source {
            Some(Source::File(bytes)) => {
                *(if image {
                    &mut self.images
                } else {
                    &mut self.documents
                }) += 1;
                media += bytes;
            }
            Some(Source::Id(bytes)) => {
                self.images += u64::from(image);
                media += bytes;
            }
            Some(Source::Text(bytes)) => media += bytes,
            None => {}
        }
        Ok(media)
    }

    fn source(&mut self, cursor: &mut Cursor<'_>) -> Result<Source, JsonError> {
        let text = cursor.text();
        let start = cursor.position();
        let (mut media, mut kind) = (0, None);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(text) {
                "content" => media += self.content(cursor)?,
                "type" => kind = cursor.skip()?.text().map(|word| word.decode(text)),
                _ => {
                    cursor.skip()?;
                }
            }
        }
        let bytes = cursor.position() - start;
        Ok(match kind.as_deref() {
            Some("text" | "content") => Source::Text(media),
            Some("file") => Source::Id(bytes),
            _ => Source::File(bytes),
        })
    }

    /// Collects what a model reads of the request, for counting tokens at settlement (SPEC BILL-6): the system prompt, every
    /// string inside `messages` but roles, types, ids, signatures and media, and the declarations of tools and of the
    /// answer's form as they stand.
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
                "messages" | "system" => strings(&mut cursor, out)?,
                "tools" | "output_config" | "output_format" => {
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

/// Adds every string of the next value that a model reads. The depth of recursion is that of the JSON, which the scanner
/// bounds.
fn strings(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let text = cursor.text();
    let mut first = true;
    match cursor.kind()? {
        Kind::Object => {
            cursor.enter_object()?;
            while let Some(key) = cursor.next_key(&mut first)? {
                match &*key.decode(text) {
                    "role" | "type" | "id" | "tool_use_id" | "signature" | "data"
                    | "cache_control" | "encrypted_content" | "media_type" => {
                        cursor.skip()?;
                    }
                    "source" if cursor.kind()? == Kind::Object => source_text(cursor, out)?,
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

/// The text of a document that is given as text or blocks.
fn source_text(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let text = cursor.text();
    let value = cursor.skip()?;
    let kind = member(text, value, "type")?.and_then(|kind| kind.text());
    let inside = match kind.map(|kind| kind.decode(text)).as_deref() {
        Some("text") => member(text, value, "data")?,
        Some("content") => member(text, value, "content")?,
        _ => None,
    };
    match inside {
        Some(inside) => strings(&mut Cursor::at_value(text, inside), out),
        None => Ok(()),
    }
}

/// A member of an object; the last one where there are several, `None` where `value` is no object.
pub(super) fn member(text: &str, value: Value, name: &str) -> Result<Option<Value>, JsonError> {
    if value.kind != Kind::Object {
        return Ok(None);
    }
    let mut cursor = Cursor::at_value(text, value);
    cursor.enter_object()?;
    let (mut first, mut found) = (true, None);
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        if crate::usage::key_is(text, key, name) {
            found = Some(value);
        }
    }
    Ok(found)
}

fn is_object(value: Value) -> bool {
    value.kind == Kind::Object
}

const LIMIT: &str = "a whole number from 0 to 999999999999999999";

fn limit(text: &str, value: Value) -> Result<u64, RequestError> {
    if value.kind != Kind::Number {
        return Err(RequestError::kind("max_tokens", LIMIT, value.kind));
    }
    let said = value.span.of(text);
    whole_number(said).ok_or_else(|| {
        let mut got = said.to_owned();
        got.truncate(40);
        RequestError::Field {
            field: "max_tokens",
            expected: LIMIT,
            got,
        }
    })
}
