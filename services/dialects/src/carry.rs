//! Carrying a streamed answer: what is the same in every dialect that streams events.
//!
//! A [`Carrier`] reads events, holds what comes before the first content (SPEC FWD-3) and gives out whole events, as few
//! pieces as possible (FWD-2). What the events mean is the dialect's [`Grammar`].

mod raw;
mod shape;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;

pub use self::raw::RawStream;
pub(crate) use self::shape::{Form, Shape, Slot, is_count};
use crate::dialect::Finished;
use crate::error::{Class, Rules, UpstreamError};
use crate::sse::{DEFAULT_MAX_EVENT, Decoder, Frame, Outbox};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// How a stream is to be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOptions {
    /// The public name that answers must carry, given when the upstream's name of the model differs from it; `None`
    /// leaves `model` as the upstream says it (SPEC FWD-1).
    pub public_model: Option<String>,
    /// Keep at most this much output text for counting, in bytes.
    pub text_bound: usize,
    /// Hold at most this much before the first content, in bytes; then commit (SPEC FWD-3).
    pub hold_bound: usize,
    /// The largest single event, in bytes.
    pub max_event: usize,
    /// The account's own failures (SPEC DIAL-4): looked for until content was read.
    pub rules: Rules,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            public_model: None,
            text_bound: 1 << 20,
            hold_bound: 1 << 20,
            max_event: DEFAULT_MAX_EVENT,
            rules: Rules::default(),
        }
    }
}

/// Where a stream stands, for whoever has to end it in this one's place (SPEC FWD-3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The response's id.
    pub response_id: String,
    /// When it was created, Unix seconds.
    pub created_at: i64,
    /// The model's name as the caller sees it.
    pub model: String,
    /// The `sequence_number` of the event to come.
    pub next_sequence: u64,
}

/// Carries one streamed answer. [`push`](Self::push) what was read, then [`take`](Self::take) what may go out; after
/// the upstream's last byte [`finish`](Self::finish) and take once more. Nothing can be taken before the answer is
/// committed, that is before its first content (or its regular end): until then a failure leaves no trace, and the
/// stream can be dropped for another account's (SPEC FWD-3).
///
/// An error from `push` or `finish` is final. What was ready before it can still be taken; whoever carries the stream then
/// ends it with an error event ([`Shape`](crate::error::Shape)) if anything was committed. What marks a regular end is never written after an
/// error.
pub trait AnswerStream: Debug + Send + Sync {
    /// Takes the bytes of one read of the upstream's body.
    ///
    /// # Errors
    /// When the upstream says that it failed, or what it says is no stream of its dialect.
    fn push(&mut self, bytes: Bytes) -> Result<(), Box<UpstreamError>>;

    /// The upstream's body has ended.
    ///
    /// # Errors
    /// When it ended before the answer did (CASES C1), or without any.
    fn finish(&mut self) -> Result<(), Box<UpstreamError>>;

    /// What was pushed is a whole answer ([`as_events`](crate::DialectRequest::as_events)): its end is the answer's, also
    /// where a stream would have to say so.
    ///
    /// # Errors
    /// When there was no answer in it.
    fn finish_whole(&mut self) -> Result<(), Box<UpstreamError>> {
        self.finish()
    }

    /// All that may go out now, as one piece: whole events, in order. `None` before the answer is committed and when
    /// there is nothing new.
    fn take(&mut self) -> Option<Bytes>;

    /// Whether the answer is irrevocable: content was read, or its end, or more was held than may be.
    fn committed(&self) -> bool;

    /// Whether content was read (SPEC FWD-3's table): the first token has come.
    fn has_content(&self) -> bool;

    /// Whether the answer has ended as it should: the rest of the upstream's body does not matter.
    fn done(&self) -> bool;

    /// Whether nothing of the answer is missing although its end mark is: what may still come is usage and that mark.
    fn complete(&self) -> bool;

    /// What the upstream reported, as far as it did.
    fn usage(&self) -> Option<&UsageReport>;

    /// The output read so far, as a tokenizer would count it: text, reasoning, refusals, tool names and arguments.
    /// Error bytes are never part of it (CASES A2).
    fn text(&self) -> &TextBuffer;

    /// Bytes held in memory for this stream.
    fn buffered(&self) -> usize;

    /// Where it stands, in dialects whose failure event must tell (Responses).
    fn progress(&self) -> Option<Progress> {
        None
    }

    /// [`Progress::next_sequence`] alone, for whoever knows the rest: nothing is copied.
    fn next_sequence(&self) -> Option<u64> {
        None
    }

