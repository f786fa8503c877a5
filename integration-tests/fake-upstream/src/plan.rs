//! How it is said: an answer as a list of writes, with the script's actions between them.

use std::collections::VecDeque;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::answer::{Event, Said};
use crate::format::{Framing, Usage, Writes};
use crate::request::Asked;
use crate::script::{Action, Point, Script};

pub(crate) enum Part {
    /// One write; `events` and `tokens` are complete with its last byte.
    Write {
        bytes: Bytes,
        events: u64,
        tokens: u64,
    },
    Act(Action),
}

pub(crate) struct Plan {
    pub(crate) before: Vec<Action>,
    pub(crate) raw: Option<Bytes>,
    pub(crate) content_type: &'static str,
    /// Declared length; `None` is a body in chunks.
    pub(crate) length: Option<usize>,
    pub(crate) parts: VecDeque<Part>,
    /// What the request costs as soon as the model runs: the prompt.
    pub(crate) usage_at_start: Usage,
    /// What the whole answer is worth; `None` when the script ends it early.
    pub(crate) usage_at_end: Option<Usage>,
}

pub(crate) fn plan(script: &Script, said: Said, asked: &Asked) -> Plan {
    let mut before = actions_at(script, Point::Head);
    before.extend(asked.directive.head_delay.map(Action::Delay));
    let (content_type, mut parts, usage, whole) = match said {
        Said::Raw(bytes) => {
            return Plan {
                before,
                raw: Some(bytes),
                content_type: "",
                length: None,
                parts: VecDeque::new(),
                usage_at_start: Usage::default(),
                usage_at_end: None,
            };
        }
        Said::Whole {
            content_type,
            bytes,
            usage,
        } => (
            content_type,
            whole_parts(script, bytes, &usage),
            usage,
            true,
        ),
        Said::Stream { events, usage } => {
            let parts = stream_parts(script, &events, asked);
            ("text/event-stream", parts, usage, false)
        }
    };
    parts.extend(actions_at(script, Point::End).into_iter().map(Part::Act));
    let ends_early = end_early(&mut parts);
    if script.gzip {
        parts = compress(parts);
    }
    let parts = at_bytes(script, cut(parts, &script.writes));
    let length = (whole && !ends_early).then(|| parts.iter().map(length).sum());
    Plan {
        before,
        raw: None,
        content_type,
        length,
        parts,
        usage_at_start: Usage {
            completion: 0,
            ..usage
        },
        usage_at_end: (!ends_early).then_some(usage),
    }
}

fn actions_at(script: &Script, point: Point) -> Vec<Action> {
    let here = script.actions.iter().filter(|(at, _)| *at == point);
    here.map(|(_, action)| action.clone()).collect()
}

fn length(part: &Part) -> usize {
    match part {
        Part::Write { bytes, .. } => bytes.len(),
        Part::Act(_) => 0,
    }
}

fn write(bytes: impl Into<Bytes>, events: u64, tokens: u64) -> Part {
    Part::Write {
        bytes: bytes.into(),
        events,
        tokens,
    }
}

/// Actions as parts; bytes to be written are writes like any other.
fn acts(actions: impl IntoIterator<Item = Action>) -> impl Iterator<Item = Part> {
    actions.into_iter().map(|action| match action {
        Action::Write(bytes) => write(bytes, 1, 0),
        other => Part::Act(other),
    })
}

fn whole_parts(script: &Script, mut bytes: Bytes, usage: &Usage) -> Vec<Part> {
    let mut parts: Vec<Part> = acts(actions_at(script, Point::Content(0))).collect();
    let middle: Vec<Action> = script
        .actions
        .iter()
        .filter(|(at, _)| matches!(at, Point::Content(n) if *n > 0))
        .map(|(_, action)| action.clone())
        .collect();
    if !middle.is_empty() {
        parts.push(write(bytes.split_to(bytes.len() / 2), 0, 0));
        parts.extend(acts(middle));
    }
    if !bytes.is_empty() {
        parts.push(write(bytes, 0, usage.completion));
    }
    parts
}

fn stream_parts(script: &Script, events: &[Event], asked: &Asked) -> Vec<Part> {
    let delay = asked.directive.token_delay.or(script.token_delay);
    let last_delta = events.iter().filter(|event| event.delta).count();
    let mut parts = Vec::with_capacity(events.len() + script.actions.len());
    let mut deltas = 0;
    // Actions beyond the last delta happen right after it.
    let after = |deltas: usize| {
        let due = script.actions.iter().filter(move |(at, _)| match at {
            Point::Content(n) => *n == deltas || (deltas == last_delta && *n > deltas),
            _ => false,
        });
        acts(due.map(|(_, action)| action.clone()).collect::<Vec<_>>())
    };
    let mut begun = false;
    for (index, event) in events.iter().enumerate() {
        if event.delta {
            if !std::mem::replace(&mut begun, true) {
                parts.extend(after(0));
            }
            parts.extend(delay.map(|delay| Part::Act(Action::Delay(delay))));
        }
        let bytes = framed(&event.data, &script.framing, index, events.len());
        parts.push(write(bytes, 1, event.tokens));
        if event.delta {
            deltas += 1;
            parts.extend(after(deltas));
        }
    }
    if !begun {
        parts.extend(after(0));
    }
    parts
}

