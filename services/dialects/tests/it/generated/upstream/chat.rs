//! Chat completions.

use super::super::answer::{Answer, Call, Choice, End, Piece, Text, USED, as_object, cut};
use super::super::source::Source;
use super::super::{list, number, object, text};
use super::{mixed, probable};
use crate::json::Json;

fn usage() -> Json {
    let [input, cached, output, thought] = USED.map(|count| number(count.to_string()));
    object([
        ("prompt_tokens", input),
        ("completion_tokens", output),
        ("total_tokens", number((USED[0] + USED[2]).to_string())),
        ("prompt_tokens_details", object([("cached_tokens", cached)])),
        (
            "completion_tokens_details",
            object([("reasoning_tokens", thought)]),
        ),
    ])
}

fn annotation(url: &str, start: usize, end: usize) -> Json {
    let cited = object([
        ("url", text(url)),
        ("title", text("T")),
        ("start_index", number(start.to_string())),
        ("end_index", number(end.to_string())),
    ]);
    object([("type", text("url_citation")), ("url_citation", cited)])
}

fn image(data: &str) -> Json {
    let url = object([("url", text(format!("data:image/png;base64,{data}")))]);
    object([("type", text("image_url")), ("image_url", url)])
}

fn called(call: &Call) -> Json {
    let function = object([
        ("name", text(&call.name)),
        ("arguments", text(as_object(call))),
    ]);
    object([
        ("id", text(&call.id)),
        ("type", text("function")),
        ("function", function),
    ])
}

fn reason(choice: &Choice) -> Json {
    let calls = choice
        .pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Call(_)));
    text(match choice.end {
        End::Length | End::Full => "length",
        End::Filtered | End::Refused => "content_filter",
        End::Unknown => "something_new",
        // Many servers say `stop` also for calls.
        End::Paused => "stop",
        End::Stop | End::StopSequence if calls => "tool_calls",
        End::Stop | End::StopSequence => "stop",
    })
}

pub(super) fn whole(answer: &Answer) -> Json {
    let choices = answer.choices.iter().enumerate().map(|(index, choice)| {
        let mut message = object([("role", text("assistant")), ("content", Json::Null)]);
        let (mut words, mut thoughts, mut refusal) = (String::new(), String::new(), String::new());
        let (mut calls, mut cited, mut images, mut tokens) = (vec![], vec![], vec![], vec![]);
        for piece in &choice.pieces {
            match piece {
                Piece::Thought(thought, _) => thoughts.push_str(thought),
                Piece::Text(said) => {
                    let start = words.chars().count();
                    words.push_str(&said.text);
                    if let Some(url) = &said.cited {
                        cited.push(annotation(url, start, words.chars().count()));
                    }
                    if said.probable {
                        tokens.extend(probable(&said.text).list().to_vec());
                    }
                }
                Piece::Refusal(words) => refusal.push_str(words),
                Piece::Call(call) => calls.push(called(call)),
                Piece::Image(data) => images.push(image(data)),
                Piece::Hosted => {}
            }
        }
        for (key, words) in [
            ("content", words),
            ("reasoning_content", thoughts),
            ("refusal", refusal),
        ] {
            if !words.is_empty() {
                message.set(key, text(words));
            }
        }
        for (key, items) in [
            ("tool_calls", calls),
            ("annotations", cited),
            ("images", images),
        ] {
            if !items.is_empty() {
                message.set(key, list(items));
            }
        }
        let logprobs = match tokens.is_empty() {
            true => Json::Null,
            false => object([("content", list(tokens))]),
        };
        object([
            ("index", number(index.to_string())),
            ("message", message),
            ("logprobs", logprobs),
            ("finish_reason", reason(choice)),
        ])
    });
    object([
        ("id", text("chatcmpl-up")),
        ("object", text("chat.completion")),
        ("created", number("1")),
        ("model", text("up")),
        ("choices", list(choices.collect())),
        ("usage", usage()),
    ])
}

