//! The Responses API.

use super::super::answer::{Answer, Choice, End, Piece, Text, USED, cut};
use super::super::source::Source;
use super::super::{list, number, object, text};
use super::{mixed, named, probable};
use crate::json::Json;

fn response(choice: &Choice, output: Vec<Json>, ended: bool) -> Json {
    let (status, reason) = match choice.end {
        _ if !ended => ("in_progress", None),
        End::Length | End::Full => ("incomplete", Some("max_output_tokens")),
        End::Filtered => ("incomplete", Some("content_filter")),
        _ => ("completed", None),
    };
    let details = reason.map_or(Json::Null, |reason| object([("reason", text(reason))]));
    let mut response = object([
        ("id", text("resp_up")),
        ("object", text("response")),
        ("created_at", number("1")),
        ("status", text(status)),
        ("error", Json::Null),
        ("incomplete_details", details),
        ("model", text("up")),
        ("output", list(output)),
    ]);
    if ended {
        let [input, cached, out, thought] = USED.map(|count| number(count.to_string()));
        let cached = object([
            ("cached_tokens", cached),
            ("cache_write_tokens", number("0")),
        ]);
        let usage = object([
            ("input_tokens", input),
            ("input_tokens_details", cached),
            ("output_tokens", out),
            (
                "output_tokens_details",
                object([("reasoning_tokens", thought)]),
            ),
            ("total_tokens", number((USED[0] + USED[2]).to_string())),
        ]);
        response.set("usage", usage);
    }
    response
}

fn content(piece: &Piece) -> Json {
    match piece {
        Piece::Text(said) => {
            let mut annotations = Vec::new();
            if let Some(url) = &said.cited {
                annotations.push(annotation(url, &said.text));
            }
            let logprobs = match said.probable {
                true => probable(&said.text),
                false => list(Vec::new()),
            };
            object([
                ("type", text("output_text")),
                ("text", text(&said.text)),
                ("annotations", list(annotations)),
                ("logprobs", logprobs),
            ])
        }
        Piece::Refusal(words) => object([("type", text("refusal")), ("refusal", text(words))]),
        _ => Json::Null,
    }
}

fn annotation(url: &str, words: &str) -> Json {
    object([
        ("type", text("url_citation")),
        ("start_index", number("0")),
        ("end_index", number(words.chars().count().to_string())),
        ("url", text(url)),
        ("title", text("T")),
    ])
}

fn item(piece: &Piece, at: usize) -> Json {
    match piece {
        Piece::Thought(words, seal) => {
            let mut summary = Vec::new();
            if !words.is_empty() {
                summary.push(object([
                    ("type", text("summary_text")),
                    ("text", text(words)),
                ]));
            }
            let mut item = object([
                ("type", text("reasoning")),
                ("id", text(format!("rs_{at}"))),
                ("summary", list(summary)),
            ]);
            if let Some(seal) = seal {
                item.set("encrypted_content", text(seal));
            }
            item
        }
        Piece::Text(_) | Piece::Refusal(_) => object([
            ("type", text("message")),
            ("id", text(format!("msg_{at}"))),
            ("status", text("completed")),
            ("role", text("assistant")),
            ("content", list(vec![content(piece)])),
        ]),
        Piece::Call(call) => {
            let (kind, member) = match call.custom {
                true => ("custom_tool_call", "input"),
                false => ("function_call", "arguments"),
            };
            object([
                ("type", text(kind)),
                ("id", text(format!("fc_{at}"))),
                ("status", text("completed")),
                ("call_id", text(&call.id)),
                ("name", text(&call.name)),
                (member, text(&call.arguments)),
            ])
        }
        Piece::Image(data) => object([
            ("type", text("image_generation_call")),
            ("id", text(format!("ig_{at}"))),
            ("status", text("completed")),
            ("output_format", text("png")),
            ("result", text(data)),
        ]),
        Piece::Hosted => object([
            ("type", text("web_search_call")),
            ("id", text(format!("ws_{at}"))),
            ("status", text("completed")),
        ]),
    }
}

pub(super) fn whole(answer: &Answer) -> Json {
    let choice = &answer.choices[0];
    let items = choice.pieces.iter().enumerate();
    let items = items.map(|(at, piece)| item(piece, at)).collect();
    response(choice, items, true)
}

