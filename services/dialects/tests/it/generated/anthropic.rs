//! Requests of Anthropic's Messages.

use super::conversation::{Conversation, Given, Model, Shown, Turn, schema_of};
use super::source::Source;
use super::{list, number, object, text, truth};
use crate::json::Json;

pub(super) fn request(source: &mut Source, said: &Conversation) -> Json {
    let mut turns: Vec<(&str, Vec<Json>)> = Vec::new();
    for turn in &said.turns {
        match turn {
            Turn::Instructions(words) => turns.push(("system", vec![block(words)])),
            Turn::User(parts) => {
                let parts = parts.iter().map(shown);
                // What follows results is said with them, or apart.
                match turns.last_mut() {
                    Some(("user", blocks)) if source.once_in(2) => blocks.extend(parts),
                    _ => turns.push(("user", parts.collect())),
                }
            }
            Turn::Model(model) => turns.push(("assistant", spoken(model))),
            Turn::Results(results) => turns.push(("user", results.iter().map(result).collect())),
        }
    }
    let message = |(role, mut blocks): (&str, Vec<Json>)| {
        let plain = match &*blocks {
            [only] if only.get("type").str() == "text" => Some(only.get("text").clone()),
            _ => None,
        };
        let content = match plain {
            Some(words) if source.once_in(2) => words,
            _ => {
                marked(source, &mut blocks);
                list(blocks)
            }
        };
        object([("role", text(role)), ("content", content)])
    };
    let messages = turns.into_iter().map(message).collect();
    let mut body = object([
        ("model", text("public-model")),
        ("messages", list(messages)),
    ]);
    let limits = ["1", "1025", "5000", "200000"];
    body.set("max_tokens", number(source.one(&limits)));
    match &*said.system {
        [] => {}
        [only] if source.once_in(2) => body.set("system", text(only)),
        all => {
            let mut blocks: Vec<Json> = all.iter().map(|words| block(words)).collect();
            marked(source, &mut blocks);
            body.set("system", list(blocks));
        }
    }
    tools(source, said, &mut body);
    settings(source, &mut body);
    body
}

/// A cache mark on the last block, now and then.
fn marked(source: &mut Source, blocks: &mut [Json]) {
    let Some(last) = blocks.last_mut().filter(|_| source.once_in(6)) else {
        return;
    };
    let thinks = last.get("type").str().ends_with("thinking");
    if !thinks {
        let mut mark = object([("type", text("ephemeral"))]);
        if source.once_in(2) {
            mark.set("ttl", text("1h"));
        }
        last.set("cache_control", mark);
    }
}

fn block(words: &str) -> Json {
    object([("type", text("text")), ("text", text(words))])
}

fn shown(part: &Shown) -> Json {
    let (kind, source) = match part {
        Shown::Text(words) => return block(words),
        Shown::Image(Ok(url)) => ("image", object([("type", text("url")), ("url", text(url))])),
        Shown::Image(Err((mime, data))) => ("image", base64(mime, data)),
        Shown::Document(data, name) => {
            let source = base64("application/pdf", data);
            return object([
                ("type", text("document")),
                ("source", source),
                ("title", text(name)),
            ]);
        }
        Shown::Audio(_) => return block("(sound)"),
        Shown::Found(place, title, words) => {
            return object([
                ("type", text("search_result")),
                ("source", text(place)),
                ("title", text(title)),
                ("content", list(vec![block(words)])),
            ]);
        }
    };
    object([("type", text(kind)), ("source", source)])
}

fn base64(mime: &str, data: &str) -> Json {
    object([
        ("type", text("base64")),
        ("media_type", text(mime)),
        ("data", text(data)),
    ])
}

