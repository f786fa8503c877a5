//! Requests of the Responses API.

use super::{parts, schema, text, texts, unless, without};
use crate::json::Json;

pub(super) fn request(body: &Json) -> Json {
    let mut body = without(body, &["model", "stream", "stream_options", "store"]);
    let mut instructions: Vec<String> = body
        .get("instructions")
        .text()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let said = match body.get("input") {
        Json::Text(words) => vec![Json::object([
            ("role", text("user")),
            ("content", text(words)),
        ])],
        items => items.list().to_vec(),
    };
    let mut items: Vec<Json> = Vec::new();
    for item in said {
        let mut item = without(&item, &["id", "status", "phase"]);
        // Thoughts go to their maker alone.
        if item.get("type").str() == "reasoning" {
            continue;
        }
        let role = item.get("role").str().to_owned();
        if !item.has("type") {
            item.set("type", text("message"));
        }
        let kind = if role == "assistant" {
            "output_text"
        } else {
            "input_text"
        };
        let content = parts(item.get("content"), kind);
        match item.get("type").str() {
            "message" if matches!(&*role, "system" | "developer") && items.is_empty() => {
                instructions.push(texts(&content, "\n\n"));
                continue;
            }
            "message" => {
                if role == "developer" {
                    item.set("role", text("system"));
                }
                item.set("content", Json::List(content.iter().map(bare).collect()));
            }
            kind if kind.ends_with("_output") => {
                let given = item.get("output").list();
                let given: Vec<Json> = given.iter().map(bare).collect();
                if !given.is_empty() && given.iter().all(|part| part.has("text")) {
                    item.set("output", text(texts(&given, "\n")));
                } else if !given.is_empty() {
                    item.set("output", Json::List(given));
                }
            }
            _ => {}
        }
        items.push(item);
    }
    // Results come in the order of their calls.
    let output = |item: &Json| item.get("type").str().ends_with("_output");
    for group in items.chunk_by_mut(|one, other| output(one) && output(other)) {
        group.sort_by_key(|item| item.get("call_id").str().to_owned());
    }
    body.set("input", Json::List(items));
    body.set("instructions", text(instructions.join("\n\n")));
    let tools = body.get("tools").list().iter().map(|tool| {
        let mut tool = without(tool, &[]);
        schema(&mut tool, "parameters");
        unless(&mut tool, "strict", &["false"]);
        tool
    });
    let tools = tools.collect();
    body.set("tools", Json::List(tools));
    let mut include = body.get("include").list().to_vec();
    include.retain(|item| item.str() != "reasoning.encrypted_content");
    body.set("include", Json::List(include));
    unless(&mut body, "service_tier", &["\"auto\""]);
    unless(&mut body, "truncation", &["\"disabled\""]);
    unless(&mut body, "tool_choice", &["\"auto\""]);
    unless(&mut body, "parallel_tool_calls", &["true"]);
    body
}

fn bare(part: &Json) -> Json {
    let mut part = without(part, &["annotations", "logprobs"]);
    unless(&mut part, "detail", &["\"auto\""]);
    part
}
