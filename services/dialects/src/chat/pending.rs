//! The usage chunk that a caller asked for, kept back until the stream's end.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::chunk::Chunk;
use super::edits::{PublicName, put_line};
use crate::carry::Event;
use crate::json::{Kind, Value, member};
use crate::usage::UsageReport;

/// A usage chunk that waits for the end of the stream.
#[derive(Debug)]
pub(super) struct Pending {
    pub event: Bytes,
    /// Where it lies in the current block, if it can pass as it is.
    pub range: Option<Range<usize>>,
}

impl Pending {
    /// The one usage chunk that the caller gets: this chunk, with no choices.
    pub(super) fn of(chunk: &Chunk, event: &Event<'_>, model: Option<&PublicName>) -> Self {
        let data = event.data;
        let empty = chunk.choices.is_some_and(|c| c.kind == Kind::Array) && chunk.choice_count == 0;
        let renamed = model.and_then(|name| {
            let value = member(data, "model")?;
            name.differs(value, data)
                .then_some((value.span, &*name.quoted))
        });
        let raw = |usage: Value| usage.span.of(data);
        // Told in a choice: there are none in the chunk that the caller gets.
        let of_chunk = |usage| UsageReport::from_openai(data, usage).is_some();
        let beside = chunk.beside.usage.map(raw);
        let beside = beside.filter(|_| !chunk.usage.is_some_and(of_chunk));
        if empty && renamed.is_none() && event.canonical && event.name.is_none() {
            return Self {
                event: event.block.slice(event.span.clone()),
                range: Some(event.span.clone()),
            };
        }
        let mut edits = Vec::new();
        let mut prefix = String::new();
        match chunk.choices {
            Some(choices) => edits.push((choices.span, "[]")),
            None => prefix.push_str(r#""choices":[],"#),
        }
        match (beside, chunk.usage) {
            (Some(raw), Some(null)) => edits.push((null.span, raw)),
            (Some(raw), None) => prefix.push_str(&format!(r#""usage":{raw},"#)),
            (None, _) => {}
        }
        edits.extend(renamed);
        edits.sort_by_key(|(span, _)| span.start);
        let mut out = BytesMut::with_capacity(data.len() + 64);
        out.put_slice(b"data: ");
        let start = data.find('{').map_or(0, |at| at + 1);
        let mut at = start;
        out.put_slice(b"{");
        out.put_slice(prefix.as_bytes());
        for (span, with) in edits {
            put_line(&mut out, data, at..span.start);
            out.put_slice(with.as_bytes());
            at = span.end;
        }
        put_line(&mut out, data, at..data.len());
        out.put_slice(b"\n\n");
        Self {
            event: out.freeze(),
            range: None,
        }
    }
}
