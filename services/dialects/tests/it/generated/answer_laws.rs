//! What holds for every answer.

use switchboard_dialects::convert::Format;

use super::answer::{self, Answer, End, Pair, Piece};
use super::said::{self, Said};
use super::source::Source;
use super::{spoil, upstream};
use crate::json::Json;
use crate::valid;
use crate::wire;

pub(super) fn answer(source: &mut Source, pair: Pair) -> Result<(), String> {
    let answer = answer::answer(source, pair);
    let both = (pair.caller, pair.upstream);
    let open = |streamed| {
        let asked = answer::asked(pair, &answer, streamed).compact();
        wire::open(both, streamed, &asked).map_err(|refusal| format!("{refusal:?}\n{asked}"))
    };
    let (plain, streaming) = (open(false)?, open(true)?);

    let sent = Json::parse(&wire::sent(wire::model(pair.upstream), &plain))?;
    let given = answer.known_as(pair.caller, &sent);
    let document = upstream::whole(pair.upstream, &given).compact();
    let shown =
        |what: &str, out: &str, error: String| format!("{what}: {error}\nof {document}\n{out}");
    let whole = wire::whole(&plain, &document).map_err(|error| shown("whole", "", error))?;
    valid::answer(pair.caller, &whole).map_err(|error| shown("whole", &whole, error))?;
    let whole_said = said::of(pair.caller, &Json::parse(&whole)?);
    holds(pair, &answer, &whole_said).map_err(|error| shown("whole", &whole, error))?;

    let events =
        wire::whole_as_events(&streaming, &document).map_err(|error| shown("events", "", error))?;
    valid::stream(pair.caller, &events).map_err(|error| shown("events", &events, error))?;
    let said_as_events = said::of(pair.caller, &said::gathered(pair.caller, &events));
    same(pair, &whole_said, &said_as_events)
        .map_err(|error| shown("events", &format!("{whole}\n{events}"), error))?;

    let sent = upstream::stream(source, pair.upstream, &given);
    let shown = |what: &str, out: &str, error: String| format!("{what}: {error}\nof {sent}\n{out}");
    let stream = wire::streamed(&streaming, sent.as_bytes(), usize::MAX)
        .map_err(|error| shown("stream", "", error))?;
    valid::stream(pair.caller, &stream).map_err(|error| shown("stream", &stream, error))?;
    let stream_said = said::of(pair.caller, &said::gathered(pair.caller, &stream));
    same(pair, &whole_said, &stream_said)
        .map_err(|error| shown("stream", &format!("{whole}\n{stream}"), error))?;
    let piece = 1 + source.pick(90);
    let pieces = wire::streamed(&streaming, sent.as_bytes(), piece)
        .map_err(|error| shown("stream", "", error))?;
    if pieces != stream {
        return Err(shown(
            "stream",
            &pieces,
            format!("in pieces of {piece} it is another"),
        ));
    }
    Ok(())
}

/// The whole answer and the sum of a stream say the same.
fn same(
    pair: Pair,
    whole: &(Vec<Said>, [u64; 2]),
    stream: &(Vec<Said>, [u64; 2]),
) -> Result<(), String> {
    let mut told = stream.clone();
    if (pair.caller, pair.upstream) == (Format::Anthropic, Format::Chat) {
        // Citations have no place there once something else is said, and chat may say it amid the text.
        for (said, whole) in told.0.iter_mut().zip(&whole.0) {
            if said.urls.iter().all(|url| whole.urls.contains(url)) {
                said.urls.clone_from(&whole.urls);
            }
        }
    }
    if *whole == told {
        return Ok(());
    }
    Err(format!("the whole says\n{whole:?}\nthe stream\n{stream:?}"))
}

