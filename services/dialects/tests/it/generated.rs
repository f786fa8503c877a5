//! Generated conversations, answers and streams through every direction: nothing panics, what comes out is what its dialect
//! demands, nothing is lost unnamed, words, names and arguments stay as they are and in their order.

mod answer;
mod answer_laws;
mod anthropic;
mod chat;
mod conversation;
mod gemini;
mod laws;
mod rare;
mod responses;
mod said;
mod source;
mod upstream;

use proptest::prelude::*;
use switchboard_dialects::convert::Format;

use self::source::Source;
use crate::json::Json;
use crate::wire::{name, pairs};

fn text(words: impl Into<String>) -> Json {
    Json::of(words)
}

fn number(digits: impl Into<String>) -> Json {
    Json::Number(digits.into())
}

const fn truth(value: bool) -> Json {
    Json::Bool(value)
}

const fn list(items: Vec<Json>) -> Json {
    Json::List(items)
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::object(members)
}

/// A request that a caller of this dialect sends.
fn request(source: &mut Source, caller: Format) -> Json {
    let said = conversation::conversation(source, caller);
    let mut body = match caller {
        Format::Chat => chat::request(source, &said),
        Format::Responses => responses::request(source, &said),
        Format::Anthropic => anthropic::request(source, &said),
        Format::Gemini => gemini::request(source, &said),
    };
    if source.once_in(6) {
        rare::add(source, caller, &mut body);
    }
    spoil(source, &mut body);
    body
}

/// What the callers' own dialects do not look into.
const OPAQUE: &[&str] = &[
    "parameters",
    "schema",
    "input_schema",
    "parametersJsonSchema",
    "parameters_json_schema",
    "responseJsonSchema",
    "response_json_schema",
    "args",
    "response",
    "metadata",
    "labels",
    "logit_bias",
];

/// Puts members that nobody knows and members that are null anywhere; where things may be wrong also takes some out and puts
/// others in their place.
fn spoil(source: &mut Source, value: &mut Json) {
    match value {
        Json::List(items) => items.iter_mut().for_each(|item| spoil(source, item)),
        Json::Object(members) => {
            for (key, value) in members.iter_mut() {
                let input = key == "input" && value.is_object();
                if !OPAQUE.contains(&&**key) && !input {
                    spoil(source, value);
                }
            }
            if !members.is_empty() && source.wrong_once_in(60) {
                let at = source.pick(members.len());
                members.remove(at);
            }
            if !members.is_empty() && source.wrong_once_in(60) {
                let at = source.pick(members.len());
                let other = [
                    text(""),
                    text("x"),
                    number("5"),
                    list(Vec::new()),
                    Json::object([]),
                ];
                members[at].1 = source.one(&other);
            }
            if source.once_in(14) {
                members.push(("x_odd".into(), text(source.mark())));
            }
            if source.once_in(20) {
                members.push(("x_null".into(), Json::Null));
            }
        }
        _ => {}
    }
}

/// Upstreams' names of models that differ in what they take.
const fn models(upstream: Format) -> &'static [&'static str] {
    match upstream {
        Format::Chat | Format::Responses => &["upstream-model", "gpt-5", "o3"],
        Format::Anthropic => &[
            "upstream-model",
            "claude-3-5-sonnet-latest",
            "claude-3-7-sonnet-latest",
            "claude-sonnet-4-5",
            "claude-opus-4-6",
            "claude-opus-4-8",
        ],
        Format::Gemini => &["gemini-3-pro", "gemini-2.5-flash", "gemini-1.5-pro"],
    }
}

/// Tries the laws with what was made up.
fn tried(choices: &[u16], odd: bool) -> Result<(), TestCaseError> {
    for caller in Format::ALL {
        let mut source = Source::new(choices.to_vec(), odd);
        let body = request(&mut source, caller);
        for (from, upstream) in pairs() {
            if from != caller {
                continue;
            }
            let model = source.one(models(upstream));
            if let Err(error) = laws::request((caller, upstream), model, &body, odd) {
                let (from, to) = (name(caller), name(upstream));
                let body = body.compact();
                return Err(TestCaseError::fail(format!(
                    "{from} to {to}: {error}\n{body}"
                )));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn requests_keep_all_that_they_say_or_name_it(choices in prop::collection::vec(any::<u16>(), 0..500)) {
        tried(&choices, false)?;
    }

    #[test]
    fn requests_that_may_be_wrong_are_refused_by_a_field_or_sent_as_the_target_takes_them(choices in prop::collection::vec(any::<u16>(), 0..500)) {
        tried(&choices, true)?;
    }

    #[test]
    fn answers_say_the_same_whole_and_streamed_and_keep_all_that_was_said(choices in prop::collection::vec(any::<u16>(), 0..300)) {
        for (caller, upstream) in pairs() {
            let mut source = Source::new(choices.clone(), false);
            if let Err(error) = answer_laws::answer(&mut source, answer::Pair { caller, upstream }) {
                let (caller, upstream) = (name(caller), name(upstream));
                return Err(TestCaseError::fail(format!("{caller} of {upstream}: {error}")));
            }
        }
    }

    #[test]
    fn answers_that_may_be_wrong_fail_or_come_out_as_the_callers_dialect_demands(choices in prop::collection::vec(any::<u16>(), 0..600)) {
        for (caller, upstream) in pairs() {
            let mut source = Source::new(choices.clone(), true);
            if let Err(error) = answer_laws::odd_answer(&mut source, answer::Pair { caller, upstream }) {
                let (caller, upstream) = (name(caller), name(upstream));
                return Err(TestCaseError::fail(format!("{caller} of {upstream}: {error}")));
            }
        }
    }
}
