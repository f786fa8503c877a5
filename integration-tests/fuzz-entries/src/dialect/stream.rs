//! Streamed answers.

use bytes::Bytes;
use switchboard_dialects::{
    Class, DialectRequest, Form, StreamOptions, UsageReport, error::Rules, sse::Event,
};

use super::{OTHER, assert_failure};
use crate::{
    input::arrivals,
    json::{assert_json, text},
    sse::assert_well_formed,
};

/// Bounds that inputs do not reach: with them nothing depends on how the bytes are split.
const WIDE: usize = 1 << 24;
/// Bounds that they do reach, bytes.
const MAX_EVENT: usize = 1000;
const HOLD: usize = 300;
const TEXT: usize = 64;

/// What became of a stream.
#[derive(Debug, PartialEq)]
struct Outcome {
    out: String,
    end: Result<(), (Class, Option<u16>)>,
    usage: Option<UsageReport>,
    text: (String, u64),
    content: bool,
    committed: bool,
    stored: Option<String>,
}

fn options(name: Option<&str>, bound: usize, hold: usize, kept: usize) -> StreamOptions {
    StreamOptions {
        public_model: name.map(str::to_owned),
        text_bound: kept,
        hold_bound: hold,
        max_event: bound,
        rules: Rules::default(),
    }
}

/// Carries an answer that arrives in these pieces, as the pipeline does.
fn carry(asked: &dyn DialectRequest, options: StreamOptions, pieces: &[Bytes]) -> Outcome {
    carry_to(asked, options, pieces, false)
}

/// The same; `whole`: the pieces are a whole answer as events.
fn carry_to(
    asked: &dyn DialectRequest,
    options: StreamOptions,
    pieces: &[Bytes],
    whole: bool,
) -> Outcome {
    // An event that grows in writing, one that is read, one that is kept; what is held; text.
    let bound = 3 * options.max_event + options.hold_bound + options.text_bound + 4096;
    let mut stream = asked.stream(options);
    let mut out = Vec::new();
    let mut end = Ok(());
    for at in 0..=pieces.len() {
        let read = match pieces.get(at) {
            Some(piece) => stream.push(piece.clone()),
            None if whole => stream.finish_whole(),
            None => stream.finish(),
        };
        let before = stream.committed();
        let taken = stream.take();
        assert_eq!(stream.committed(), before, "taking commits nothing");
        assert!(taken.is_none() || before, "nothing goes out before");
        assert!(!stream.has_content() || before, "content commits");
        out.extend_from_slice(&taken.unwrap_or_default());
        assert!(stream.take().is_none(), "all of it was taken");
        if let Err(error) = read {
            assert_failure(&error);
            end = Err((error.class, error.status));
            break;
        }
        let read = pieces.get(at).map_or(0, Bytes::len);
        assert!(
            stream.buffered() <= bound + 2 * read,
            "{} bytes are kept",
            stream.buffered()
        );
    }
    assert!(end.is_err() || (stream.done() && stream.committed()));
    let kept = stream.text();
    Outcome {
        out: text(&out).into_owned(),
        end,
        usage: stream.usage().cloned(),
        text: (kept.text().to_owned(), kept.bytes()),
        content: stream.has_content(),
        committed: stream.committed(),
        stored: stream.stored_id().map(str::to_owned),
    }
}

/// However an answer arrives the same goes out, and it is well-formed.
pub(super) fn stream(asked: &dyn DialectRequest, answer: &[u8]) {
    for name in [None, Some(OTHER)] {
        let wide = || options(name, WIDE, WIDE, WIDE);
        let mut ways = arrivals(answer).into_iter();
        let whole = carry(asked, wide(), &ways.next().unwrap_or_default());
        for pieces in ways {
            assert_eq!(carry(asked, wide(), &pieces), whole, "{pieces:?}");
        }
        assert_sound(asked, &whole);
    }
    for pieces in arrivals(answer) {
        let outcome = carry(asked, options(None, MAX_EVENT, HOLD, TEXT), &pieces);
        assert!(outcome.text.0.len() <= TEXT);
        assert_sound(asked, &outcome);
    }
}

/// What went out is a stream that its caller can read, and that we would pass on as it is.
fn assert_sound(asked: &dyn DialectRequest, outcome: &Outcome) {
    match asked.form() {
        Form::Events => {
            for event in assert_well_formed(outcome.out.as_bytes()) {
                assert_data(&event);
            }
        }
        Form::Array if outcome.end.is_ok() => assert_json(outcome.out.as_bytes(), "an array"),
        Form::Array | Form::Bytes | Form::Whole => {}
    }
    if asked.form() == Form::Events && outcome.end.is_ok() {
        let sent = Bytes::copy_from_slice(outcome.out.as_bytes());
        let again = carry(asked, options(None, WIDE, WIDE, WIDE), &[sent]);
        assert_eq!(again.end, Ok(()), "{}", outcome.out);
        assert_eq!(again.out, outcome.out, "what goes out passes unchanged");
        if again.usage.is_some() {
            assert_eq!(again.usage, outcome.usage);
        }
    }
}

fn assert_data(event: &Event) {
    if event.data.trim_ascii() != b"[DONE]" {
        assert_json(&event.data, "an event");
    }
}

/// A whole answer as events: those of a stream, with the same usage.
pub(super) fn as_events(asked: &dyn DialectRequest, body: &[u8], usage: Option<&UsageReport>) {
    let events = asked.as_events(body);
    for event in assert_well_formed(&events) {
        assert_data(&event);
    }
    let read = carry_to(asked, options(None, WIDE, WIDE, WIDE), &[events], true);
    // Without content it is none.
    assert!(read.end.is_ok() || !read.content, "{read:?}");
    if let (Ok(()), Some(told), Some(said)) = (read.end, usage, &read.usage) {
        let mut told = told.usage;
        // A stream ends with the last image that was asked for.
        told.images = told.images.map(|images| images.min(asked.images()));
        assert_eq!(said.usage, told, "told in events, told as a whole");
    }
}
