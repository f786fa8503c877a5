//! Whether a request, a whole answer or a stream is what its dialect demands.
//!
//! Written from the dialects' documents and from what their clients were seen to choke on, apart from the code that it
//! judges: nothing of the product is used here.

mod anthropic;
mod chat;
mod gemini;
mod responses;
mod sse;

use switchboard_dialects::convert::Format;

use crate::json::Json;

/// What is wrong, if anything is.
pub(crate) type Check = Result<(), String>;

/// Demands something.
pub(crate) fn need(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

/// A request that we send.
///
/// `model`: the upstream's name of it; of Gemini's it matters which.
pub(crate) fn request(format: Format, model: &str, body: &Json) -> Check {
    no_marks(format, body)?;
    match format {
        Format::Chat => chat::request(body),
        Format::Responses => responses::request(body),
        Format::Anthropic => anthropic::request(body),
        Format::Gemini => gemini::request(model, body),
    }
}

/// A whole answer that we give, as it goes out.
pub(crate) fn answer(format: Format, body: &str) -> Check {
    let body = &Json::parse(body)?;
    match format {
        Format::Chat => chat::answer(body),
        Format::Responses => responses::answer(body),
        Format::Anthropic => anthropic::answer(body),
        Format::Gemini => gemini::answer(body),
    }
}

/// A stream that we give.
pub(crate) fn stream(format: Format, text: &str) -> Check {
    let events = sse::strict(text)?;
    match format {
        Format::Chat => chat::stream(&events),
        Format::Responses => responses::stream(&events),
        Format::Anthropic => anthropic::stream(&events),
        Format::Gemini => gemini::stream(&events),
    }
}

/// A seal marked for another maker never goes to a provider.
fn no_marks(format: Format, body: &Json) -> Check {
    match body {
        // Gemini's are in base64.
        Json::Text(text) => {
            let marks = ["switchboard.", "c3dpdGNoYm9hcmQu"];
            need(!marks.iter().any(|mark| text.starts_with(mark)), || {
                format!("a stranger's seal in a request of {format:?}: {text}")
            })
        }
        Json::List(items) => items.iter().try_for_each(|item| no_marks(format, item)),
        Json::Object(members) => members
            .iter()
            .try_for_each(|(_, value)| no_marks(format, value)),
        _ => Ok(()),
    }
}

/// No member but these.
pub(crate) fn only(place: &str, value: &Json, known: &[&str]) -> Check {
    for key in value.keys() {
        need(known.contains(&key), || format!("{place} has `{key}`"))?;
    }
    Ok(())
}

/// A member that must be one of these words.
pub(crate) fn one_of(place: &str, value: &Json, words: &[&str]) -> Check {
    need(words.contains(&value.str()), || {
        format!("{place} is {}, none of {words:?}", value.compact())
    })
}

/// A member that must be a text with something in it.
pub(crate) fn filled(place: &str, value: &Json) -> Check {
    need(!value.str().is_empty(), || {
        format!(
            "{place} must be a text with something in it, is {}",
            value.compact()
        )
    })
}

/// A name of at most `most` letters, digits, `_`, `-`.
pub(crate) fn name(place: &str, value: &Json, most: usize) -> Check {
    let text = value.str();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let right = !text.is_empty() && text.len() <= most && text.bytes().all(allowed);
    need(right, || format!("{place} is {}", value.compact()))
}

/// No name comes twice.
pub(crate) fn once(place: &str, names: &[&str]) -> Check {
    let twice = names
        .iter()
        .enumerate()
        .find(|(at, name)| names[..*at].contains(name));
    need(twice.is_none(), || {
        format!("{place} comes twice: {twice:?}")
    })
}

/// A member that, if it is there, lies between two numbers.
pub(crate) fn between(place: &str, value: &Json, low: f64, high: f64) -> Check {
    let inside = value.number().is_some_and(|n| (low..=high).contains(&n));
    need(value.is_null() || inside, || {
        format!("{place} is {}, not within {low}..{high}", value.compact())
    })
}

/// Counts of a usage: whole numbers, each at least the parts of it.
pub(crate) fn parts_of(place: &str, whole: &Json, parts: &[&Json]) -> Check {
    let count = |value: &Json| match value {
        Json::Null => Ok(0),
        value => value
            .whole()
            .ok_or_else(|| format!("{place} has the count {}", value.compact())),
    };
    let total = count(whole)?;
    let mut sum = 0;
    for part in parts {
        sum += count(part)?;
    }
    need(sum <= total, || format!("{place}: {sum} of {total}"))
}

#[test]
fn what_is_wrong_is_found() {
    let wrong_requests: &[(Format, &str)] = &[
        (Format::Chat, r#"{"model":"m","messages":[]}"#),
        (
            Format::Chat,
            r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":""}]}"#,
        ),
        (
            Format::Chat,
            r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"x"}]}"#,
        ),
        (
            Format::Responses,
            r#"{"model":"m","input":[{"type":"function_call_output","call_id":"a","output":""}]}"#,
        ),
        (
            Format::Responses,
            r#"{"model":"m","input":"x","max_output_tokens":3}"#,
        ),
        (
            Format::Anthropic,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
        ),
        (
            Format::Anthropic,
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a.b","name":"f","input":{}}]}]}"#,
        ),
        (
            Format::Gemini,
            r#"{"contents":[{"role":"assistant","parts":[{"text":"x"}]}]}"#,
        ),
        (
            Format::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"user","parts":[{"text":"x"}]}]}"#,
        ),
        (
            Format::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"text":"x","thoughtSignature":"switchboard.a.x"}]}]}"#,
        ),
    ];
    for (format, body) in wrong_requests {
        assert!(
            request(*format, "gemini-3-pro", &Json::parse(body).unwrap()).is_err(),
            "{body}"
        );
    }
    let wrong_streams: &[(Format, &str)] = &[
        (Format::Chat, "data:{}\n\n"),
        (
            Format::Chat,
            "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n",
        ),
        (
            Format::Responses,
            "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":0}\n\n",
        ),
        (
            Format::Anthropic,
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        (Format::Gemini, "data: {\"candidates\":[]}\n\n"),
    ];
    for (format, text) in wrong_streams {
        assert!(stream(*format, text).is_err(), "{text}");
    }
}
