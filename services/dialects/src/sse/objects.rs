//! Streams that are no event streams: bare JSON objects, one a line (NDJSON), one after the other, or as an array.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Codec, SseError, write_event};
use crate::error::UpstreamError;
use crate::json::Nesting;

/// How an upstream's success answer is to be read, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// An event stream.
    #[default]
    Events,
    /// Bare objects.
    Objects,
    /// One JSON document: a whole answer, or an error.
    Whole,
}

impl Framing {
    /// By content type; anything unknown, and none at all, is taken for an event stream.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let essence = content_type
            .and_then(|value| value.split(';').next())
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        match essence.as_str() {
            "application/json" | "text/json" => Self::Whole,
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/stream+json"
            | "application/json-seq" => Self::Objects,
            other if other.ends_with("+json") => Self::Whole,
            _ => Self::Events,
        }
    }
}

/// Turns bare objects into events, split anywhere. Between objects white space, commas, brackets and record separators
/// are skipped; OpenAI's end mark stays one; anything else is handed on as an event of its own, which its reader will refuse.
#[derive(Debug)]
pub struct ObjectSplitter {
    /// How much of the end mark was read.
    marked: usize,
    pending: BytesMut,
    nesting: Nesting,
    max_event: usize,
}

impl ObjectSplitter {
    /// Accepts objects of at most `max_event` bytes.
    #[must_use]
    pub fn new(max_event: usize) -> Self {
        Self {
            marked: 0,
            pending: BytesMut::new(),
            nesting: Nesting::default(),
            max_event,
        }
    }
}

/// What ends a stream of OpenAI's dialect.
const MARK: &[u8] = b"[DONE]";

impl ObjectSplitter {
    /// Whether a byte between objects belongs to the end mark, which is written when it is whole.
    fn mark(&mut self, byte: u8, out: &mut BytesMut) -> bool {
        if MARK.get(self.marked) == Some(&byte) {
            self.marked += 1;
            if self.marked == MARK.len() {
                write_event(out, None, "[DONE]");
                self.marked = 0;
            }
            return true;
        }
        self.no_mark(out);
        if byte == b'[' {
            self.marked = 1;
        }
        self.marked > 0
    }

    /// What was read was no end mark. A bracket alone is nothing.
    fn no_mark(&mut self, out: &mut BytesMut) {
        if self.marked > 1 {
            let read = MARK.get(1..self.marked).unwrap_or_default();
            write_event(out, None, std::str::from_utf8(read).unwrap_or_default());
        }
        self.marked = 0;
    }
}

impl Codec for ObjectSplitter {
    fn push(&mut self, bytes: &[u8], out: &mut BytesMut) -> Result<(), Box<UpstreamError>> {
        out.reserve(bytes.len() + 16);
        for &byte in bytes {
            let outside = self.nesting.depth() == 0;
            if outside && self.mark(byte, out) {
                continue;
            }
            if outside
                && matches!(
                    byte,
                    b' ' | b'\t' | b'\r' | b'\n' | b',' | b'[' | b']' | 0x1e
                )
            {
                continue;
            }
            // line ends are white space between tokens; inside a string the reader must see that they are wrong
            let line_end = matches!(byte, b'\r' | b'\n');
            self.pending
                .put_u8(match (line_end, self.nesting.in_string()) {
                    (true, false) => b' ',
                    (true, true) => 0x01,
                    (false, _) => byte,
                });
            if self.pending.len() > self.max_event {
                let limit = self.max_event;
                return Err(SseError::TooLarge { limit }.into());
            }
            self.nesting.step(byte);
            if self.nesting.depth() == 0 {
                out.put_slice(b"data: ");
                out.put_slice(&self.pending);
                out.put_slice(b"\n\n");
                self.pending.clear();
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Bytes {
        let mut half = BytesMut::new();
        self.no_mark(&mut half);
        if !half.is_empty() {
            return half.freeze();
        }
        if self.pending.is_empty() {
            return Bytes::new();
        }
        let mut out = BytesMut::from(&b"data: "[..]);
        out.put_slice(&self.pending.split());
        out.freeze()
    }
}
