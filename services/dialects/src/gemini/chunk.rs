//! Reading one answer, whole or a piece of a stream: both are a `GenerateContentResponse`.

use super::media::each;
use crate::carry::is_count;
use crate::chat::quote;
use crate::json::{Cursor, JsonError, Kind, Nesting, Span, Value, whole_number};
use crate::request::has_members;
use crate::text::TextBuffer;

/// Candidates above this index are not tracked.
const MAX_CANDIDATE: u64 = 127;

/// What one answer or piece of an answer carries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chunk {
    /// The value of `error`.
    pub error: Option<Value>,
    /// How many candidates are in it.
    pub candidates: usize,
    /// Every candidate has content or an end.
    pub sound: bool,
    /// Something that a caller sees (SPEC FWD-3).
    pub content: bool,
    /// A candidate ended.
    pub finished: bool,
    /// The prompt was blocked: there will be no candidates.
    pub blocked: bool,
    /// The last value of `usageMetadata`.
    pub usage: Option<Value>,
    /// The value of `modelVersion`, if it is a string.
    pub model: Option<Value>,
    /// How many texts are in it; more than one also where there are other things to be counted.
    pub texts: usize,
    /// The inside of the last one.
    pub text: Option<Span>,
    /// It has anything of an answer.
    pub known: bool,
}

/// Reads answers, keeping what lasts beyond one.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    /// All text that the caller gets, for counting.
    pub text: TextBuffer,
    /// Candidates seen, one bit each.
    seen: u128,
    /// Candidates with a finish reason.
    finished: u128,
    blocked: bool,
}

impl ChunkReader {
    pub(super) fn new(text_bound: usize) -> Self {
        Self {
            text: TextBuffer::new(text_bound),
            ..Self::default()
        }
    }

    /// Whether every candidate that was begun has ended, and so many were; or there will be none.
    pub(super) const fn complete(&self, candidates: u64) -> bool {
        self.blocked
            || (self.seen != 0
                && self.seen == self.finished
                && self.seen.count_ones() as u64 >= candidates)
    }

    pub(super) fn read(&mut self, data: &str) -> Result<Chunk, JsonError> {
        let mut chunk = Chunk {
            sound: true,
            ..Chunk::default()
        };
        let mut cursor = Cursor::new(data);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(data) {
                "candidates" => {
                    chunk.known = true;
                    each(&mut cursor, |cursor| self.candidate(cursor, &mut chunk))?;
                }
                "promptFeedback" => {
                    chunk.known = true;
                    each(&mut cursor, |cursor| feedback(cursor, &mut chunk))?;
                    self.blocked |= chunk.blocked;
                }
                "usageMetadata" => {
                    chunk.known = true;
                    chunk.usage = Some(cursor.skip()?);
                }
                "modelVersion" => {
                    chunk.model = Some(cursor.skip()?).filter(|v| v.kind == Kind::String);
                }
                "error" => chunk.error = Some(cursor.skip()?),
                _ => {
                    cursor.skip()?;
                }
            }
        }
        cursor.end()?;
        Ok(chunk)
    }

    fn candidate(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
        let data = cursor.text();
        chunk.candidates += 1;
        let (mut index, mut finished, mut has_content) = (0, false, false);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match (&*key.decode(data), cursor.kind()?) {
                ("content", Kind::Object) => {
                    has_content = true;
                    self.content(cursor, chunk)?;
                }
                ("index", Kind::Number) => {
                    index = whole_number(cursor.skip()?.span.of(data)).unwrap_or(0);
                }
                ("finishReason", Kind::String) => {
                    let reason = cursor.string()?.decode(data);
                    finished = !matches!(&*reason, "" | "FINISH_REASON_UNSPECIFIED");
                }
                _ => {
                    cursor.skip()?;
                }
            }
        }
        if index <= MAX_CANDIDATE {
            self.seen |= 1 << index;
            self.finished |= u128::from(finished) << index;
        }
        chunk.sound &= has_content || finished;
        chunk.finished |= finished;
        Ok(())
    }

    fn content(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
        let data = cursor.text();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            if key.decode(data) == "parts" {
                each(cursor, |cursor| self.part(cursor, chunk))?;
            } else {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    /// The table of SPEC FWD-3 for this dialect: text (thoughts too), calls, code, and data of any kind.
    fn part(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
        let data = cursor.text();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match (&*key.decode(data), cursor.kind()?) {
                ("text", Kind::String) => {
                    let string = cursor.string()?;
                    if !string.is_empty() {
                        chunk.content = true;
                        chunk.texts += 1;
                        chunk.text = Some(string.span);
                    }
                    string.pieces(data, |piece| self.text.push(piece));
                }
                ("functionCall", Kind::Object) => {
                    chunk.content = true;
                    chunk.texts += 2;
                    self.call(cursor)?;
                }
                ("executableCode" | "codeExecutionResult", Kind::Object) => {
                    chunk.content = true;
                    chunk.texts += 2;
                    strings(cursor, &mut self.text)?;
                }
                ("videoMetadata" | "partMetadata", _) => {
                    cursor.skip()?;
                }
                _ => {
                    let value = cursor.skip()?;
                    chunk.content |= value.kind == Kind::Object && has_members(data, value);
                }
            }
        }
        Ok(())
    }

    /// The name and the arguments of a call, as a tokenizer would count them.
    fn call(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        let data = cursor.text();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(data) {
                "name" => {
                    if let Some(name) = value.text() {
                        name.pieces(data, |piece| self.text.push(piece));
                    }
                }
                "args" | "partialArgs" => self.text.push(value.span.of(data)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn feedback(cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Result<(), JsonError> {
    let data = cursor.text();
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        if key.decode(data) == "blockReason"
            && let Some(reason) = value.text()
        {
            let reason = reason.decode(data);
            chunk.blocked |= !matches!(&*reason, "" | "BLOCK_REASON_UNSPECIFIED");
        }
    }
    Ok(())
}

/// Where the numbers of a value stand that may differ from one event to the next.
pub(super) fn counts(data: &str, value: Value) -> Vec<Span> {
    let mut nesting = Nesting::default();
    let mut found: Vec<Span> = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut close = |start, end| {
        let span = Span::new(start, end);
        if is_count(span.of(data)) {
            found.push(span);
        }
    };
    for (at, byte) in value.span.of(data).bytes().enumerate() {
        let at = value.span.start + at;
        let open = end == at && start < end;
        let part = match byte {
            b'0'..=b'9' | b'-' => true,
            b'+' | b'.' | b'e' | b'E' => open,
            _ => false,
        };
        if part && !nesting.in_string() {
            start = if open { start } else { at };
            end = at + 1;
        } else if open {
            close(start, end);
        }
        nesting.step(byte);
    }
    found
}

/// Adds the strings of an object of code or its output.
fn strings(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let data = cursor.text();
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        if matches!(&*key.decode(data), "code" | "output")
            && let Some(text) = value.text()
        {
            text.pieces(data, |piece| out.push(piece));
        }
    }
    Ok(())
}

/// The public name of a model.
#[derive(Debug)]
pub(super) struct PublicName {
    plain: String,
    pub quoted: String,
}

impl PublicName {
    pub(super) fn new(plain: &str) -> Self {
        Self {
            plain: plain.to_owned(),
            quoted: quote(plain),
        }
    }

    /// The place of `model` where it says another name.
    pub(super) fn differs(&self, model: Option<Value>, data: &str) -> Option<Span> {
        let value = model?;
        let said = value.text()?.decode(data);
        (said != self.plain).then_some(value.span)
    }
}