/// A choice's deltas and what stands beside each.
fn deltas(source: &mut Source, choice: &Choice) -> Vec<(Json, Json)> {
    let (mut words, mut thoughts, mut refusals) = (vec![], vec![], vec![]);
    let (mut calls, mut images) = (vec![], vec![]);
    let mut characters = 0;
    let mut number_of = 0;
    for piece in &choice.pieces {
        match piece {
            Piece::Thought(thought, _) => {
                for piece in cut(source, thought) {
                    let delta = object([("reasoning_content", text(piece))]);
                    thoughts.push((delta, Json::Null));
                }
            }
            Piece::Text(said) => said_in(source, said, &mut characters, &mut words),
            Piece::Refusal(said) => {
                for piece in cut(source, said) {
                    refusals.push((object([("refusal", text(piece))]), Json::Null));
                }
            }
            Piece::Call(call) => {
                calls.push(fragments(source, call, number_of));
                number_of += 1;
            }
            Piece::Image(data) => {
                let delta = object([("images", list(vec![image(data)]))]);
                images.push((delta, Json::Null));
            }
            Piece::Hosted => {}
        }
    }
    // Calls begin in their order; their pieces may be mixed.
    let mut begun: Vec<(Json, Json)> = Vec::new();
    if source.once_in(2) {
        let firsts: Vec<_> = calls.iter_mut().map(|call| call.remove(0)).collect();
        begun.extend(firsts);
        begun.extend(mixed(source, calls));
    } else {
        begun.extend(calls.into_iter().flatten());
    }
    // Text and refusal are both words; they do not come amid each other.
    words.extend(refusals);
    let kinds = vec![thoughts, words, images, begun];
    let mut all = match source.once_in(3) {
        true => mixed(source, kinds),
        false => kinds.into_iter().flatten().collect(),
    };
    let role = object([("role", text("assistant")), ("content", text(""))]);
    match all.first_mut() {
        Some((first, _)) if source.once_in(4) => first.set("role", text("assistant")),
        _ => all.insert(0, (role, Json::Null)),
    }
    all
}

fn said_in(
    source: &mut Source,
    said: &Text,
    characters: &mut usize,
    words: &mut Vec<(Json, Json)>,
) {
    let start = *characters;
    *characters += said.text.chars().count();
    let pieces = match said.probable {
        true => vec![said.text.clone()],
        false => cut(source, &said.text),
    };
    for piece in pieces {
        let logprobs = match said.probable {
            true => object([("content", probable(&piece))]),
            false => Json::Null,
        };
        words.push((object([("content", text(piece))]), logprobs));
    }
    if let Some(url) = &said.cited {
        let cited = list(vec![annotation(url, start, *characters)]);
        words.push((object([("annotations", cited)]), Json::Null));
    }
}

fn fragments(source: &mut Source, call: &Call, index: usize) -> Vec<(Json, Json)> {
    let index = number(index.to_string());
    let arguments = as_object(call);
    let mut first = called(call);
    first.set("index", index.clone());
    let mut fragments = Vec::new();
    if source.once_in(4) {
        fragments.push(first);
    } else {
        let function = object([("name", text(&call.name)), ("arguments", text(""))]);
        first.set("function", function);
        fragments.push(first);
        for piece in cut(source, &arguments) {
            let function = object([("arguments", text(piece))]);
            fragments.push(object([("index", index.clone()), ("function", function)]));
        }
    }
    let delta = |fragment| object([("tool_calls", list(vec![fragment]))]);
    fragments
        .into_iter()
        .map(|fragment| (delta(fragment), Json::Null))
        .collect()
}

pub(super) fn stream(source: &mut Source, answer: &Answer) -> String {
    let chunk = |choices: Vec<Json>, usage: Json| {
        let chunk = object([
            ("id", text("chatcmpl-up")),
            ("object", text("chat.completion.chunk")),
            ("created", number("1")),
            ("model", text("up")),
            ("choices", list(choices)),
            ("usage", usage),
        ]);
        format!("data: {}\n\n", chunk.compact())
    };
    let mut choices = Vec::new();
    for (index, choice) in answer.choices.iter().enumerate() {
        let part = |delta: Json, logprobs: Json, reason: Json| {
            object([
                ("index", number(index.to_string())),
                ("delta", delta),
                ("logprobs", logprobs),
                ("finish_reason", reason),
            ])
        };
        let mut parts = Vec::new();
        for (delta, logprobs) in deltas(source, choice) {
            parts.push(part(delta, logprobs, Json::Null));
        }
        parts.push(part(object([]), Json::Null, reason(choice)));
        choices.push(parts);
    }
    let mut out = String::new();
    for part in mixed(source, choices) {
        out.push_str(&chunk(vec![part], Json::Null));
    }
    out.push_str(&chunk(Vec::new(), usage()));
    out.push_str("data: [DONE]\n\n");
    out
}
