//! The shape that most events of a stream share.
//!
//! Events of one stream differ from each other in their text, in padding and in a few counts, in nothing else. So the bytes
//! around those are remembered from an event that was read in full, down to its line ends; bytes that are the very same
//! around others are known to be another such event. They need no framing and no reading, and what they become for the
//! caller is known too. Equal bytes have equal meaning: this is exact, not a guess.
//!
//! Invariants: a line end never stands in what differs, so the lines of both events are the same ones; what differs is
//! valid by itself (a JSON string in UTF-8, a count), thus the whole is; an event is taken as a whole or not at all.

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::BytesMut;

use super::Event;
use crate::json::{Span, Text, string_inside};
use crate::sse::Outbox;
use crate::text::TextBuffer;

/// Places of an event that may differ.
const SLOTS: usize = 8;
/// The largest event whose shape is remembered, in bytes: its bytes are kept four times over, beside what a stream may take
/// (SPEC PERF-3).
const MAX_LEARNT: usize = 4 << 10;
/// Digits of a count that may differ: below what is taken for nonsense ([`MAX_TOKENS`](crate::usage::MAX_TOKENS)).
const DIGITS: usize = 9;

/// What stands in a place that may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Slot {
    /// The inside of the one string that is content; not empty.
    #[default]
    Text,
    /// The inside of a string that means nothing.
    Padding,
    /// A whole number above zero.
    Count,
}

/// How an event of the shape is written for the caller.
pub(crate) struct Form<'a> {
    /// What comes before the data.
    pub(crate) before: &'a [u8],
    /// Writes a part of the data, which never cuts a change in two.
    pub(crate) put: &'a dyn Fn(&mut BytesMut, Range<usize>),
    /// What comes behind it.
    pub(crate) after: &'a [u8],
}

/// Bytes that stand in every event of the shape, and what the caller gets for them.
#[derive(Debug, Default)]
struct Fixed {
    wire: Vec<u8>,
    out: BytesMut,
}

#[derive(Debug, Default)]
struct Part {
    slot: Slot,
    /// What comes next, up to the slot that follows; empty behind the last one.
    then: Fixed,
}

/// The shape of the event that was learnt last.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// What stands before the first slot.
    head: Fixed,
    parts: [Part; SLOTS],
    /// How many parts there are; none before anything was learnt.
    used: usize,
    /// What stands behind the last slot.
    tail: Fixed,
    /// The tail of one event with the head of the next.
    seam: Fixed,
    /// The caller gets something else than came.
    changed: bool,
    counted: bool,
    /// Fixed bytes of an event; at least one.
    fixed: usize,
    /// By how much an event grows on its way to the caller.
    grows: usize,
    /// Where the slots of the last event that was taken lie.
    last: [Span; SLOTS],
}

/// Events that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where the first one that was not taken begins.
    pub(crate) end: usize,
    /// How many there were.
    pub(crate) events: u64,
}

