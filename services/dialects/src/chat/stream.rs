//! A streamed chat answer on its way from the upstream to the caller.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::chunk::{Chunk, ChunkReader, Name, member};
use super::patch::quote;
use crate::error::{Class, UpstreamError};
use crate::json::{Kind, Span, Value};
use crate::sse::{DEFAULT_MAX_EVENT, DONE, Decoder, Frame, Outbox, SseError};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// How a stream is to be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOptions {
    /// The public name that answers must carry, given when the upstream's name of the model differs from it; `None`
    /// leaves `model` as the upstream says it (SPEC FWD-1).
    pub public_model: Option<String>,
    /// The caller asked for usage. Otherwise every trace of it is taken out.
    pub include_usage: bool,
    /// Keep at most this much output text for counting, in bytes.
    pub text_bound: usize,
    /// Hold at most this much before the first content, in bytes; then commit (SPEC FWD-3).
    pub hold_bound: usize,
    /// The largest single event, in bytes.
    pub max_event: usize,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            public_model: None,
            include_usage: false,
            text_bound: 1 << 20,
            hold_bound: 1 << 20,
            max_event: DEFAULT_MAX_EVENT,
        }
    }
}

/// What a chunk needs in the place of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    Nothing,
    Null,
    NullUsage,
    Model,
}

/// A usage chunk that waits for the end of the stream.
#[derive(Debug)]
struct Pending {
    event: Bytes,
    /// Where it lies in the current block, if it can pass as it is.
    range: Option<Range<usize>>,
}

/// Carries one streamed answer. [`push`](Self::push) what was read, then [`take`](Self::take) what may go out; after
/// the upstream's last byte [`finish`](Self::finish) and take once more. Nothing can be taken before the answer is
/// committed, that is before its first content (or its regular end): until then a failure leaves no trace, and the
/// stream can be dropped for another account's (SPEC FWD-3).
///
/// An error from `push` or `finish` is final. What was ready before it can still be taken; the caller of this type then
/// ends the stream with an error event ([`render_openai_event`](crate::error::render_openai_event)) if anything was
/// committed. `[DONE]` is never written after an error.
///
/// With usage asked for, exactly one usage chunk comes out, with `choices: []`, last before `[DONE]`, and every other
/// chunk has `usage: null` (CASES C9); if the upstream reports none, none is made up. Without, none comes out (A17).
#[derive(Debug)]
pub struct ChatStream {
    decoder: Decoder,
    out: Outbox,
    reader: ChunkReader,
    include_usage: bool,
    /// The public name, plain and as a JSON string.
    model: Option<(String, String)>,
    hold_bound: usize,
    edits: Vec<(Span, Put)>,
    usage: Option<UsageReport>,
    pending: Option<Pending>,
    chunks: u64,
    content_chunks: u64,
    committed: bool,
    done: bool,
}

impl ChatStream {
    /// A stream of which nothing has been read.
    #[must_use]
    pub fn new(options: StreamOptions) -> Self {
        Self {
            decoder: Decoder::new(options.max_event),
            out: Outbox::default(),
            reader: ChunkReader::new(options.text_bound),
            include_usage: options.include_usage,
            model: options.public_model.map(|name| {
                let quoted = quote(&name);
                (name, quoted)
            }),
            hold_bound: options.hold_bound,
            edits: Vec::new(),
            usage: None,
            pending: None,
            chunks: 0,
            content_chunks: 0,
            committed: false,
            done: false,
        }
    }

    /// Takes the bytes of one read of the upstream's body.
    ///
    /// # Errors
    /// When the upstream says that it failed, or what it says is no chat stream.
    pub fn push(&mut self, bytes: Bytes) -> Result<(), Box<UpstreamError>> {
        if self.done {
            return Ok(());
        }
        if let Some(pending) = &mut self.pending {
            pending.range = None;
        }
        self.decoder.push(bytes);
        self.drain()
    }

    /// The upstream's body has ended.
    ///
    /// # Errors
    /// When it ended too early (CASES C1): without `[DONE]` and before every choice had its finish reason, or without
    /// any answer at all.
    pub fn finish(&mut self) -> Result<(), Box<UpstreamError>> {
        if !self.done {
            if let Some(pending) = &mut self.pending {
                pending.range = None;
            }
            self.decoder.finish();
            self.drain()?;
        }
        if self.done {
            return Ok(());
        }
        if self.reader.complete() {
            self.close(None);
            return Ok(());
        }
        Err(Box::new(if self.chunks == 0 {
            UpstreamError::found(Class::Empty, "the upstream's stream was empty")
        } else {
            UpstreamError::found(
                Class::Cut,
                "the upstream's stream ended before the answer did",
            )
        }))
    }