    /// The id under which the upstream keeps the answer (Responses with `store`), once it is known.
    fn stored_id(&self) -> Option<&str> {
        None
    }

    /// How the response of which it tells ended, in the dialect that has responses.
    fn finished(&self) -> Option<Finished> {
        None
    }
}

/// One event of the upstream.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    /// Its name, if it has one.
    pub(crate) name: Option<&'a [u8]>,
    /// Its data.
    pub(crate) data: &'a str,
    /// Its bytes on the wire are what we would write.
    pub(crate) canonical: bool,
    /// It was ended by a blank line, not by the end of the body.
    pub(crate) terminated: bool,
    /// Where it lies in `block`.
    pub(crate) span: Range<usize>,
    /// Where its data begins in `block`, if that stands there as a whole.
    pub(crate) place: Option<usize>,
    /// What the current read brought.
    pub(crate) block: &'a Bytes,
}

/// What became of the stream so far.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What may go out.
    pub(crate) out: Outbox,
    /// What the upstream reported.
    pub(crate) usage: Option<UsageReport>,
    /// Events that are part of an answer.
    pub(crate) events: u64,
    /// Whether any of them had content.
    pub(crate) content: bool,
    /// The answer is irrevocable.
    pub(crate) committed: bool,
    /// The answer has ended as it should.
    pub(crate) done: bool,
}

impl State {
    /// Content was read: the answer is irrevocable.
    pub(crate) const fn content(&mut self) {
        self.content = true;
        self.committed = true;
    }

    /// Takes over what the upstream reported: counts are cumulative, thus the last one counts. One of nothing but zeros after
    /// one that told something tells nothing; one that leaves out input or output leaves them as they were told. Whether it
    /// was taken over.
    pub(crate) fn report(&mut self, report: UsageReport) -> bool {
        let told = self
            .usage
            .as_ref()
            .is_some_and(|told| !told.usage.is_zero());
        let counts = !told || !report.usage.is_zero();
        if counts {
            self.usage = Some(match self.usage.take() {
                Some(told) => report.after(told),
                None => report,
            });
        }
        counts
    }

    /// Passes an event on, as it came where that is canonical.
    pub(crate) fn pass(&mut self, event: &Event<'_>) {
        if event.canonical {
            self.out.pass(event.span.clone());
        } else {
            let out = self.out.writer();
            crate::sse::write_event(out, event.name, event.data);
        }
    }

    /// Writes an event under its name.
    pub(crate) fn write(&mut self, name: Option<&[u8]>, data: &str) {
        let out = self.out.writer();
        out.reserve(data.len() + 64);
        crate::sse::write_event(out, name, data);
    }
}

/// What the events of a dialect mean.
pub(crate) trait Grammar: Debug + Send + Sync {
    /// A new read begins: ranges of the last one mean nothing any more.
    fn start(&mut self) {}

    /// Takes events that need no reading, being of a known [`Shape`], from the one that begins at `at` of `block` on: the
    /// same becomes of them that [`event`](Self::event) makes of them. Gives where the first one that it left begins. None
    /// of them may be larger than `limit`, and content was read before.
    fn run(&mut self, _block: &Bytes, at: usize, _limit: usize, _state: &mut State) -> usize {
        at
    }

    /// Takes one event: passes it on, changes it, holds it back or drops it.
    fn event(&mut self, event: &Event<'_>, state: &mut State) -> Result<(), Box<UpstreamError>>;

    /// The body ended where the answer was complete but its end mark missing: writes what ends it.
    fn close(&mut self, state: &mut State);

    /// Whether nothing of the answer is missing but the end mark.
    fn complete(&self) -> bool;

    /// The output so far.
    fn text(&self) -> &TextBuffer;

    /// Bytes that it keeps.
    fn kept(&self) -> usize {
        self.text().kept()
    }

    /// See [`AnswerStream::progress`].
    fn progress(&self) -> Option<Progress> {
        None
    }

    /// See [`AnswerStream::next_sequence`].
    fn next_sequence(&self) -> Option<u64> {
        None
    }

    /// See [`AnswerStream::stored_id`].
    fn stored_id(&self) -> Option<&str> {
        None
    }

    /// See [`AnswerStream::finished`].
    fn finished(&self) -> Option<Finished> {
        None
    }
}

/// A stream of events of one dialect.
#[derive(Debug)]
pub(crate) struct Carrier<G> {
    decoder: Decoder,
    grammar: G,
    state: State,
    hold_bound: usize,
    rules: Rules,
}

impl<G: Grammar> Carrier<G> {
    /// A stream of which nothing has been read.
    pub(crate) fn new(grammar: G, options: StreamOptions) -> Self {
        Self {
            decoder: Decoder::new(options.max_event),
            grammar,
            state: State::default(),
            hold_bound: options.hold_bound,
            rules: options.rules,
        }
    }

