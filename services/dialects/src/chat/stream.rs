//! A streamed chat answer on its way from the upstream to the caller.

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::{BufMut, Bytes};

use super::chunk::{Chunk, ChunkReader, Payload};
use super::edits::{Edits, PublicName};
use super::pending::Pending;
use crate::carry::{Carrier, Event, Form, Grammar, Shape, Slot, State, StreamOptions, no_object};
use crate::error::{Class, UpstreamError};
use crate::json::Kind;
use crate::sse::DONE;
use crate::text::TextBuffer;

/// What a chat request says of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Where choices have their content.
    pub payload: Payload,
    /// The caller asked for usage. Otherwise every trace of it is taken out.
    pub include_usage: bool,
    /// How many answers were asked for (`n`): a stream without `[DONE]` is whole when so many have ended.
    pub choices: u64,
}

/// Carries one streamed answer.
///
/// With usage asked for, exactly one usage chunk comes out, with `choices: []`, last before `[DONE]`, and every other
/// chunk has `usage: null` (CASES C9); if the upstream reports none, none is made up. Without, none comes out (A17).
pub(crate) type ChatStream = Carrier<Chunks>;

/// The chunks of a chat stream (PROTOCOLS §3.3).
#[derive(Debug)]
pub(crate) struct Chunks {
    reader: ChunkReader,
    edits: Edits,
    shape: Shape,
    choices: u64,
    pending: Option<Pending>,
    /// What the first object said that is no chunk: an error if the answer never gets its finish reason.
    aside: Option<Box<UpstreamError>>,
}

impl ChatStream {
    /// A stream of which nothing has been read.
    pub(crate) fn open(asked: Asked, mut options: StreamOptions) -> Self {
        let grammar = Chunks {
            reader: ChunkReader::new(asked.payload, options.text_bound),
            edits: Edits::new(
                asked.include_usage,
                options.public_model.take().map(PublicName::new),
            ),
            shape: Shape::default(),
            choices: asked.choices,
            pending: None,
            aside: None,
        };
        Self::new(grammar, options)
    }
}

impl Grammar for Chunks {
    fn start(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.range = None;
        }
    }

    fn complete(&self) -> bool {
        self.reader.complete(self.choices)
    }

    fn text(&self) -> &TextBuffer {
        &self.reader.text
    }

    fn kept(&self) -> usize {
        self.pending.as_ref().map_or(0, |p| p.event.len()) + self.reader.text.kept()
    }

    fn close(&mut self, state: &mut State) {
        self.end(None, state);
    }

    fn run(&mut self, block: &Bytes, at: usize, limit: usize, state: &mut State) -> usize {
        let text = &mut self.reader.text;
        let run = self.shape.run(block, at, limit, text, &mut state.out);
        state.events += run.events;
        run.end
    }

    fn event(&mut self, event: &Event<'_>, state: &mut State) -> Result<(), Box<UpstreamError>> {
        let (name, data) = (event.name, event.data);
        let plain = event.canonical && name.is_none();
        if data.trim_ascii() == "[DONE]" {
            return self.upstream_done(event, state);
        }
        if name == Some(b"ping") {
            return Ok(());
        }
        let Ok(chunk) = self.reader.read(data) else {
            return Err(no_object(event));
        };
        if let Some(failure) = chunk.failure(data, name) {
            return Err(failure);
        }
        let report = chunk.report(data);
        let has_choices = chunk.choices.is_some_and(|c| c.kind == Kind::Array);
        let reported = report.is_some();
        if !has_choices && !reported {
            // no chunk at all: an upstream's own keep-alive, which SDKs would choke on
            let said = || UpstreamError::from_stray(data).map(Box::new);
            self.aside = self.aside.take().or_else(said);
            return Ok(());
        }
        let counts = report.is_some_and(|report| state.report(report));
        state.events += 1;
        state.content |= chunk.content;
        state.committed |= chunk.content || chunk.finished;
        if counts && self.edits.include_usage {
            let name = self.edits.model.as_ref();
            self.pending = Some(Pending::of(&chunk, event, name));
        }
        if reported && chunk.choice_count == 0 {
            return Ok(());
        }
        self.edits.find(&chunk, &self.reader, data);
        if plain && self.edits.is_empty() {
            state.out.pass(event.span.clone());
        } else {
            let out = state.out.writer();
            out.reserve(data.len() + 64);
            out.put_slice(b"data: ");
            self.edits.put(out, data, 0..data.len());
            out.put_slice(b"\n\n");
        }
        if name.is_none() && !chunk.finished && !reported {
            self.learn(&chunk, event);
        }
        Ok(())
    }
}

impl Chunks {
    /// Remembers the shape of a chunk that is nothing but a piece of text.
    fn learn(&mut self, chunk: &Chunk, event: &Event<'_>) {
        let Some(text) = chunk.only_text else { return };
        let padding = chunk.padding.map(|padding| (Slot::Padding, padding));
        let slots = [Some((Slot::Text, text)), padding].into_iter().flatten();
        let form = Form {
            before: b"data: ",
            put: &|out, range| self.edits.put(out, event.data, range),
            after: b"\n\n",
        };
        let form = (!self.edits.is_empty()).then_some(&form);
        self.shape.learn(event, slots, form);
    }

    fn upstream_done(
        &mut self,
        event: &Event<'_>,
        state: &mut State,
    ) -> Result<(), Box<UpstreamError>> {
        if !state.content && !self.reader.any_finished() {
            return Err(Box::new(UpstreamError::found(
                Class::Empty,
                "the upstream's stream ended without an answer",
            )));
        }
        if let Some(said) = self.aside.take().filter(|_| self.reader.any_open()) {
            // Nobody said why the answer ends, but what went wrong was said in a form of the upstream's own.
            return Err(said);
        }
        let plain = event.canonical && event.name.is_none() && event.span.len() == DONE.len();
        self.end(plain.then(|| event.span.clone()), state);
        Ok(())
    }

    /// Writes what ends the stream; `range` is the upstream's own `[DONE]` if it can pass.
    fn end(&mut self, range: Option<Range<usize>>, state: &mut State) {
        if let Some(pending) = self.pending.take() {
            match pending.range {
                Some(range) => state.out.pass(range),
                None => state.out.writer().extend_from_slice(&pending.event),
            }
        }
        match range {
            Some(range) => state.out.pass(range),
            None => state.out.writer().extend_from_slice(DONE),
        }
        state.committed = true;
        state.done = true;
    }
}
