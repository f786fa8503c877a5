//! Answers as upstreams give them: whole, and streamed in pieces.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use switchboard_dialects::convert::Format;

use super::answer::Answer;
use super::source::Source;
use super::{list, number, object, text};
use crate::json::Json;

pub(super) fn whole(upstream: Format, answer: &Answer) -> Json {
    match upstream {
        Format::Chat => chat::whole(answer),
        Format::Responses => responses::whole(answer),
        Format::Anthropic => anthropic::whole(answer),
        Format::Gemini => gemini::whole(answer),
    }
}

pub(super) fn stream(source: &mut Source, upstream: Format, answer: &Answer) -> String {
    match upstream {
        Format::Chat => chat::stream(source, answer),
        Format::Responses => responses::stream(source, answer),
        Format::Anthropic => anthropic::stream(source, answer),
        Format::Gemini => gemini::stream(source, answer),
    }
}

/// An event with the name that its data tells.
fn named(data: &Json) -> String {
    format!(
        "event: {}\ndata: {}\n\n",
        data.get("type").str(),
        data.compact()
    )
}

/// Log probabilities of a text as one token.
fn probable(words: &str) -> Json {
    list(vec![object([
        ("token", text(words)),
        ("logprob", number("-0.25")),
        ("bytes", Json::Null),
        ("top_logprobs", list(Vec::new())),
    ])])
}

/// Items of several lists in some order that keeps that of each list.
fn mixed<T>(source: &mut Source, lists: Vec<Vec<T>>) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        lists.retain(|list| list.len() > 0);
        if lists.is_empty() {
            return all;
        }
        let at = source.pick(lists.len());
        all.extend(lists[at].next());
    }
}
