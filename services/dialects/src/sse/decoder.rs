//! The incremental reader of event streams.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::{memchr2, memchr2_iter};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Bytes of a read that are not worth to be kept from being copied.
const SMALL: usize = 1 << 10;

/// Why a stream of events cannot be read on. All are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event bigger than the bound.
    #[error("an event is larger than {limit} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
    /// An event that is not UTF-8.
    #[error("an event is not valid UTF-8")]
    Utf8,
}

/// Where an event lies in the decoder's current block. Valid until the next call that moves the decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// All of its bytes, comments before it excluded, the blank line included.
    pub span: Range<usize>,
    /// Its bytes are exactly what [`write_event`](super::write_event) would write.
    pub canonical: bool,
    /// A blank line ended it; `false` for what the stream's end left over.
    pub terminated: bool,
    name: Option<Range<usize>>,
    data: Data,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Data {
    Block(Range<usize>),
    Joined,
}

/// An event with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event` field, if there was one.
    pub name: Option<Bytes>,
    /// The data, valid UTF-8: a slice of what was pushed unless several `data` lines had to be joined.
    pub data: Bytes,
    /// The event as it stood on the wire, when that was already the canonical form.
    pub canonical: Option<Bytes>,
    /// A blank line ended it; `false` for what the stream's end left over.
    pub terminated: bool,
}

/// Reads events from pushed bytes. See the module's documentation.
#[derive(Debug)]
pub struct Decoder {
    /// What is being read; whole events only, but for what lies behind the last one.
    block: Bytes,
    at: usize,
    /// The beginning of an event whose end has not arrived.
    carry: BytesMut,
    /// The data of the last event, if it came in several lines.
    joined: BytesMut,
    /// The BOM has been looked for.
    started: bool,
    /// The last line end was a CR at the very end of what was read: an LF that follows belongs to it.
    skip_lf: bool,
    ended: bool,
    max_event: usize,
}

enum Step {
    /// Nothing that matters up to here.
    Skip(usize),
    Found(Frame, usize),
    Incomplete,
}

impl Decoder {
    /// Accepts events of at most `max_event` bytes.
    #[must_use]
    pub fn new(max_event: usize) -> Self {
        Self {
            block: Bytes::new(),
            at: 0,
            carry: BytesMut::new(),
            joined: BytesMut::new(),
            started: false,
            skip_lf: false,
            ended: false,
            max_event,
        }
    }

    /// Takes the bytes of one read. Events of earlier reads should have been taken out before.
    pub fn push(&mut self, chunk: Bytes) {
        if self.at < self.block.len() {
            let rest = self.block.split_off(self.at);
            self.carry.extend_from_slice(&rest);
            self.carry.extend_from_slice(&chunk);
            self.block = self.carry.split().freeze();
        } else if self.carry.is_empty() {
            self.block = chunk;
        } else {
            let seam = self.carry.len() - 1;
            self.carry.extend_from_slice(&chunk);
            let fresh = self.carry.get(seam..).unwrap_or_default();
            let comment = self.carry.first() == Some(&b':');
            let whole = !self.started // half a BOM, which is no part of an event
                || ends_event(fresh)
                || (comment && memchr2(b'\n', b'\r', fresh).is_some());
            self.block = if whole {
                self.carry.split().freeze()
            } else {
                Bytes::new()
            };
        }
        self.at = 0;
    }

    /// The stream has ended: what is left over becomes the last event.
    pub fn finish(&mut self) {
        self.ended = true;
        if self.at < self.block.len() {
            return;
        }
        self.block = self.carry.split().freeze();
        self.at = 0;
    }

    /// The bytes that the frames' spans point into.
    #[must_use]
    pub const fn block(&self) -> &Bytes {
        &self.block
    }

    /// How much of `chunk` belongs to an event of which the beginning is kept, if it ends there and much follows: pushed by
    /// itself it is all that has to be copied, and not the whole chunk.
    pub(crate) fn seam(&self, chunk: &[u8]) -> Option<usize> {
        let mut before = (0, *self.carry.last()?);
        if chunk.len() < SMALL || self.at < self.block.len() {
            return None;
        }
        for at in memchr2_iter(b'\n', b'\r', chunk) {
            let byte = *chunk.get(at)?;
            let adjoins = at == before.0;
            if adjoins && matches!((before.1, byte), (b'\n', b'\n' | b'\r') | (b'\r', b'\r')) {
                let lf = byte == b'\r' && chunk.get(at + 1) == Some(&b'\n');
                return Some(at + 1 + usize::from(lf));
            }
            before = (at + 1, byte);
        }
        None
    }