    /// All that may go out now, as one piece: whole events, in order. `None` before the answer is committed and when
    /// there is nothing new.
    pub fn take(&mut self) -> Option<Bytes> {
        if self.committed {
            self.out.take()
        } else {
            None
        }
    }

    /// Whether the answer is irrevocable: content was read, or its end, or more was held than may be.
    #[must_use]
    pub const fn committed(&self) -> bool {
        self.committed
    }

    /// Whether content was read (SPEC FWD-3's table): the first token has come.
    #[must_use]
    pub const fn has_content(&self) -> bool {
        self.content_chunks > 0
    }

    /// Chunks with content so far.
    #[must_use]
    pub const fn content_chunks(&self) -> u64 {
        self.content_chunks
    }

    /// Whether the answer has ended as it should: the rest of the upstream's body does not matter.
    #[must_use]
    pub const fn done(&self) -> bool {
        self.done
    }

    /// Whether a finish reason was seen: what may still come is usage.
    #[must_use]
    pub const fn finished(&self) -> bool {
        self.reader.any_finished()
    }

    /// The last usage that the upstream reported.
    #[must_use]
    pub const fn usage(&self) -> Option<&UsageReport> {
        self.usage.as_ref()
    }

    /// The output read so far, as a tokenizer would count it: text, reasoning, refusals, tool names and arguments.
    /// Error bytes are never part of it (CASES A2).
    #[must_use]
    pub const fn text(&self) -> &TextBuffer {
        &self.reader.text
    }

    /// Bytes held in memory for this stream.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.decoder.buffered()
            + self.out.len()
            + self.pending.as_ref().map_or(0, |p| p.event.len())
            + self.reader.text.text().len()
    }

    fn drain(&mut self) -> Result<(), Box<UpstreamError>> {
        self.out.start(self.decoder.block());
        while !self.done {
            let Some(frame) = self.decoder.next_frame().map_err(unreadable)? else {
                break;
            };
            self.frame(&frame)?;
        }
        self.committed |= self.out.len() > self.hold_bound;
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), Box<UpstreamError>> {
        let name = self.decoder.name(frame);
        let data = self.decoder.data(frame).map_err(unreadable)?;
        if data.trim_ascii() == "[DONE]" {
            return self.upstream_done(frame);
        }
        if name == Some(b"ping") {
            return Ok(());
        }
        let Ok(chunk) = self.reader.read(data) else {
            return Err(Box::new(if frame.terminated {
                UpstreamError::found(
                    Class::Malformed,
                    "the upstream's stream has an event that is no JSON object",
                )
            } else {
                UpstreamError::found(Class::Cut, "the upstream's stream ended inside an event")
            }));
        };
        if let Some(error) = chunk
            .error
            .and_then(|e| UpstreamError::from_embedded(data, e))
        {
            return Err(Box::new(error));
        }
        if chunk.flat_error || name == Some(b"error") {
            return Err(Box::new(UpstreamError::from_flat(data)));
        }
        let report = chunk
            .usage
            .and_then(|value| UsageReport::from_openai(data, value));
        let has_choices = chunk.choices.is_some_and(|c| c.kind == Kind::Array);
        let reported = report.is_some();
        if !has_choices && !reported {
            // no chunk at all: an upstream's own keep-alive, which SDKs would choke on
            return Ok(());
        }
        if reported {
            self.usage = report;
        }
        self.chunks += 1;
        if chunk.content {
            self.content_chunks += 1;
        }
        self.committed |= chunk.content || chunk.finished;
        if reported && self.include_usage {
            self.pending = Some(pending(
                &chunk,
                data,
                frame,
                &self.decoder,
                self.model.as_ref(),
            ));
        }
        if reported && chunk.choice_count == 0 {
            return Ok(());
        }
        find_edits(
            &mut self.edits,
            &chunk,
            &self.reader,
            data,
            self.include_usage,
            self.model.as_ref(),
        );
        let plain = frame.canonical && name.is_none();
        if plain && self.edits.is_empty() {
            self.out.pass(frame.span.clone());
        } else {
            let quoted = self.model.as_ref().map_or("", |(_, quoted)| quoted);
            write_edited(self.out.writer(), data, &self.edits, quoted);
        }
        Ok(())
    }

    fn upstream_done(&mut self, frame: &Frame) -> Result<(), Box<UpstreamError>> {
        if self.content_chunks == 0 && !self.reader.any_finished() {
            return Err(Box::new(UpstreamError::found(
                Class::Empty,
                "the upstream's stream ended without an answer",
            )));
        }
        let plain = frame.canonical && self.decoder.name(frame).is_none();
        let plain = plain && frame.span.len() == DONE.len();
        self.close(plain.then(|| frame.span.clone()));
        Ok(())
    }

    /// Writes what ends the stream; `range` is the upstream's own `[DONE]` if it can pass.
    fn close(&mut self, range: Option<Range<usize>>) {
        if let Some(pending) = self.pending.take() {
            match pending.range {
                Some(range) => self.out.pass(range),
                None => self.out.writer().extend_from_slice(&pending.event),
            }
        }
        match range {
            Some(range) => self.out.pass(range),
            None => self.out.writer().extend_from_slice(DONE),
        }
        self.committed = true;
        self.done = true;
    }
}