fn spoken(model: &Model) -> Vec<Json> {
    let mut blocks = Vec::new();
    for thought in &model.thoughts {
        let seal = thought.seal.clone().unwrap_or_default();
        blocks.push(match thought.text.is_empty() && !seal.is_empty() {
            true => object([("type", text("redacted_thinking")), ("data", text(seal))]),
            false => object([
                ("type", text("thinking")),
                ("thinking", text(&thought.text)),
                ("signature", text(seal)),
            ]),
        });
    }
    blocks.extend(model.texts.iter().map(|words| block(words)));
    blocks.extend(model.calls.iter().map(|call| {
        object([
            ("type", text("tool_use")),
            ("id", text(&call.id)),
            ("name", text(&call.name)),
            ("input", Json::parse(&call.arguments).unwrap()),
        ])
    }));
    blocks
}

fn result(given: &Given) -> Json {
    let mut said = object([
        ("type", text("tool_result")),
        ("tool_use_id", text(&given.call.id)),
    ]);
    match &*given.shown {
        [] => {}
        [Shown::Text(words)] => said.set("content", text(words)),
        parts => said.set("content", list(parts.iter().map(shown).collect())),
    }
    if given.failed {
        said.set("is_error", truth(true));
    }
    said
}

fn tools(source: &mut Source, said: &Conversation, body: &mut Json) {
    let Some(first) = said.tools.first() else {
        return;
    };
    let tool = |tool: &super::conversation::Tool| {
        let mut one = object([("name", text(&tool.name))]);
        if let Some(words) = &tool.description {
            one.set("description", text(words));
        }
        let schema = tool.schema.clone();
        one.set(
            "input_schema",
            schema.unwrap_or_else(|| object([("type", text("object"))])),
        );
        if let Some(strict) = tool.strict {
            one.set("strict", truth(strict));
        }
        one
    };
    let mut all: Vec<Json> = said.tools.iter().map(tool).collect();
    marked(source, &mut all);
    body.set("tools", list(all));
    let mut choice = match source.pick(7) {
        3 => object([("type", text("none"))]),
        4 => object([("type", text("auto"))]),
        5 => object([("type", text("any"))]),
        6 => object([("type", text("tool")), ("name", text(&first.name))]),
        _ => return,
    };
    if choice.get("type").str() != "none" && source.once_in(3) {
        choice.set("disable_parallel_tool_use", truth(source.once_in(2)));
    }
    body.set("tool_choice", choice);
}

fn settings(source: &mut Source, body: &mut Json) {
    for name in ["temperature", "top_p"] {
        if source.once_in(4) {
            body.set(name, number(source.fraction()));
        }
    }
    if source.wrong_once_in(6) {
        body.set("temperature", number(source.one(&["1.5", "-1"])));
    }
    if source.once_in(5) {
        body.set("top_k", number(source.whole()));
    }
    if source.once_in(4) {
        let stops = (0..source.pick(7)).map(|_| text(source.text())).collect();
        body.set("stop_sequences", list(stops));
    }
    let limit = body.get("max_tokens").whole().unwrap_or(0);
    match source.pick(6) {
        3 if limit > 1024 => {
            let budget = object([("type", text("enabled")), ("budget_tokens", number("1024"))]);
            body.set("thinking", budget);
        }
        4 => body.set("thinking", object([("type", text("disabled"))])),
        5 => {
            let mut thinking = object([("type", text("adaptive"))]);
            if source.once_in(2) {
                thinking.set("display", text("omitted"));
            }
            body.set("thinking", thinking);
        }
        _ => {}
    }
    match source.pick(6) {
        4 => {
            let effort = text(source.one(&["low", "medium", "high", "xhigh", "max"]));
            body.set("output_config", object([("effort", effort)]));
        }
        5 => {
            let format = object([("type", text("json_schema")), ("schema", schema_of(source))]);
            body.set("output_config", object([("format", format)]));
        }
        _ => {}
    }
    if source.once_in(5) {
        body.set("metadata", object([("user_id", text(source.mark()))]));
    }
    if source.once_in(8) {
        body.set("service_tier", text("standard_only"));
    }
    if source.once_in(8) {
        body.set("cache_control", object([("type", text("ephemeral"))]));
    }
}