impl Shape {
    /// Remembers the shape of `event`, whose `slots` are ranges of its data. `form`: how the caller gets it, if not as it
    /// was said.
    pub(crate) fn learn(
        &mut self,
        event: &Event<'_>,
        slots: impl IntoIterator<Item = (Slot, Span)>,
        form: Option<&Form<'_>>,
    ) {
        self.used = 0;
        let Some(data) = event.place else { return };
        let end = event.span.end;
        // Whether an LF that follows a CR belongs to the event is not told by its own bytes.
        let mut slots: Vec<_> = slots.into_iter().collect();
        slots.sort_unstable_by_key(|(_, span)| span.start);
        let closed = event.terminated && event.block.get(..end).is_some_and(|b| b.ends_with(b"\n"));
        if !closed || slots.is_empty() || slots.len() > SLOTS || event.span.len() > MAX_LEARNT {
            return;
        }
        self.changed = form.is_some() || !event.canonical;
        let name = canonical_head(event);
        let as_said = |out: &mut BytesMut, range: Range<usize>| {
            out.extend_from_slice(event.data.as_bytes().get(range).unwrap_or_default());
        };
        let as_said = Form {
            before: &name,
            put: &as_said,
            after: b"\n\n",
        };
        let form = form.unwrap_or(&as_said);
        let wire = |range: Range<usize>| event.block.get(range).unwrap_or_default();

        let mut at = 0;
        let mut fixed = &mut self.head;
        let mut from = event.span.start;
        fixed.out.clear();
        fixed.out.extend_from_slice(form.before);
        for ((slot, span), part) in slots.iter().zip(&mut self.parts) {
            fixed.set(wire(from..data + span.start));
            (form.put)(&mut fixed.out, at..span.start);
            part.slot = *slot;
            fixed = &mut part.then;
            fixed.out.clear();
            at = span.end;
            from = data + at;
        }
        // What follows the last slot is the tail.
        fixed.set(b"");
        self.tail.set(wire(from..end));
        self.tail.out.clear();
        (form.put)(&mut self.tail.out, at..event.data.len());
        self.tail.out.extend_from_slice(form.after);
        self.seam.set(&self.tail.wire);
        self.seam.wire.extend_from_slice(&self.head.wire);
        self.seam.out.clear();
        self.seam.out.extend_from_slice(&self.tail.out);
        self.seam.out.extend_from_slice(&self.head.out);
        let thens = self.parts.iter().take(slots.len()).map(|part| &part.then);
        let all = thens.chain([&self.head, &self.tail]);
        let (wire, out) = all.fold((0, 0), |(wire, out), fixed| {
            (wire + fixed.wire.len(), out + fixed.out.len())
        });
        self.fixed = wire.max(1);
        self.grows = out.saturating_sub(wire);
        self.counted = slots.iter().any(|(slot, _)| *slot == Slot::Count);
        self.used = slots.len();
    }

    /// Takes events of this shape, from the one that begins at `at` on, as long as they follow each other and none is
    /// larger than `limit`: their texts are added to `text`, and what the caller gets goes out.
    pub(crate) fn run(
        &mut self,
        block: &[u8],
        at: usize,
        limit: usize,
        text: &mut TextBuffer,
        out: &mut Outbox,
    ) -> Run {
        let mut run = Run { end: at, events: 0 };
        let parts = self.parts.get(..self.used).unwrap_or_default();
        if parts.is_empty() || !stands(block, at, &self.head.wire) {
            return run;
        }
        let mut writer = self.changed.then(|| out.writer());
        if let Some(out) = &mut writer {
            out.reserve(self.room(block.len() - at));
            out.extend_from_slice(&self.head.out);
        }
        let mut spans = [Span::default(); SLOTS];
        let mut more = true;
        while more {
            let first = run.end + self.head.wire.len();
            let Some((said, end)) = Said::read(parts, &mut spans, block, first) else {
                break;
            };
            more = stands(block, end, &self.seam.wire);
            if !more && !stands(block, end, &self.tail.wire) {
                more = true;
                break;
            }
            let end = end + self.tail.wire.len();
            if end - run.end > limit {
                more = true;
                break;
            }
            said.count(text);
            if let Some(out) = &mut writer {
                for (part, span) in parts.iter().zip(&spans) {
                    out.extend_from_slice(block.get(span.start..span.end).unwrap_or_default());
                    out.extend_from_slice(&part.then.out);
                }
                let fixed = if more { &self.seam } else { &self.tail };
                out.extend_from_slice(&fixed.out);
            }
            if self.counted {
                self.last = spans;
            }
            run.end = end;
            run.events += 1;
        }
        match writer {
            // The head of an event that was not taken.
            Some(out) if more => out.truncate(out.len() - self.head.out.len()),
            Some(_) => {}
            None if run.events > 0 => out.pass(at..run.end),
            None => {}
        }
        run
    }