pub(super) fn stream(source: &mut Source, answer: &Answer) -> String {
    let choice = &answer.choices[0];
    let mut events = Vec::new();
    for kind in ["response.created", "response.in_progress"] {
        let response = response(choice, Vec::new(), false);
        events.push(object([("type", text(kind)), ("response", response)]));
    }
    let mut items: Vec<Vec<Json>> = Vec::new();
    for (at, piece) in choice.pieces.iter().enumerate() {
        items.push(said(source, piece, at));
    }
    // Items begin in their order; what comes of several may be mixed where they are calls.
    let calls = choice
        .pieces
        .iter()
        .all(|piece| matches!(piece, Piece::Call(_)));
    if calls && source.once_in(2) {
        events.extend(items.iter_mut().map(|events| events.remove(0)));
        events.extend(mixed(source, items));
    } else {
        events.extend(items.into_iter().flatten());
    }
    let output = whole(answer).get("output").list().to_vec();
    let response = response(choice, output, true);
    let kind = format!("response.{}", response.get("status").str());
    events.push(object([("type", text(kind)), ("response", response)]));
    let mut out = String::new();
    for (at, event) in events.iter_mut().enumerate() {
        event.set("sequence_number", number(at.to_string()));
        out.push_str(&named(event));
    }
    out
}

/// The events of an item.
fn said(source: &mut Source, piece: &Piece, at: usize) -> Vec<Json> {
    let whole = item(piece, at);
    let place = number(at.to_string());
    let id = whole.get("id").clone();
    let of_item = |kind: &str, item: Json| {
        object([
            ("type", text(kind)),
            ("output_index", place.clone()),
            ("item", item),
        ])
    };
    let event = |kind: &str| {
        object([
            ("type", text(format!("response.{kind}"))),
            ("item_id", id.clone()),
            ("output_index", place.clone()),
        ])
    };
    let mut begun = whole.clone();
    for (key, empty) in [
        ("summary", list(Vec::new())),
        ("content", list(Vec::new())),
        ("arguments", text("")),
        ("input", text("")),
        ("result", Json::Null),
    ] {
        if begun.has(key) {
            begun.set(key, empty);
        }
    }
    let mut events = vec![of_item("response.output_item.added", begun)];
    match piece {
        Piece::Thought(words, _) if !words.is_empty() => {
            for mut event in spoken(source, words, "reasoning_summary_text", "text", &event) {
                event.set("summary_index", number("0"));
                events.push(event);
            }
        }
        Piece::Text(Text {
            text: words,
            cited,
            probable,
            ..
        }) => {
            let mut part = event("content_part.added");
            part.set(
                "part",
                object([("type", text("output_text")), ("text", text(""))]),
            );
            let mut all = vec![part];
            all.extend(spoken(source, words, "output_text", "text", &event));
            if *probable && let Some(done) = all.iter_mut().find(|event| event.has("delta")) {
                done.set("logprobs", super::probable(words));
            }
            if let Some(url) = cited {
                let mut one = event("output_text.annotation.added");
                one.set("annotation_index", number("0"));
                one.set("annotation", annotation(url, words));
                all.push(one);
            }
            let mut part = event("content_part.done");
            part.set("part", content(piece));
            all.push(part);
            for mut event in all {
                event.set("content_index", number("0"));
                events.push(event);
            }
        }
        Piece::Refusal(words) => {
            let mut part = event("content_part.added");
            part.set(
                "part",
                object([("type", text("refusal")), ("refusal", text(""))]),
            );
            let mut all = vec![part];
            all.extend(spoken(source, words, "refusal", "refusal", &event));
            let mut part = event("content_part.done");
            part.set("part", content(piece));
            all.push(part);
            for mut event in all {
                event.set("content_index", number("0"));
                events.push(event);
            }
        }
        Piece::Call(call) => {
            let (kind, key) = match call.custom {
                true => ("custom_tool_call_input", "input"),
                false => ("function_call_arguments", "arguments"),
            };
            events.extend(spoken(source, &call.arguments, kind, key, &event));
        }
        _ => {}
    }
    events.push(of_item("response.output_item.done", whole));
    events
}

/// Deltas and their end. Sometimes only the end tells.
fn spoken(
    source: &mut Source,
    words: &str,
    kind: &str,
    key: &str,
    event: &dyn Fn(&str) -> Json,
) -> Vec<Json> {
    let mut events = Vec::new();
    let told_in_pieces = !kind.ends_with("arguments") || !source.once_in(4);
    for piece in cut(source, words) {
        if told_in_pieces {
            let mut delta = event(&format!("{kind}.delta"));
            delta.set("delta", text(piece));
            events.push(delta);
        }
    }
    let mut done = event(&format!("{kind}.done"));
    done.set(key, text(words));
    events.push(done);
    events
}
