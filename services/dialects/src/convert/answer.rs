//! An answer on its way from the upstream's dialect to the caller's.

use bytes::{Bytes, BytesMut};

use super::part::{Part, Reader, Writer};
use crate::carry::{AnswerStream, Progress};
use crate::error::{Class, UpstreamError};
use crate::sse::Decoder;
use crate::text::TextBuffer;
use crate::usage::{Usage, UsageReport};

/// Carries a streamed answer. The upstream's own stream judges it and gives out its events; these are read and said again.
#[derive(Debug)]
pub(super) struct TranslatedStream {
    upstream: Box<dyn AnswerStream>,
    saying: Saying,
    out: BytesMut,
    ended: bool,
    /// Something of it was given out.
    given: bool,
}

/// Reads events and says them again.
#[derive(Debug)]
struct Saying {
    decoder: Decoder,
    reader: Box<dyn Reader>,
    writer: Box<dyn Writer>,
}

impl Saying {
    fn events(&mut self, events: Bytes, out: &mut BytesMut) -> Result<(), Box<UpstreamError>> {
        self.decoder.push(events);
        self.drain(out)
    }

    fn drain(&mut self, out: &mut BytesMut) -> Result<(), Box<UpstreamError>> {
        let writer = &mut self.writer;
        while let Some(frame) = self.decoder.next_frame()? {
            let data = self.decoder.data(&frame)?;
            let name = self.decoder.name(&frame);
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let mut nameless = false;
            let mut put = |choice: u32, part: Part<'_>| {
                nameless |= is_nameless(&part);
                writer.part(choice, part, out);
            };
            self.reader.event(name, data, &mut put)?;
            let nameless = nameless.then_some("the upstream calls a tool without naming it");
            if let Some(text) = nameless.or_else(|| writer.failure(false)) {
                return Err(Box::new(UpstreamError::found(Class::Malformed, text)));
            }
        }
        Ok(())
    }

    fn end(&mut self, usage: Option<Usage>, out: &mut BytesMut) -> Result<(), Box<UpstreamError>> {
        self.decoder.finish();
        self.drain(out)?;
        let writer = &mut self.writer;
        self.reader
            .end(&mut |choice: u32, part: Part<'_>| writer.part(choice, part, out));
        if let Some(text) = writer.failure(true) {
            return Err(Box::new(UpstreamError::found(Class::Malformed, text)));
        }
        if let Some(usage) = usage {
            self.writer.part(0, Part::Usage(usage.sound()), out);
        }
        self.writer.end(out);
        Ok(())
    }
}

/// A call that nobody can answer.
const fn is_nameless(part: &Part<'_>) -> bool {
    matches!(part, Part::Call { name, .. } if name.is_empty())
}

/// Says a whole answer, given as the events that would have been streamed, as one document.
pub(super) fn whole(
    events: Bytes,
    usage: Option<Usage>,
    reader: Box<dyn Reader>,
    writer: Box<dyn Writer>,
) -> Result<Bytes, Box<UpstreamError>> {
    let mut saying = Saying {
        decoder: Decoder::new(events.len() + 1),
        reader,
        writer,
    };
    let mut out = BytesMut::new();
    saying.events(events, &mut out)?;
    saying.end(usage, &mut out)?;
    Ok(out.freeze())
}

/// What an answer is that has no end.
pub(super) fn unmade() -> Box<UpstreamError> {
    let text = "the upstream's answer is not one that was made to its end";
    Box::new(UpstreamError::found(Class::Cut, text))
}

impl TranslatedStream {
    pub(super) fn new(
        upstream: Box<dyn AnswerStream>,
        max_event: usize,
        reader: Box<dyn Reader>,
        writer: Box<dyn Writer>,
    ) -> Self {
        Self {
            upstream,
            saying: Saying {
                decoder: Decoder::new(max_event),
                reader,
                writer,
            },
            out: BytesMut::new(),
            ended: false,
            given: false,
        }
    }

    /// Whether the caller has something of the answer, or will.
    fn said(&self) -> bool {
        self.given || !self.out.is_empty()
    }

    /// Says what the upstream's stream gives out by now. What fails before the caller has anything of it was not said at all,
    /// whatever the upstream sent: another one may do better (FWD-3, FWD-4).
    fn turn(&mut self) -> Result<(), Box<UpstreamError>> {
        let said = self.say();
        if said.is_err() && !self.given {
            self.out.clear();
        }
        said
    }

    fn say(&mut self) -> Result<(), Box<UpstreamError>> {
        while let Some(events) = self.upstream.take() {
            self.saying.events(events, &mut self.out)?;
        }
        if self.upstream.done() && !self.ended {
            self.ended = true;
            let usage = self.upstream.usage().map(|report| report.usage);
            self.saying.end(usage, &mut self.out)?;
        }
        Ok(())
    }
}

impl AnswerStream for TranslatedStream {
    fn push(&mut self, bytes: Bytes) -> Result<(), Box<UpstreamError>> {
        let read = self.upstream.push(bytes);
        let said = self.turn();
        read.and(said)
    }

    fn finish(&mut self) -> Result<(), Box<UpstreamError>> {
        let read = self.upstream.finish();
        let said = self.turn();
        read.and(said)
    }

    fn finish_whole(&mut self) -> Result<(), Box<UpstreamError>> {
        let read = self.upstream.finish_whole();
        let said = self.turn();
        read.and(said)
    }

    fn take(&mut self) -> Option<Bytes> {
        self.given |= !self.out.is_empty();
        (!self.out.is_empty()).then(|| self.out.split().freeze())
    }

    fn committed(&self) -> bool {
        self.upstream.committed() && self.said()
    }

    fn has_content(&self) -> bool {
        self.upstream.has_content() && self.said()
    }

    fn done(&self) -> bool {
        self.ended
    }

    fn complete(&self) -> bool {
        self.upstream.complete()
    }

    fn usage(&self) -> Option<&UsageReport> {
        self.upstream.usage()
    }

    fn text(&self) -> &TextBuffer {
        self.upstream.text()
    }

    fn buffered(&self) -> usize {
        self.upstream.buffered()
            + self.saying.decoder.buffered()
            + self.saying.writer.kept()
            + self.out.len()
    }

    fn progress(&self) -> Option<Progress> {
        self.saying.writer.progress()
    }
}