    /// Where the next event begins in the block, if one does.
    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    /// Goes on behind whole events that were read by other means.
    pub(crate) fn advance(&mut self, to: usize) {
        if to > self.at {
            // They did not begin with the LF that might have come.
            self.skip_lf = false;
            self.at = to;
        }
    }

    /// The largest event that is accepted, in bytes.
    pub(crate) const fn max_event(&self) -> usize {
        self.max_event
    }

    /// Lets go of a block that was read to its end.
    pub(crate) fn release(&mut self) {
        if self.at >= self.block.len() {
            self.block = Bytes::new();
            self.at = 0;
        }
    }

    /// Where the data of `frame` lies in the block, if it does as a whole.
    pub(crate) const fn place(&self, frame: &Frame) -> Option<usize> {
        match &frame.data {
            Data::Block(range) => Some(range.start),
            Data::Joined => None,
        }
    }

    /// Bytes kept of an event that has not ended yet.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.carry.len()
    }

    /// The next event, as ranges of [`block`](Self::block); `None` when more bytes are needed.
    ///
    /// # Errors
    /// When an event is larger than the bound.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, SseError> {
        loop {
            if self.at >= self.block.len() {
                return if self.carry.len() > self.max_event {
                    Err(SseError::TooLarge {
                        limit: self.max_event,
                    })
                } else {
                    Ok(None)
                };
            }
            if self.skip_lf {
                self.skip_lf = false;
                if self.block.get(self.at) == Some(&b'\n') {
                    self.at += 1;
                    continue;
                }
            }
            let step = self.step();
            if let Step::Skip(next) | Step::Found(_, next) = step
                && self.size(next) > self.max_event
            {
                return Err(SseError::TooLarge {
                    limit: self.max_event,
                });
            }
            match step {
                Step::Skip(next) => self.at = next,
                Step::Found(frame, next) => {
                    self.at = next;
                    return Ok(Some(frame));
                }
                Step::Incomplete => {
                    self.carry
                        .extend_from_slice(self.block.get(self.at..).unwrap_or_default());
                    self.at = self.block.len();
                }
            }
        }
    }

    /// The data of `frame`, which must be the last one that was given out.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn data(&self, frame: &Frame) -> Result<&str, SseError> {
        let bytes = match &frame.data {
            Data::Block(range) => self.block.get(range.clone()).unwrap_or_default(),
            Data::Joined => &self.joined,
        };
        std::str::from_utf8(bytes).map_err(|_| SseError::Utf8)
    }

    /// The `event` field of `frame`.
    #[must_use]
    pub fn name(&self, frame: &Frame) -> Option<&[u8]> {
        self.block.get(frame.name.clone()?)
    }

    /// The next event with its bytes; `None` when more bytes are needed.
    ///
    /// # Errors
    /// When an event is larger than the bound or not UTF-8.
    pub fn next_event(&mut self) -> Result<Option<Event>, SseError> {
        let Some(frame) = self.next_frame()? else {
            return Ok(None);
        };
        self.data(&frame)?;
        let data = match &frame.data {
            Data::Block(range) => self.block.slice(range.clone()),
            Data::Joined => self.joined.split().freeze(),
        };
        Ok(Some(Event {
            name: frame.name.map(|range| self.block.slice(range)),
            data,
            canonical: frame.canonical.then(|| self.block.slice(frame.span)),
            terminated: frame.terminated,
        }))
    }

    /// The size of what ends at `next`, which must not depend on whether the LF of its last CRLF has come.
    fn size(&self, next: usize) -> usize {
        let read = self.block.get(self.at..next).unwrap_or_default();
        read.len() - usize::from(read.ends_with(b"\r\n"))
    }

    fn step(&mut self) -> Step {
        let start = self.at;
        let rest = self.block.get(start..).unwrap_or_default();
        if !self.started {
            if rest.starts_with(BOM) {
                self.started = true;
                return Step::Skip(start + BOM.len());
            }
            if BOM.starts_with(rest) && !self.ended {
                return Step::Incomplete;
            }
            self.started = true;
        }
        // what nearly every event of every provider looks like
        if let Some(value) = rest.strip_prefix(b"data: ")
            && let Some(len) = memchr2(b'\n', b'\r', value)
            && len > 0
            && value.get(len..len + 2) == Some(b"\n\n")
        {
            let end = start + 6 + len;
            let frame = Frame {
                span: start..end + 2,
                canonical: true,
                terminated: true,
                name: None,
                data: Data::Block(start + 6..end),
            };
            return Step::Found(frame, end + 2);
        }
        self.read_lines(start)
    }

    /// Any event, line by line.
    fn read_lines(&mut self, start: usize) -> Step {
        let mut lines = Lines::default();
        let mut at = start;
        loop {
            let rest = self.block.get(at..).unwrap_or_default();
            let (len, next, lf) = match memchr2(b'\n', b'\r', rest) {
                None if !self.ended => return Step::Incomplete,
                None => (rest.len(), self.block.len(), false),
                Some(len) if rest.get(len) == Some(&b'\n') => (len, at + len + 1, true),
                Some(len) if rest.get(len + 1) == Some(&b'\n') => (len, at + len + 2, false),
                Some(len) => (len, at + len + 1, false),
            };
            let open_cr = next == self.block.len() && self.block.ends_with(b"\r");
            let line = at..at + len;
            let terminated = at < self.block.len();
            if len == 0 {
                self.skip_lf = open_cr && !self.ended;
                return self.dispatch(lines, start..next, lf, terminated);
            }
            if rest.first() == Some(&b':') && at == start {
                // a comment before an event is done with at once: endless ones must not pile up
                self.skip_lf = open_cr && !self.ended;
                return Step::Skip(next);
            }
            lines.add(&self.block, line, lf, &mut self.joined);
            at = next;
        }
    }

    fn dispatch(&self, lines: Lines, span: Range<usize>, lf: bool, terminated: bool) -> Step {
        let next = span.end;
        let Some(data) = lines.data else {
            return Step::Skip(next);
        };
        let empty = match &data {
            Data::Block(range) => range.is_empty(),
            Data::Joined => self.joined.is_empty(),
        };
        if empty {
            return Step::Skip(next);
        }
        let frame = Frame {
            span,
            canonical: lf && terminated && !lines.odd && matches!(data, Data::Block(_)),
            terminated,
            name: lines.name,
            data,
        };
        Step::Found(frame, next)
    }
}

