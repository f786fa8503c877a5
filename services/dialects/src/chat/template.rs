//! The shape that most chunks of a stream share.
//!
//! Chunks of one stream differ from each other in their text and in OpenAI's padding, in nothing else. So the bytes
//! around those two strings are remembered from a chunk that was read in full; a chunk with the very same bytes around
//! them is known to be another piece of text and needs no reading, and what it becomes for the caller is known too.
//! Equal bytes have equal meaning: this is exact, not a guess.

use bytes::{BufMut, BytesMut};

use super::edits::Edits;
use crate::json::{Cursor, Span, Text};

/// The shape of the last chunk that was plain text.
#[derive(Debug, Default)]
pub(super) struct Template {
    known: bool,
    padded: bool,
    /// What stands before the text, between text and padding, and behind: quotes included.
    parts: [String; 3],
    /// The same, as the caller gets it.
    rewritten: [BytesMut; 3],
    unchanged: bool,
}

/// Where a chunk of the known shape has its strings.
pub(super) struct Found {
    pub text: Text,
    padding: Option<Text>,
}

impl Template {
    /// Remembers the shape of a chunk whose only content is `text`.
    pub(super) fn learn(&mut self, data: &str, text: Span, padding: Option<Span>, edits: &Edits) {
        let padding = padding.filter(|padding| padding.start > text.end);
        let second = padding.unwrap_or(Span::new(data.len(), data.len()));
        let ranges = [
            0..text.start,
            text.end..second.start,
            second.end..data.len(),
        ];
        for ((part, rewritten), range) in self.parts.iter_mut().zip(&mut self.rewritten).zip(ranges)
        {
            part.clear();
            part.push_str(data.get(range.clone()).unwrap_or(""));
            rewritten.clear();
            edits.put(rewritten, data, range);
        }
        self.padded = padding.is_some();
        self.unchanged = edits.is_empty();
        self.known = true;
    }

    /// Whether the caller gets chunks of this shape as they are.
    pub(super) const fn unchanged(&self) -> bool {
        self.unchanged
    }

    /// The strings of `data`, if it has the known shape and its text is not empty.
    pub(super) fn find(&self, data: &str) -> Option<Found> {
        let [head, middle, tail] = &self.parts;
        if !self.known || !data.as_bytes().starts_with(head.as_bytes()) {
            return None;
        }
        let text = Cursor::at_byte(data, head.len() - 1).string().ok()?;
        if text.is_empty() {
            return None;
        }
        let rest = data.as_bytes().get(text.span.end..)?;
        if !self.padded {
            let found = Found {
                text,
                padding: None,
            };
            return (rest == middle.as_bytes()).then_some(found);
        }
        if !rest.starts_with(middle.as_bytes()) {
            return None;
        }
        let quote = text.span.end + middle.len() - 1;
        let padding = Cursor::at_byte(data, quote).string().ok()?;
        (data.get(padding.span.end..)? == tail.as_str()).then_some(Found {
            text,
            padding: Some(padding),
        })
    }

    /// Writes a chunk of this shape as the caller gets it.
    pub(super) fn write(&self, out: &mut BytesMut, data: &str, found: &Found) {
        let [head, middle, tail] = &self.rewritten;
        out.reserve(data.len() + 64);
        out.put_slice(b"data: ");
        out.put_slice(head);
        out.put_slice(found.text.span.of(data).as_bytes());
        out.put_slice(middle);
        if let Some(padding) = &found.padding {
            out.put_slice(padding.span.of(data).as_bytes());
            out.put_slice(tail);
        }
        out.put_slice(b"\n\n");
    }
}