fn unreadable(error: SseError) -> Box<UpstreamError> {
    Box::new(UpstreamError::found(Class::Malformed, &error.to_string()))
}

/// What must change in a chunk that goes to the caller.
fn find_edits(
    edits: &mut Vec<(Span, Put)>,
    chunk: &Chunk,
    reader: &ChunkReader,
    data: &str,
    include_usage: bool,
    model: Option<&(String, String)>,
) {
    edits.clear();
    for member in &reader.members {
        match member.name {
            Name::Usage if !include_usage => edits.push((member.removal, Put::Nothing)),
            Name::Usage if member.value.kind != Kind::Null => {
                edits.push((member.value.span, Put::Null));
            }
            Name::Model if differs(member.value, data, model) => {
                edits.push((member.value.span, Put::Model));
            }
            _ => {}
        }
    }
    if include_usage && chunk.usage.is_none() {
        edits.push((Span::new(chunk.end, chunk.end), Put::NullUsage));
    }
}

/// Whether a `model` value is a string other than the public name.
fn differs(value: Value, data: &str, model: Option<&(String, String)>) -> bool {
    match (model, value.text()) {
        (Some((name, quoted)), Some(text)) => {
            value.span.of(data) != quoted && text.decode(data) != name.as_str()
        }
        _ => false,
    }
}

/// The one usage chunk that the caller gets: this chunk, with no choices.
fn pending(
    chunk: &Chunk,
    data: &str,
    frame: &Frame,
    decoder: &Decoder,
    model: Option<&(String, String)>,
) -> Pending {
    let empty = chunk.choices.is_some_and(|c| c.kind == Kind::Array) && chunk.choice_count == 0;
    let renamed = member(data, "model").is_some_and(|value| differs(value, data, model));
    if empty && !renamed && frame.canonical && decoder.name(frame).is_none() {
        return Pending {
            event: decoder.block().slice(frame.span.clone()),
            range: Some(frame.span.clone()),
        };
    }
    let mut edits = Vec::new();
    let mut prefix = "";
    match chunk.choices {
        Some(choices) => edits.push((choices.span, "[]")),
        None => prefix = r#""choices":[],"#,
    }
    if let (true, Some(value), Some((_, quoted))) = (renamed, member(data, "model"), model) {
        edits.push((value.span, quoted));
    }
    edits.sort_by_key(|(span, _)| span.start);
    let mut out = BytesMut::with_capacity(data.len() + 64);
    out.put_slice(b"data: ");
    let start = data.find('{').map_or(0, |at| at + 1);
    let mut at = start;
    out.put_slice(b"{");
    out.put_slice(prefix.as_bytes());
    for (span, with) in edits {
        put_line(&mut out, data, at..span.start);
        out.put_slice(with.as_bytes());
        at = span.end;
    }
    put_line(&mut out, data, at..data.len());
    out.put_slice(b"\n\n");
    Pending {
        event: out.freeze(),
        range: None,
    }
}

/// Writes a chunk with its edits, which are in order.
fn write_edited(out: &mut BytesMut, data: &str, edits: &[(Span, Put)], model: &str) {
    out.reserve(data.len() + model.len() + 32);
    out.put_slice(b"data: ");
    let mut at = 0;
    for (span, put) in edits {
        put_line(out, data, at..span.start);
        out.put_slice(match put {
            Put::Nothing => b"",
            Put::Null => b"null",
            Put::NullUsage => br#","usage":null"#,
            Put::Model => model.as_bytes(),
        });
        at = span.end;
    }
    put_line(out, data, at..data.len());
    out.put_slice(b"\n\n");
}

/// Writes part of a JSON text on one line: line ends can only be white space there (they cannot stand in strings).
fn put_line(out: &mut BytesMut, data: &str, range: Range<usize>) {
    let start = out.len();
    out.put_slice(data.get(range).unwrap_or("").as_bytes());
    if let Some(written) = out.get_mut(start..)
        && memchr::memchr(b'\n', written).is_some()
    {
        for byte in written {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
    }
}
