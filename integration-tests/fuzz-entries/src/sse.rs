//! Event streams in, and what of ours is one.

use bytes::{Bytes, BytesMut};
use switchboard_dialects::sse::{Decoder, Event, SseError, write_event};

use crate::{input::arrivals, json::text};

/// The largest event here, bytes: small, so that it is reached.
const MAX_EVENT: usize = 300;

type Read = (Vec<(Option<Bytes>, Bytes, bool)>, Result<(), SseError>);

/// Reads pushed pieces as a stream's reader does.
fn read(pieces: &[Bytes], max_event: usize) -> (Vec<Event>, Result<(), SseError>) {
    let mut decoder = Decoder::new(max_event);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece.clone());
        if let Err(error) = drain(&mut decoder, &mut events) {
            return (events, Err(error));
        }
        assert!(decoder.buffered() <= max_event, "more is kept than may be");
    }
    decoder.finish();
    let end = drain(&mut decoder, &mut events);
    (events, end)
}

fn drain(decoder: &mut Decoder, events: &mut Vec<Event>) -> Result<(), SseError> {
    while let Some(event) = decoder.next_event()? {
        events.push(event);
    }
    Ok(())
}

/// What must not depend on how the bytes came.
fn meaning((events, end): (Vec<Event>, Result<(), SseError>)) -> Read {
    let events = events
        .into_iter()
        .map(|event| (event.name, event.data, event.terminated));
    (events.collect(), end)
}

/// The events of a stream that is well-formed: every one in the canonical form, nothing else between them.
///
/// # Panics
/// When it is not.
pub(crate) fn assert_well_formed(stream: &[u8]) -> Vec<Event> {
    let (events, end) = read(&[Bytes::copy_from_slice(stream)], usize::MAX);
    assert_eq!(end, Ok(()), "{}", text(stream));
    let mut written = BytesMut::new();
    for event in &events {
        assert!(event.terminated, "no end: {}", text(stream));
        let data = std::str::from_utf8(&event.data).expect("the decoder checked it");
        write_event(&mut written, event.name.as_deref(), data);
    }
    assert_eq!(text(&written), text(stream), "not as we would write it");
    events
}

pub(crate) fn sse(input: &[u8]) {
    let mut ways = arrivals(input).into_iter();
    let whole = read(&ways.next().unwrap_or_default(), MAX_EVENT);
    let mut written = BytesMut::new();
    for event in &whole.0 {
        assert!(!event.data.is_empty() && event.data.len() <= MAX_EVENT);
        let data = std::str::from_utf8(&event.data).expect("the decoder checked it");
        let start = written.len();
        write_event(&mut written, event.name.as_deref(), data);
        if let Some(canonical) = &event.canonical {
            assert_eq!(canonical, &written[start..], "passed on as it is");
        }
    }
    let whole = meaning(whole);
    let again = assert_well_formed(&written).into_iter();
    let again: Vec<_> = again.map(|event| (event.name, event.data)).collect();
    let events: Vec<_> = whole.0.iter().cloned().map(|e| (e.0, e.1)).collect();
    assert_eq!(events, again, "what was written reads back");
    for pieces in ways {
        assert_eq!(meaning(read(&pieces, MAX_EVENT)), whole, "{pieces:?}");
    }
}
