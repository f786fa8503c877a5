//! A streamed answer on its way from the upstream to the caller.

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::chunk::{Chunk, ChunkReader, PublicName, counts};
use crate::carry::{Carrier, Event, Form, Grammar, Shape, Slot, State, StreamOptions, no_object};
use crate::error::UpstreamError;
use crate::json::{Kind, Span, Value};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// Carries one streamed answer, as events or as the elements of an array.
///
/// An array comes out whole (`[`, elements, `]`) when the answer is; whoever ends a broken one in this one's place adds the
/// error as its last element.
pub(super) type GeminiStream = Carrier<Responses>;

/// The events of a stream: each a whole object with the new parts only (PROTOCOLS §8). There is no end mark; the answer is
/// whole when every candidate has its finish reason, or the prompt was blocked.
#[derive(Debug)]
pub(super) struct Responses {
    reader: ChunkReader,
    model: Option<PublicName>,
    candidates: u64,
    array: bool,
    /// Elements of the array that were written.
    elements: u64,
    /// The pieces of the text that comes.
    shape: Shape,
    /// Where the usage of such a piece lies: what it has before its first count and behind its last one.
    around: Option<(usize, usize)>,
}

impl GeminiStream {
    /// A stream of which nothing has been read.
    pub(super) fn open(candidates: u64, array: bool, options: StreamOptions) -> Self {
        let grammar = Responses {
            reader: ChunkReader::new(options.text_bound),
            model: options.public_model.as_deref().map(PublicName::new),
            candidates,
            array,
            elements: 0,
            shape: Shape::default(),
            around: None,
        };
        Self::new(grammar, options)
    }
}

impl Grammar for Responses {
    fn run(&mut self, block: &Bytes, at: usize, limit: usize, state: &mut State) -> usize {
        let text = &mut self.reader.text;
        let run = self.shape.run(block, at, limit, text, &mut state.out);
        if run.events > 0 {
            state.events += run.events;
            self.elements += run.events;
            self.report(block, state);
        }
        run.end
    }

    fn event(&mut self, event: &Event<'_>, state: &mut State) -> Result<(), Box<UpstreamError>> {
        let data = event.data;
        // Compatible upstreams end with OpenAI's mark; the finish reasons say whether it is the end.
        if data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let Ok(chunk) = self.reader.read(data) else {
            return Err(no_object(event));
        };
        if let Some(error) = chunk
            .error
            .and_then(|error| UpstreamError::from_embedded(data, error))
        {
            return Err(Box::new(error));
        }
        if !chunk.known
            && let Some(said) = UpstreamError::from_stray(data)
        {
            return Err(Box::new(said));
        }
        let report = chunk
            .usage
            .and_then(|value| UsageReport::from_gemini(data, value));
        let whole = report.as_ref().is_some_and(is_whole);
        if let Some(report) = report {
            state.report(report);
        }
        state.events += u64::from(chunk.known);
        state.content |= chunk.content;
        state.committed |= chunk.content || chunk.finished || chunk.blocked;
        let rename = self
            .model
            .as_ref()
            .and_then(|name| name.differs(chunk.model, data));
        self.put(event, rename, state);
        if chunk.usage.is_none() || whole {
            self.learn(&chunk, event, rename);
        }
        Ok(())
    }

    fn close(&mut self, state: &mut State) {
        if self.array {
            let end: &[u8] = if self.elements == 0 { b"[]" } else { b"\n]" };
            state.out.writer().put_slice(end);
        }
    }

    fn complete(&self) -> bool {
        self.reader.complete(self.candidates)
    }

    fn text(&self) -> &TextBuffer {
        &self.reader.text
    }
}