    /// Where the counts of the last event that was taken lie, in order.
    pub(crate) fn counts(&self) -> impl DoubleEndedIterator<Item = Span> {
        let slots = self.parts.iter().zip(&self.last).take(self.used);
        slots
            .filter(|(part, _)| part.slot == Slot::Count)
            .map(|(_, span)| *span)
    }

    /// Room for what `wire` bytes become at most, if all of them are events of this shape.
    fn room(&self, wire: usize) -> usize {
        // One more than fit, and the head that is written ahead.
        wire + (wire / self.fixed + 1) * self.grows + self.head.out.len()
    }
}

impl Fixed {
    fn set(&mut self, wire: &[u8]) {
        self.wire.clear();
        self.wire.extend_from_slice(wire);
    }
}

/// What comes before the data of an event in the canonical form.
fn canonical_head(event: &Event<'_>) -> Vec<u8> {
    match event.name {
        Some(name) => [b"event: ", name, b"\ndata: "].concat(),
        None => b"data: ".to_vec(),
    }
}

fn stands(block: &[u8], at: usize, bytes: &[u8]) -> bool {
    block.get(at..).is_some_and(|rest| rest.starts_with(bytes))
}

/// The content of an event.
#[derive(Clone, Copy, Default)]
enum Said<'a> {
    #[default]
    Nothing,
    Ascii(&'a [u8]),
    Text(&'a str),
    /// With escapes.
    Escaped(&'a str),
}

impl<'a> Said<'a> {
    /// Reads what stands in the slots from `at` on; also gives where the last one ends.
    #[inline]
    fn read(
        parts: &[Part],
        spans: &mut [Span; SLOTS],
        block: &'a [u8],
        mut at: usize,
    ) -> Option<(Self, usize)> {
        let mut said = Self::Nothing;
        for (part, span) in parts.iter().zip(spans) {
            let end = match part.slot {
                Slot::Count => count_end(block, at)?,
                slot => {
                    let (string, end) = Self::string(block, at)?;
                    if slot == Slot::Text {
                        if end == at {
                            return None;
                        }
                        said = string;
                    }
                    end
                }
            };
            *span = Span::new(at, end);
            at = end;
            if !part.then.wire.is_empty() {
                if !stands(block, at, &part.then.wire) {
                    return None;
                }
                at += part.then.wire.len();
            }
        }
        Some((said, at))
    }

    /// Reads the inside of a string.
    #[inline]
    fn string(block: &'a [u8], at: usize) -> Option<(Self, usize)> {
        let inside = string_inside(block, at)?;
        let bytes = block.get(at..inside.end)?;
        if inside.ascii && !inside.escaped {
            return Some((Self::Ascii(bytes), inside.end));
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let said = if inside.escaped {
            Self::Escaped(text)
        } else {
            Self::Text(text)
        };
        Some((said, inside.end))
    }

    #[inline]
    fn count(self, out: &mut TextBuffer) {
        match self {
            Self::Nothing => {}
            Self::Ascii(bytes) => out.push_ascii(bytes),
            Self::Text(text) => out.push(text),
            Self::Escaped(text) => {
                let all = Text {
                    span: Span::new(0, text.len()),
                    escaped: true,
                };
                all.pieces(text, |piece| out.push(piece));
            }
        }
    }
}

/// Where the count that begins at `at` ends. What its last digit is followed by is up to what stands there.
fn count_end(block: &[u8], at: usize) -> Option<usize> {
    let rest = block.get(at..)?;
    let digits = rest.iter().take(DIGITS + 1);
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
    let count = (1..=DIGITS).contains(&digits) && rest.first() != Some(&b'0');
    count.then_some(at + digits)
}

/// Whether `number`, as it stands in JSON, may stand in a [`Slot::Count`].
pub(crate) fn is_count(number: &str) -> bool {
    count_end(number.as_bytes(), 0) == Some(number.len())
}