/// The fields of one event while its lines are read.
#[derive(Default)]
struct Lines {
    data: Option<Data>,
    name: Option<Range<usize>>,
    /// Something about it is not as we would write it.
    odd: bool,
}

impl Lines {
    fn add(&mut self, block: &[u8], line: Range<usize>, lf: bool, joined: &mut BytesMut) {
        let text = block.get(line.clone()).unwrap_or_default();
        let colon = memchr::memchr(b':', text).unwrap_or(text.len());
        let spaced = text.get(colon + 1) == Some(&b' ');
        let skip = colon + 1 + usize::from(spaced);
        let value = (line.start + skip).min(line.end)..line.end;
        self.odd |= !lf || !spaced;
        match text.get(..colon) {
            Some(b"data") => match self.data.take() {
                None => self.data = Some(Data::Block(value)),
                Some(Data::Block(before)) => {
                    joined.clear();
                    joined.extend_from_slice(block.get(before).unwrap_or_default());
                    self.join(block, value, joined);
                }
                Some(Data::Joined) => self.join(block, value, joined),
            },
            Some(b"event") => {
                let name = block.get(value.clone()).unwrap_or_default();
                let valid = !name.is_empty() && std::str::from_utf8(name).is_ok();
                self.odd |= self.data.is_some() || self.name.is_some() || !valid;
                self.name = valid.then_some(value);
            }
            _ => self.odd = true,
        }
    }

    fn join(&mut self, block: &[u8], value: Range<usize>, joined: &mut BytesMut) {
        joined.extend_from_slice(b"\n");
        joined.extend_from_slice(block.get(value).unwrap_or_default());
        self.data = Some(Data::Joined);
    }
}

/// Whether a blank line lies in `bytes`: a line end directly after a line end.
fn ends_event(bytes: &[u8]) -> bool {
    memchr2_iter(b'\n', b'\r', bytes).any(|at| {
        matches!(
            (bytes.get(at), bytes.get(at + 1)),
            (Some(b'\n'), Some(b'\n' | b'\r')) | (Some(b'\r'), Some(b'\r'))
        )
    })
}