/// Every word, name and argument came out, unchanged and in order.
fn holds(pair: Pair, answer: &Answer, said: &(Vec<Said>, [u64; 2])) -> Result<(), String> {
    let (said, used) = said;
    let need = |what: &str, holds: bool| match holds {
        true => Ok(()),
        false => Err(format!("{what}: {said:?}")),
    };
    need("usage", *used == [answer::USED[0], answer::USED[2]])?;
    need("choices", said.len() == answer.choices.len())?;
    for (said, choice) in said.iter().zip(&answer.choices) {
        let mut expected = Said::default();
        let tells_refusals = matches!(pair.caller, Format::Chat | Format::Responses);
        // A chat document does not say which came first.
        let together = pair.upstream == Format::Chat;
        let (mut refused, mut cited) = (String::new(), Vec::new());
        for piece in &choice.pieces {
            match piece {
                Piece::Thought(words, seal) => {
                    expected.thought.push_str(words);
                    expected.seals.extend(seal.clone());
                }
                Piece::Text(text) => {
                    expected.text.push_str(&text.text);
                    cited.extend(text.cited.clone());
                    if text.probable {
                        expected.tokens.push(text.text.clone());
                    }
                }
                Piece::Refusal(words) if tells_refusals => expected.refusal.push_str(words),
                Piece::Refusal(words) if together => refused.push_str(words),
                Piece::Refusal(words) => expected.text.push_str(words),
                Piece::Call(call) => {
                    let free = call.custom;
                    let arguments = call.arguments.clone();
                    expected
                        .calls
                        .push((call.name.to_owned(), arguments, free.to_string()));
                    expected.seals.extend(call.seal.clone());
                }
                Piece::Image(data) => expected.images.push(data.clone()),
                Piece::Hosted => {}
            }
        }
        expected.text.push_str(&refused);
        let joined = |text: &str| text.replace("\n\n", "");
        need(
            "thoughts",
            joined(&said.thought) == joined(&expected.thought),
        )?;
        if pair.caller == Format::Anthropic {
            // It can only say that they were there.
            expected.images.iter_mut().for_each(String::clear);
        }
        need("text", said.text == expected.text)?;
        need("refusal", said.refusal == expected.refusal)?;
        need("images", said.images == expected.images)?;
        need("tokens", said.tokens == expected.tokens)?;
        need("citations", said.urls == cited)?;
        let names = |calls: &[(String, String, String)]| -> Vec<(String, String)> {
            let both = calls
                .iter()
                .map(|(name, input, _)| (name.clone(), input.clone()));
            both.collect()
        };
        need("calls", names(&said.calls) == names(&expected.calls))?;
        let all = |mark: &String| said.seals.iter().any(|seal| seal.contains(mark.as_str()));
        let encoded = pair.caller == Format::Gemini;
        need("seals", encoded || expected.seals.iter().all(all))?;
        ends(pair.caller, choice.end, expected.calls.is_empty(), said)?;
    }
    Ok(())
}

/// What was cut off says so.
fn ends(caller: Format, end: End, plain: bool, said: &Said) -> Result<(), String> {
    let word = match caller {
        Format::Chat => "length",
        Format::Responses => "incompletemax_output_tokens",
        Format::Anthropic => "max_tokens",
        Format::Gemini => "MAX_TOKENS",
    };
    let cut = end == End::Length && plain;
    if cut && said.end != word {
        return Err(format!("it ends with {:?}", said.end));
    }
    Ok(())
}

/// An answer that may be wrong in any way is refused, or comes out as what the caller's dialect demands, however it arrives.
pub(super) fn odd_answer(source: &mut Source, pair: Pair) -> Result<(), String> {
    let answer = answer::answer(source, pair);
    let both = (pair.caller, pair.upstream);
    let open = |streamed| {
        let asked = answer::asked(pair, &answer, streamed).compact();
        wire::open(both, streamed, &asked).map_err(|refusal| format!("{refusal:?}\n{asked}"))
    };
    let (plain, streaming) = (open(false)?, open(true)?);
    let mut document = upstream::whole(pair.upstream, &answer);
    spoil(source, &mut document);
    let document = document.compact();
    let shown =
        |what: &str, out: &str, error: String| format!("{what}: {error}\nof {document}\n{out}");
    if let Ok(whole) = wire::whole(&plain, &document) {
        but_arguments(valid::answer(pair.caller, &whole))
            .map_err(|error| shown("whole", &whole, error))?;
        let events = wire::whole_as_events(&streaming, &document)
            .map_err(|error| shown("events", &whole, error))?;
        but_arguments(valid::stream(pair.caller, &events))
            .map_err(|error| shown("events", &events, error))?;
    }
    let sent = upstream::stream(source, pair.upstream, &answer);
    let sent = damaged(source, &sent);
    let shown = |out: &str, error: String| format!("stream: {error}\nof {sent}\n{out}");
    let whole = wire::streamed(&streaming, sent.as_bytes(), usize::MAX);
    if let Ok(stream) = &whole {
        but_arguments(valid::stream(pair.caller, stream)).map_err(|error| shown(stream, error))?;
    }
    let piece = 1 + source.pick(90);
    let pieces = wire::streamed(&streaming, sent.as_bytes(), piece);
    // What fails before anything was given out gives nothing out, so that it matters what was read at once.
    match pieces == whole || (pieces.is_err() && whole.is_err()) {
        true => Ok(()),
        false => Err(shown(
            &format!("{whole:?}\n{pieces:?}"),
            format!("in pieces of {piece}"),
        )),
    }
}

/// Events of which some are changed, left out, said twice or too early.
fn damaged(source: &mut Source, stream: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for event in stream.split_inclusive("\n\n") {
        let (head, data) = event.split_once("data: ").unwrap_or((event, ""));
        let mut event = event.to_owned();
        if let Ok(mut data) = Json::parse(data.trim_end()) {
            spoil(source, &mut data);
            event = format!("{head}data: {}\n\n", data.compact());
        }
        match source.pick(60) {
            57 => {}
            58 => out.extend([event.clone(), event]),
            59 => out.insert(out.len().saturating_sub(1), event),
            _ => out.push(event),
        }
    }
    out.concat()
}

/// Arguments are the model's own: what it says wrong is said wrong.
fn but_arguments(check: valid::Check) -> valid::Check {
    check.or_else(
        |error| match error.contains("no JSON") || error.contains("arguments") {
            true => Ok(()),
            false => Err(error),
        },
    )
}
