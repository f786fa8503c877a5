//! Reading one chunk of a stream: what it carries, and where that stands.

use crate::error::UpstreamError;
use crate::json::{Cursor, JsonError, Kind, Span, Value, whole_number};
use crate::request::has_members;
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// Choices above this index are not tracked.
const MAX_CHOICE: u64 = 127;

/// A top-level member that may have to change on its way to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub name: Name,
    pub value: Value,
    /// What to take out so that the member is gone and the object stays valid (if all `usage` members go).
    pub removal: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Usage,
    Model,
}

/// Where a choice has its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Payload {
    /// In a message, or in a stream's `delta`: chat.
    #[default]
    Message,
    /// In `text`: completions.
    Text,
}

/// What one chunk carries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chunk {
    /// The value of `error`.
    pub error: Option<Value>,
    /// What stands in a choice instead of beside it.
    pub beside: Beside,
    /// `"object":"error"` or `"type":"error"`.
    pub flat_error: bool,
    /// The value of `choices`.
    pub choices: Option<Value>,
    /// How many choices are in it.
    pub choice_count: usize,
    /// Something that a caller sees (SPEC FWD-3).
    pub content: bool,
    /// A finish reason.
    pub finished: bool,
    /// The last value of `usage`.
    pub usage: Option<Value>,
    /// Where the last member ends.
    pub end: usize,
    /// Where the only string of visible text lies, if that is all there is: quotes excluded.
    pub only_text: Option<Span>,
    /// The inside of the padding that OpenAI puts beside the choices (PROTOCOLS §3.3, 6), if it comes after them.
    pub padding: Option<Span>,
}

/// What some upstreams say in a choice that belongs beside the choices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside {
    /// The last error (OpenRouter).
    pub error: Option<Value>,
    /// The last usage (Moonshot).
    pub usage: Option<Value>,
}

impl Chunk {
    /// The failure that it says, if it does. `data` is what was read, under this event's name.
    pub(super) fn failure(&self, data: &str, name: Option<&[u8]>) -> Option<Box<UpstreamError>> {
        let of = |error: Option<Value>| UpstreamError::from_embedded(data, error?);
        // The whole is an answer, no error object.
        let beside = || {
            of(self.beside.error).map(|error| UpstreamError {
                body: None,
                ..error
            })
        };
        let flat = self.flat_error || name == Some(b"error");
        let flat = || flat.then(|| UpstreamError::from_flat(data));
        of(self.error).or_else(beside).or_else(flat).map(Box::new)
    }

    /// The usage that it tells, if it does.
    pub(super) fn report(&self, data: &str) -> Option<UsageReport> {
        let of = |usage: Option<Value>| UsageReport::from_openai(data, usage?);
        of(self.usage).or_else(|| of(self.beside.usage))
    }
}

/// Reads chunks, keeping what lasts beyond one.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    /// All text that the caller gets, for counting.
    pub text: TextBuffer,
    /// Members of the chunk that was read last, in order of their place.
    pub members: Vec<Member>,
    /// Choices seen, one bit each.
    seen: u128,
    /// Choices with a finish reason.
    finished: u128,
    texts: u32,
    payload: Payload,
}

impl ChunkReader {
    pub(super) fn new(payload: Payload, text_bound: usize) -> Self {
        Self {
            payload,
            text: TextBuffer::new(text_bound),
            ..Self::default()
        }
    }

    /// Whether every choice that was begun has ended, and so many were.
    pub(super) const fn complete(&self, choices: u64) -> bool {
        self.seen != 0 && self.seen == self.finished && self.seen.count_ones() as u64 >= choices
    }

    /// Whether any choice was begun and has not ended.
    pub(super) const fn any_open(&self) -> bool {
        self.seen != self.finished
    }

    /// Whether any choice ended.
    pub(super) const fn any_finished(&self) -> bool {
        self.finished != 0
    }

    pub(super) fn read(&mut self, data: &str) -> Result<Chunk, JsonError> {
        let mut chunk = Chunk::default();
        let mut cursor = Cursor::new(data);
        self.members.clear();
        self.texts = 0;
        cursor.enter_object()?;
        let mut first = true;
        // a usage before which nothing is kept takes the comma behind it along
        let mut open: Option<usize> = None;
        let mut kept = false;
        loop {
            let before = cursor.position();
            chunk.end = before;
            let Some(key) = cursor.next_key(&mut first)? else {
                break;
            };
            let key_start = key.span.start - 1;
            if let Some(member) = open.take().and_then(|i| self.members.get_mut(i)) {
                member.removal.end = key_start;
            }
            let name = key.decode(data);
            if &*name == "choices" && cursor.kind()? == Kind::Array {
                let start = cursor.position();
                self.choices(&mut cursor, &mut chunk)?;
                chunk.choices = Some(Value {
                    span: Span::new(start, cursor.position()),
                    kind: Kind::Array,
                    escaped: false,
                });
                kept = true;
                continue;
            }
            let value = cursor.skip()?;
            let mut member = |name, start| {
                self.members.push(Member {
                    name,
                    value,
                    removal: Span::new(start, value.span.end),
                });
            };
            match &*name {
                "usage" => {
                    chunk.usage = Some(value);
                    member(Name::Usage, if kept { before } else { key_start });
                    if !kept {
                        open = self.members.len().checked_sub(1);
                    }
                    continue;
                }
                "model" => member(Name::Model, before),
                "error" => chunk.error = Some(value),
                "object" | "type" => {
                    chunk.flat_error |= value.span.of(data) == "\"error\"";
                }
                "choices" => chunk.choices = Some(value),
                "obfuscation" if chunk.choices.is_some() => {
                    chunk.padding = value.text().map(|text| text.span);
                }
                _ => {}
            }
            kept = true;
        }
        cursor.end()?;
        if self.texts != 1 {
            chunk.only_text = None;
        }
        Ok(chunk)
    }