impl Responses {
    /// Takes over the usage of the last piece that needed no reading. Those of the pieces before it are whole as it is
    /// (their counts are told alike, none is zero): it stands in the place of them all.
    fn report(&self, block: &[u8], state: &mut State) {
        let mut counts = self.shape.counts();
        let (Some((before, behind)), Some(first)) = (self.around, counts.next()) else {
            return;
        };
        let last = counts.next_back().unwrap_or(first);
        let usage = block.get(first.start - before..last.end + behind);
        let usage = usage.and_then(|usage| std::str::from_utf8(usage).ok());
        let usage = usage.unwrap_or_default();
        let all = Value {
            span: Span::new(0, usage.len()),
            kind: Kind::Object,
            escaped: false,
        };
        if let Some(report) = UsageReport::from_gemini(usage, all) {
            state.report(report);
        }
    }

    /// Remembers the shape of a piece that is one text.
    fn learn(&mut self, chunk: &Chunk, event: &Event<'_>, rename: Option<Span>) {
        let data = event.data;
        let text = chunk.text.filter(|_| chunk.texts == 1);
        let Some(text) = text.filter(|_| !chunk.finished && !chunk.blocked) else {
            return;
        };
        let counted = chunk
            .usage
            .map_or_else(Vec::new, |usage| counts(data, usage));
        let around = match (chunk.usage, counted.first(), counted.last()) {
            (Some(usage), Some(first), Some(last)) => {
                let behind = usage.span.end - last.end;
                Some((first.start - usage.span.start, behind))
            }
            (Some(_), ..) => return,
            (None, ..) => None,
        };
        let (before, after): (&[u8], &[u8]) = if self.array {
            (b",\n", b"")
        } else {
            (b"data: ", b"\n\n")
        };
        let renamed = rename.zip(self.model.as_ref());
        let form = Form {
            before,
            put: &|out, range| put_renamed(out, data, range, renamed),
            after,
        };
        let same = !self.array && rename.is_none() && event.name.is_none();
        let counts = counted.into_iter().map(|count| (Slot::Count, count));
        let slots = counts.chain([(Slot::Text, text)]);
        self.around = around;
        self.shape.learn(event, slots, (!same).then_some(&form));
    }

    /// Passes an event on, in the caller's form; `rename`: where the public name has to stand.
    fn put(&mut self, event: &Event<'_>, rename: Option<Span>, state: &mut State) {
        let data = event.data;
        if !self.array && rename.is_none() && event.canonical && event.name.is_none() {
            state.pass(event);
            return;
        }
        let out = state.out.writer();
        out.reserve(data.len() + 64);
        let (before, after): (&[u8], &[u8]) = match (self.array, self.elements) {
            (false, _) => (b"data: ", b"\n\n"),
            (true, 0) => (b"[", b""),
            (true, _) => (b",\n", b""),
        };
        self.elements += 1;
        out.put_slice(before);
        let start = out.len();
        put_renamed(out, data, 0..data.len(), rename.zip(self.model.as_ref()));
        // On one line: this dialect's client reads no other. Line ends can only be white space there.
        if let Some(written) = out.get_mut(start..)
            && memchr::memchr2(b'\n', b'\r', written).is_some()
        {
            for byte in written {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        out.put_slice(after);
    }
}

/// Whether it replaces what was told before it, whatever that was.
fn is_whole(report: &UsageReport) -> bool {
    let usage = &report.usage;
    usage.total_input().is_some_and(|input| input > 0) && usage.output.is_some()
}

/// Writes a part of a piece; `renamed`: where in it the public name has to stand.
fn put_renamed(
    out: &mut BytesMut,
    data: &str,
    range: Range<usize>,
    renamed: Option<(Span, &PublicName)>,
) {
    let mut at = range.start;
    if let Some((span, name)) = renamed
        && range.start <= span.start
        && span.end <= range.end
    {
        out.put_slice(data.get(at..span.start).unwrap_or("").as_bytes());
        out.put_slice(name.quoted.as_bytes());
        at = span.end;
    }
    out.put_slice(data.get(at..range.end).unwrap_or("").as_bytes());
}
