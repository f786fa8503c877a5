//! What must change in a chunk on its way to the caller, and writing it so.

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use super::chunk::{Chunk, ChunkReader, Name};
use super::patch::quote;
use crate::json::{Kind, Span, Value};

/// The public name of a model.
#[derive(Debug)]
pub(crate) struct PublicName {
    plain: String,
    /// As a JSON string.
    pub(crate) quoted: String,
}

impl PublicName {
    pub(crate) fn new(plain: String) -> Self {
        let quoted = quote(&plain);
        Self { plain, quoted }
    }

    /// As it is.
    pub(crate) fn plain(&self) -> &str {
        &self.plain
    }

    /// Whether `value` is a string other than this name.
    pub(crate) fn differs(&self, value: Value, data: &str) -> bool {
        value.text().is_some_and(|text| {
            value.span.of(data) != self.quoted && text.decode(data) != self.plain
        })
    }
}

/// What a chunk needs in the place of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    Nothing,
    Null,
    NullUsage,
    Model,
}

/// The changes of one chunk, in order of their place. Kept and reused, so that they cost no allocation.
#[derive(Debug)]
pub(super) struct Edits {
    list: Vec<(Span, Put)>,
    pub include_usage: bool,
    pub model: Option<PublicName>,
}

impl Edits {
    pub(super) const fn new(include_usage: bool, model: Option<PublicName>) -> Self {
        Self {
            list: Vec::new(),
            include_usage,
            model,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Finds the changes of the chunk that was read last.
    pub(super) fn find(&mut self, chunk: &Chunk, reader: &ChunkReader, data: &str) {
        self.list.clear();
        for member in &reader.members {
            match (member.name, &self.model) {
                (Name::Usage, _) if !self.include_usage => {
                    self.list.push((member.removal, Put::Nothing));
                }
                (Name::Usage, _) if member.value.kind != Kind::Null => {
                    self.list.push((member.value.span, Put::Null));
                }
                (Name::Model, Some(name)) if name.differs(member.value, data) => {
                    self.list.push((member.value.span, Put::Model));
                }
                _ => {}
            }
        }
        if self.include_usage && chunk.usage.is_none() {
            self.list
                .push((Span::new(chunk.end, chunk.end), Put::NullUsage));
        }
    }

    /// Writes part of a chunk with the changes that lie in it.
    pub(super) fn put(&self, out: &mut BytesMut, data: &str, range: Range<usize>) {
        let mut at = range.start;
        let within = |span: &Span| span.start >= range.start && span.end <= range.end;
        for (span, put) in self.list.iter().filter(|(span, _)| within(span)) {
            put_line(out, data, at..span.start);
            out.put_slice(match put {
                Put::Nothing => b"",
                Put::Null => b"null",
                Put::NullUsage => br#","usage":null"#,
                Put::Model => self.model.as_ref().map_or("", |m| &m.quoted).as_bytes(),
            });
            at = span.end;
        }
        put_line(out, data, at..range.end);
    }
}

/// Writes part of a JSON text on one line: line ends can only be white space there (they cannot stand in strings).
pub(super) fn put_line(out: &mut BytesMut, data: &str, range: Range<usize>) {
    let start = out.len();
    out.put_slice(data.get(range).unwrap_or("").as_bytes());
    if let Some(written) = out.get_mut(start..)
        && memchr::memchr(b'\n', written).is_some()
    {
        for byte in written {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
    }
}
