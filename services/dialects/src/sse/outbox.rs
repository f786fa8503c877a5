//! What a stream has ready for its reader, in as few pieces as possible.

use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};

/// Room for output that is kept while nothing waits: enough for an event of text, little beside what a stream may take
/// (SPEC PERF-3).
const KEPT_ROOM: usize = 4 << 10;

/// Gathers output. Neighbouring ranges of one block that pass unchanged stay one slice of it and cost no copy; only
/// when something else stands between or before them are they copied together, so that [`Outbox::take`] always gives
/// one piece: one read, one write (SPEC FWD-2).
#[derive(Debug, Default)]
pub struct Outbox {
    block: Bytes,
    run: Range<usize>,
    built: BytesMut,
}

impl Outbox {
    /// From here on ranges refer to `block`.
    pub fn start(&mut self, block: &Bytes) {
        self.seal();
        self.block = block.clone();
    }

    /// Passes a range of the block on as it is.
    pub fn pass(&mut self, range: Range<usize>) {
        if self.run.end != range.start || self.run.is_empty() {
            self.seal();
            self.run.start = range.start;
        }
        self.run.end = range.end;
    }

    /// A place to write other output.
    pub fn writer(&mut self) -> &mut BytesMut {
        self.seal();
        &mut self.built
    }

    fn seal(&mut self) {
        if !self.run.is_empty() {
            let run = self.block.get(self.run.clone()).unwrap_or_default();
            self.built.extend_from_slice(run);
        }
        self.run = 0..0;
    }

    /// Bytes that wait to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.built.len() + self.run.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets go of a block of which nothing waits; ranges mean nothing until the next one.
    pub fn release(&mut self) {
        if self.run.is_empty() {
            self.block = Bytes::new();
        }
    }

    /// All that waits, as one piece; `None` when nothing does. The block is let go, as is room for more
    /// than a few events: a stream that waits for its upstream keeps neither.
    pub fn take(&mut self) -> Option<Bytes> {
        if self.is_empty() {
            return None;
        }
        if self.built.is_empty() {
            let run = std::mem::replace(&mut self.run, 0..0);
            let mut piece = std::mem::take(&mut self.block);
            piece.truncate(run.end);
            piece.advance(run.start);
            return Some(piece);
        }
        self.seal();
        self.release();
        if self.built.capacity() <= KEPT_ROOM {
            return Some(self.built.split().freeze());
        }
        Some(std::mem::take(&mut self.built).freeze())
    }
}
