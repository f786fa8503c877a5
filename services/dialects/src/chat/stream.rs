//! A streamed chat answer on its way from the upstream to the caller.

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::{BufMut, Bytes};

use super::chunk::ChunkReader;
use super::edits::{Edits, PublicName};
use super::pending::Pending;
use super::template::Template;
use crate::error::{Class, UpstreamError};
use crate::json::Kind;
use crate::sse::{
    DEFAULT_MAX_EVENT, DONE, Decoder, Frame, Framing, ObjectSplitter, Outbox, SseError,
};
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
    /// How many answers were asked for (`n`): a stream without `[DONE]` is whole when so many have ended.
    pub choices: u64,
    /// Keep at most this much output text for counting, in bytes.
    pub text_bound: usize,
    /// Hold at most this much before the first content, in bytes; then commit (SPEC FWD-3).
    pub hold_bound: usize,
    /// The largest single event, in bytes.
    pub max_event: usize,
    /// How the upstream separates its chunks.
    pub framing: Framing,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            public_model: None,
            include_usage: false,
            choices: 1,
            text_bound: 1 << 20,
            hold_bound: 1 << 20,
            max_event: DEFAULT_MAX_EVENT,
            framing: Framing::Events,
        }
    }
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
    /// Makes events of an upstream's bare objects.
    splitter: Option<ObjectSplitter>,
    out: Outbox,
    reader: ChunkReader,
    edits: Edits,
    template: Template,
    hold_bound: usize,
    choices: u64,
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
            splitter: match options.framing {
                Framing::Objects => Some(ObjectSplitter::new(options.max_event)),
                Framing::Events | Framing::Whole => None,
            },
            out: Outbox::default(),
            reader: ChunkReader::new(options.text_bound),
            edits: Edits::new(
                options.include_usage,
                options.public_model.map(PublicName::new),
            ),
            template: Template::default(),
            hold_bound: options.hold_bound,
            choices: options.choices,
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
        let bytes = match &mut self.splitter {
            Some(splitter) => splitter.push(&bytes).map_err(unreadable)?,
            None => bytes,
        };
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
            if let Some(splitter) = &mut self.splitter {
                self.decoder.push(splitter.finish());
                self.drain()?;
            }
            self.decoder.finish();
            self.drain()?;
        }
        if self.done {
            return Ok(());
        }
        if self.complete() {
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

    /// Whether all answers that were asked for have their finish reason: what may still come is usage and `[DONE]`.
    #[must_use]
    pub const fn complete(&self) -> bool {
        self.reader.complete(self.choices)
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
        let plain = frame.canonical && name.is_none();
        if let Some(found) = self.template.find(data)
            && name.is_none()
        {
            found
                .text
                .pieces(data, |piece| self.reader.text.push(piece));
            self.chunks += 1;
            self.content_chunks += 1;
            self.committed = true;
            if plain && self.template.unchanged() {
                self.out.pass(frame.span.clone());
            } else {
                self.template.write(self.out.writer(), data, &found);
            }
            return Ok(());
        }
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
        if reported && self.edits.include_usage {
            let name = self.edits.model.as_ref();
            self.pending = Some(Pending::of(&chunk, data, frame, &self.decoder, name));
        }
        if reported && chunk.choice_count == 0 {
            return Ok(());
        }
        self.edits.find(&chunk, &self.reader, data);
        if plain && self.edits.is_empty() {
            self.out.pass(frame.span.clone());
        } else {
            let out = self.out.writer();
            out.reserve(data.len() + 64);
            out.put_slice(b"data: ");
            self.edits.put(out, data, 0..data.len());
            out.put_slice(b"\n\n");
        }
        if let Some(text) = chunk.only_text
            && name.is_none()
            && !chunk.finished
            && !reported
        {
            self.template.learn(data, text, chunk.padding, &self.edits);
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
