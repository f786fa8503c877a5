//! A streamed answer on its way from the upstream to the caller.

#[cfg(test)]
mod tests;

use bytes::BufMut as _;

use super::chunk::{ChunkReader, PublicName};
use crate::carry::{Carrier, Event, Grammar, State, StreamOptions, no_object};
use crate::error::UpstreamError;
use crate::json::Span;
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
        };
        Self::new(grammar, options)
    }
}

impl Grammar for Responses {
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
        if let Some(report) = chunk
            .usage
            .and_then(|value| UsageReport::from_gemini(data, value))
        {
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
        match (rename, &self.model) {
            (Some(span), Some(name)) => {
                out.put_slice(data.get(..span.start).unwrap_or("").as_bytes());
                out.put_slice(name.quoted.as_bytes());
                out.put_slice(data.get(span.end..).unwrap_or("").as_bytes());
            }
            _ => out.put_slice(data.as_bytes()),
        }
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