    /// Reads a block.
    fn read(&mut self, bytes: Bytes) -> Result<(), Box<UpstreamError>> {
        if self.state.done {
            return Ok(());
        }
        self.grammar.start();
        self.decoder.push(bytes);
        self.drain()
    }

    /// Reads what the end of the body leaves over.
    fn rest(&mut self) -> Result<(), Box<UpstreamError>> {
        if self.state.done {
            return Ok(());
        }
        self.grammar.start();
        self.decoder.finish();
        self.drain()
    }

    /// Ends the answer as its dialect does.
    fn close(&mut self) -> Result<(), Box<UpstreamError>> {
        if self.state.events == 0 {
            let text = "the upstream's stream was empty";
            return Err(Box::new(UpstreamError::found(Class::Empty, text)));
        }
        self.grammar.close(&mut self.state);
        self.state.committed = true;
        self.state.done = true;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Box<UpstreamError>> {
        self.state.out.start(self.decoder.block());
        while !self.state.done {
            if self.state.content {
                let (block, at) = (self.decoder.block(), self.decoder.position());
                let limit = self.decoder.max_event();
                let next = self.grammar.run(block, at, limit, &mut self.state);
                self.decoder.advance(next);
            }
            let Some(frame) = self.decoder.next_frame()? else {
                break;
            };
            let event = self.decoder.event(&frame)?;
            if !self.state.content
                && let Some(failure) = self.rules.failure_in(event.data.as_bytes())
            {
                return Err(failure);
            }
            self.grammar.event(&event, &mut self.state)?;
        }
        self.state.committed |= self.state.out.len() > self.hold_bound;
        self.decoder.release();
        self.state.out.release();
        Ok(())
    }
}

impl Decoder {
    fn event<'a>(&'a self, frame: &Frame) -> Result<Event<'a>, Box<UpstreamError>> {
        Ok(Event {
            name: self.name(frame),
            data: self.data(frame)?,
            canonical: frame.canonical,
            terminated: frame.terminated,
            span: frame.span.clone(),
            place: self.place(frame),
            block: self.block(),
        })
    }
}

impl<G: Grammar> AnswerStream for Carrier<G> {
    fn push(&mut self, mut bytes: Bytes) -> Result<(), Box<UpstreamError>> {
        // What is held is weighed read by read.
        if self.state.committed
            && let Some(seam) = self.decoder.seam(&bytes)
        {
            self.read(bytes.split_to(seam))?;
        }
        self.read(bytes)
    }

    fn finish(&mut self) -> Result<(), Box<UpstreamError>> {
        self.rest()?;
        if self.state.done {
            return Ok(());
        }
        if self.grammar.complete() || self.state.events == 0 {
            return self.close();
        }
        let text = "the upstream's stream ended before the answer did";
        Err(Box::new(UpstreamError::found(Class::Cut, text)))
    }

    fn finish_whole(&mut self) -> Result<(), Box<UpstreamError>> {
        self.rest()?;
        if !self.state.done {
            self.close()?;
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Bytes> {
        if self.state.committed {
            self.state.out.take()
        } else {
            None
        }
    }

    fn committed(&self) -> bool {
        self.state.committed
    }

    fn has_content(&self) -> bool {
        self.state.content
    }

    fn done(&self) -> bool {
        self.state.done
    }

    fn complete(&self) -> bool {
        self.grammar.complete()
    }

    fn usage(&self) -> Option<&UsageReport> {
        self.state.usage.as_ref()
    }

    fn text(&self) -> &TextBuffer {
        self.grammar.text()
    }

    fn buffered(&self) -> usize {
        self.decoder.buffered() + self.state.out.len() + self.grammar.kept()
    }

    fn progress(&self) -> Option<Progress> {
        self.grammar.progress()
    }

    fn next_sequence(&self) -> Option<u64> {
        self.grammar.next_sequence()
    }

    fn stored_id(&self) -> Option<&str> {
        self.grammar.stored_id()
    }

    fn finished(&self) -> Option<Finished> {
        self.grammar.finished()
    }
}

/// An event that is no JSON object: half of one where the body ended in it.
pub(crate) fn no_object(event: &Event<'_>) -> Box<UpstreamError> {
    Box::new(if event.terminated {
        UpstreamError::found(
            Class::Malformed,
            "the upstream's stream has an event that is no JSON object",
        )
    } else {
        UpstreamError::found(Class::Cut, "the upstream's stream ended inside an event")
    })
}