fn framed(data: &str, framing: &Framing, index: usize, count: usize) -> String {
    let end = framing.line_end;
    let mut text = String::new();
    if framing.bom && index == 0 {
        text.push('\u{feff}');
    }
    if framing.comments {
        text += ": PROCESSING";
        text += end;
    }
    if framing.extra_fields {
        text += &format!("id: {index}{end}retry: 3000{end}x-unknown: 1{end}");
    }
    for line in data.split('\n') {
        text += if framing.space { "data: " } else { "data:" };
        text += line;
        text += end;
    }
    if framing.last_blank_line || index + 1 < count {
        text += end;
    }
    text
}

/// Leaves out what stands behind an early end of the body. Returns whether there is one.
fn end_early(parts: &mut Vec<Part>) -> bool {
    let end = parts
        .iter()
        .position(|part| matches!(part, Part::Act(Action::End)));
    if let Some(end) = end {
        parts.truncate(end);
    }
    end.is_some()
}

/// One gzip member over all writes, flushed at each, so that a stream stays a stream.
fn compress(parts: Vec<Part>) -> Vec<Part> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut packed: Vec<Part> = parts
        .into_iter()
        .map(|part| match part {
            Part::Write {
                bytes,
                events,
                tokens,
            } => {
                // Writing to a `Vec` cannot fail.
                let _ = encoder.write_all(&bytes).and_then(|()| encoder.flush());
                write(std::mem::take(encoder.get_mut()), events, tokens)
            }
            act @ Part::Act(_) => act,
        })
        .collect();
    if let Ok(trailer) = encoder.finish() {
        let after_last_write = packed
            .iter()
            .rposition(|part| matches!(part, Part::Write { .. }))
            .map_or(packed.len(), |last| last + 1);
        packed.insert(after_last_write, write(trailer, 0, 0));
    }
    packed
}

fn cut(parts: Vec<Part>, writes: &Writes) -> Vec<Part> {
    match writes {
        Writes::Events => parts,
        Writes::Glued => glue(parts),
        Writes::Of(size) => parts
            .into_iter()
            .flat_map(|part| split(part, |_| Some((*size).max(1))))
            .collect(),
        Writes::At(offsets) => {
            let mut start = 0;
            let mut done = Vec::new();
            for part in glue(parts) {
                let length = length(&part);
                let from = start;
                start += length;
                done.extend(split(part, |at| {
                    let next = offsets.iter().find(|offset| **offset > from + at)?;
                    Some(next - from - at)
                }));
            }
            done
        }
    }
}

/// Joins writes that have no action between them.
fn glue(parts: Vec<Part>) -> Vec<Part> {
    let mut glued: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (glued.last_mut(), part) {
            (
                Some(Part::Write {
                    bytes: before,
                    events: all_events,
                    tokens: all_tokens,
                }),
                Part::Write {
                    bytes,
                    events,
                    tokens,
                },
            ) => {
                *before = [before.as_ref(), bytes.as_ref()].concat().into();
                *all_events += events;
                *all_tokens += tokens;
            }
            (_, part) => glued.push(part),
        }
    }
    glued
}

/// Splits a write into pieces; `size` tells the next piece's size at an offset, `None` takes the rest.
fn split(part: Part, size: impl Fn(usize) -> Option<usize>) -> Vec<Part> {
    let Part::Write {
        mut bytes,
        events,
        tokens,
    } = part
    else {
        return vec![part];
    };
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(size) = size(at).filter(|size| *size < bytes.len()) {
        pieces.push(write(bytes.split_to(size), 0, 0));
        at += size;
    }
    pieces.push(write(bytes, events, tokens));
    pieces
}

/// Puts in the actions that stand at byte offsets, splitting writes where they must be.
fn at_bytes(script: &Script, parts: Vec<Part>) -> VecDeque<Part> {
    let mut due: Vec<(usize, Action)> = script
        .actions
        .iter()
        .filter_map(|(at, action)| match at {
            Point::Byte(offset) => Some((*offset, action.clone())),
            _ => None,
        })
        .collect();
    due.sort_by_key(|(offset, _)| *offset);
    let mut due = VecDeque::from(due);
    let mut done = VecDeque::with_capacity(parts.len() + due.len());
    let mut start = 0;
    for part in parts {
        let length = length(&part);
        let stops: Vec<usize> = due
            .iter()
            .map(|(offset, _)| *offset)
            .filter(|offset| *offset > start && *offset < start + length)
            .collect();
        let pieces = split(part, |at| {
            let next = stops.iter().find(|stop| **stop > start + at)?;
            Some(next - start - at)
        });
        for piece in pieces {
            while due.front().is_some_and(|(offset, _)| *offset <= start) {
                done.extend(acts(due.pop_front().map(|(_, action)| action)));
            }
            start += self::length(&piece);
            done.push_back(piece);
        }
    }
    done.extend(acts(due.into_iter().map(|(_, action)| action)));
    done
}