    fn choices(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
        cursor.enter_array()?;
        let mut first = true;
        // Of several the last one counts, as for every reader.
        chunk.choice_count = 0;
        while cursor.next_item(&mut first)? {
            chunk.choice_count += 1;
            if cursor.kind()? == Kind::Object {
                self.choice(cursor, chunk)?;
            } else {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn choice(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
        let data = cursor.text();
        let mut index = 0;
        let mut finished = false;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(data) {
                // a few upstreams put the whole message there
                "delta" | "message"
                    if self.payload == Payload::Message && cursor.kind()? == Kind::Object =>
                {
                    self.delta(cursor, chunk)?;
                }
                "text" if self.payload == Payload::Text => {
                    self.visible(cursor, chunk)?;
                }
                "index" => {
                    index = whole_number(cursor.skip()?.span.of(data)).unwrap_or(0);
                }
                "finish_reason" => finished = non_empty(cursor.skip()?),
                "error" => chunk.beside.error = said(cursor.skip()?).or(chunk.beside.error),
                "usage" => chunk.beside.usage = said(cursor.skip()?).or(chunk.beside.usage),
                _ => {
                    cursor.skip()?;
                }
            }
        }
        if index <= MAX_CHOICE {
            self.seen |= 1 << index;
            self.finished |= u128::from(finished) << index;
        }
        chunk.finished |= finished;
        Ok(())
    }

    /// The table of SPEC FWD-3 for this dialect.
    fn delta(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
        let data = cursor.text();
        // some upstreams send the same reasoning under both of its names
        let mut reasoned = false;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(data) {
                "content" | "refusal" => {
                    self.visible(cursor, chunk)?;
                }
                "reasoning_content" | "reasoning" if !reasoned => {
                    reasoned = self.visible(cursor, chunk)?;
                }
                "tool_calls" | "function_call" => {
                    let value = cursor.skip()?;
                    if has_members(data, value) {
                        chunk.content = true;
                        self.texts = 2;
                        self.call_text(&mut Cursor::at_value(data, value))?;
                    }
                }
                "audio" | "images" | "reasoning_details" => {
                    let value = cursor.skip()?;
                    if has_members(data, value) {
                        chunk.content = true;
                        self.texts = 2;
                    }
                }
                _ => {
                    cursor.skip()?;
                }
            }
        }
        Ok(())
    }

    /// Text as a string, or as parts (Mistral). Gives whether there was any.
    fn visible(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<bool, JsonError> {
        let data = cursor.text();
        match cursor.kind()? {
            Kind::String => {
                let string = cursor.string()?;
                if string.is_empty() {
                    return Ok(false);
                }
                chunk.content = true;
                chunk.only_text = Some(string.span);
                self.texts += 1;
                string.pieces(data, |piece| self.text.push(piece));
                Ok(true)
            }
            Kind::Array => {
                let value = cursor.skip()?;
                let some = has_members(data, value);
                if some {
                    chunk.content = true;
                    self.texts = 2;
                    self.call_text(&mut Cursor::at_value(data, value))?;
                }
                Ok(some)
            }
            _ => {
                cursor.skip()?;
                Ok(false)
            }
        }
    }

    /// The strings of tool calls and text parts that are output: names, arguments, inputs, text.
    fn call_text(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        let data = cursor.text();
        let mut first = true;
        match cursor.kind()? {
            Kind::Array => {
                cursor.enter_array()?;
                while cursor.next_item(&mut first)? {
                    self.call_text(cursor)?;
                }
            }
            Kind::Object => {
                cursor.enter_object()?;
                while let Some(key) = cursor.next_key(&mut first)? {
                    match (&*key.decode(data), cursor.kind()?) {
                        ("function" | "custom" | "thinking", Kind::Object | Kind::Array) => {
                            self.call_text(cursor)?;
                        }
                        ("name" | "arguments" | "input" | "text" | "thinking", Kind::String) => {
                            let string = cursor.string()?;
                            string.pieces(data, |piece| self.text.push(piece));
                        }
                        _ => {
                            cursor.skip()?;
                        }
                    }
                }
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    }
}

fn said(value: Value) -> Option<Value> {
    (value.kind != Kind::Null).then_some(value)
}

fn non_empty(value: Value) -> bool {
    value.text().is_some_and(|text| !text.is_empty())
}
