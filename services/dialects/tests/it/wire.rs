//! The product's side of the tests: how a request is read and translated, and how answers go back.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_dialects::{
    Change, DialectRequest, ReadOptions, RequestError, StreamOptions,
    anthropic::{MessagesCall, MessagesRequest},
    chat::ChatRequest,
    convert::{Format, Refusal, Target, Translation},
    gemini::{Call, GeminiRequest},
    responses::ResponsesRequest,
};

use crate::json::Json;

/// The upstream's name of the model. What Gemini is asked of thinking depends on which it is.
pub(crate) const fn model(upstream: Format) -> &'static str {
    match upstream {
        Format::Gemini => "gemini-3-pro",
        _ => "upstream-model",
    }
}
/// The name that callers use.
pub(crate) const PUBLIC: &str = "public-model";

/// What translations are told.
pub(crate) const fn target(upstream: Format, stream: bool) -> Target<'static> {
    Target {
        model: model(upstream),
        public_model: PUBLIC,
        max_output: Some(32_000),
        request_id: "0197a1b2c3d4",
        now: 1_700_000_000,
        stream,
    }
}

/// A dialect's name, as fixtures and the table say it.
pub(crate) const fn name(format: Format) -> &'static str {
    match format {
        Format::Chat => "chat",
        Format::Responses => "responses",
        Format::Anthropic => "anthropic",
        Format::Gemini => "gemini",
    }
}

/// All pairs of two dialects.
pub(crate) fn pairs() -> impl Iterator<Item = (Format, Format)> {
    let others = |caller| Format::ALL.into_iter().map(move |other| (caller, other));
    let all = Format::ALL.into_iter().flat_map(others);
    all.filter(|(caller, other)| caller != other)
}

/// Reads a caller's request. `streamed` is for Gemini, whose path says it.
pub(crate) fn ask(
    format: Format,
    streamed: bool,
    body: &[u8],
) -> Result<Arc<dyn DialectRequest>, RequestError> {
    fn shared(asked: impl DialectRequest + 'static) -> Arc<dyn DialectRequest> {
        Arc::new(asked)
    }
    match format {
        Format::Chat => ChatRequest::peek(body).map(shared),
        Format::Responses => ResponsesRequest::peek(body).map(shared),
        Format::Anthropic => MessagesRequest::peek(body, MessagesCall::Create).map(shared),
        Format::Gemini => {
            let call = if streamed {
                Call::StreamEvents
            } else {
                Call::Generate
            };
            GeminiRequest::peek(call, PUBLIC, body).map(shared)
        }
    }
}

/// Translates a request of `pair.0` for an upstream of `pair.1`.
pub(crate) fn open(
    pair: (Format, Format),
    streamed: bool,
    body: &str,
) -> Result<Translation, Box<Refusal>> {
    let asked = ask(pair.0, streamed, body.as_bytes());
    let asked = asked.unwrap_or_else(|error| panic!("{}: {error}\n{body}", name(pair.0)));
    Translation::open(pair, &asked, body.as_bytes(), &target(pair.1, streamed))
}

/// The body that goes to the upstream.
pub(crate) fn sent(model: &str, translation: &Translation) -> String {
    let change = Change {
        model,
        output_cap: None,
    };
    let body = translation.prepare(&Bytes::new(), &change);
    String::from_utf8(body.to_vec()).expect("a body is text")
}

/// What translating a request comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Sent { body: Json, dropped: Vec<String> },
    Refused(Refusal),
}

/// Translates a request, and reads what goes out.
pub(crate) fn request(pair: (Format, Format), body: &str) -> Outcome {
    request_to(model(pair.1), pair, body)
}

/// Translates a request for a model of that name.
pub(crate) fn request_to(model: &str, pair: (Format, Format), body: &str) -> Outcome {
    let asked = ask(pair.0, false, body.as_bytes());
    let asked = asked.unwrap_or_else(|error| panic!("{}: {error}\n{body}", name(pair.0)));
    let target = Target {
        model,
        ..target(pair.1, false)
    };
    match Translation::open(pair, &asked, body.as_bytes(), &target) {
        Ok(translation) => {
            let text = sent(model, &translation);
            Outcome::Sent {
                body: Json::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")),
                dropped: translation.dropped().to_vec(),
            }
        }
        Err(refusal) => Outcome::Refused(*refusal),
    }
}

/// A whole answer, as the caller gets it.
pub(crate) fn whole(translation: &Translation, answer: &str) -> Result<String, String> {
    let options = ReadOptions {
        text_bound: 1 << 20,
        ..ReadOptions::default()
    };
    let answer = Bytes::copy_from_slice(answer.as_bytes());
    let read = translation.read(&answer, &options);
    let read = read.map_err(|error| format!("{error:?}"))?;
    String::from_utf8(read.body.to_vec()).map_err(|error| error.to_string())
}

/// A whole answer where the caller streams: the events that its upstream would have sent, translated.
pub(crate) fn whole_as_events(translation: &Translation, answer: &str) -> Result<String, String> {
    let answer = Bytes::copy_from_slice(answer.as_bytes());
    let options = ReadOptions::default();
    translation
        .read(&answer, &options)
        .map_err(|error| format!("{error:?}"))?;
    let events = translation.as_events(&answer);
    carried(translation, &events, usize::MAX, true)
}

/// A streamed answer whose bytes come `piece` at a time.
pub(crate) fn streamed(
    translation: &Translation,
    events: &[u8],
    piece: usize,
) -> Result<String, String> {
    carried(translation, events, piece, false)
}

/// `whole`: the events are those of a whole answer, and all of it.
fn carried(
    translation: &Translation,
    events: &[u8],
    piece: usize,
    whole: bool,
) -> Result<String, String> {
    let mut stream = translation.stream(StreamOptions::default());
    let mut out = Vec::new();
    let failed = |error| format!("{error:?}");
    for piece in events.chunks(piece.min(events.len().max(1))) {
        stream.push(Bytes::copy_from_slice(piece)).map_err(failed)?;
        out.extend(stream.take().into_iter().flatten());
    }
    let ended = match whole {
        true => stream.finish_whole(),
        false => stream.finish(),
    };
    ended.map_err(failed)?;
    out.extend(stream.take().into_iter().flatten());
    if !stream.done() {
        return Err("the stream is not done".to_owned());
    }
    String::from_utf8(out).map_err(|error| error.to_string())
}
