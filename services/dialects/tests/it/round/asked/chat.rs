//! Chat's requests.

use super::{parts, rename, schema, text, texts, unless, without};
use crate::json::Json;

/// They go to their maker alone.
const THOUGHTS: &[&str] = &["reasoning", "reasoning_content", "reasoning_details"];

pub(super) fn request(body: &Json) -> Json {
    let mut body = without(body, &["model", "stream", "stream_options", "store"]);
    let mut instructions = Vec::new();
    let mut messages: Vec<Json> = Vec::new();
    for message in body.get("messages").list() {
        let mut message = without(message, THOUGHTS);
        let role = message.get("role").str().to_owned();
        let mut said = parts(message.get("content"), "text");
        for part in &mut said {
            let mut image = part.get("image_url").clone();
            unless(&mut image, "detail", &["\"auto\""]);
            part.set("image_url", image);
        }
        match &*role {
            "system" | "developer" if messages.is_empty() => {
                instructions.push(texts(&said, "\n\n"));
                continue;
            }
            "developer" => message.set("role", text("system")),
            _ => {}
        }
        message.set(
            "content",
            match &*role {
                "user" => Json::List(said),
                "tool" => text(texts(&said, "\n")),
                _ => text(texts(&said, "")),
            },
        );
        messages.push(message);
    }
    // Results come in the order of their calls.
    for group in messages.chunk_by_mut(|one, other| {
        [one, other]
            .iter()
            .all(|message| message.get("role").str() == "tool")
    }) {
        group.sort_by_key(|message| message.get("tool_call_id").str().to_owned());
    }
    if !instructions.is_empty() {
        let first = [
            ("role", text("system")),
            ("content", text(instructions.join("\n\n"))),
        ];
        messages.insert(0, Json::object(first));
    }
    body.set("messages", Json::List(messages));
    tools(&mut body);
    rename(&mut body, "max_tokens", "max_completion_tokens");
    if body.get("stop").is_text() {
        body.set("stop", Json::List(vec![body.get("stop").clone()]));
    }
    for name in ["frequency_penalty", "presence_penalty"] {
        unless(&mut body, name, &["0"]);
    }
    unless(&mut body, "n", &["1"]);
    unless(&mut body, "service_tier", &["\"auto\""]);
    unless(&mut body, "tool_choice", &["\"auto\""]);
    unless(&mut body, "parallel_tool_calls", &["true"]);
    body
}

fn tools(body: &mut Json) {
    let tools = body.get("tools").list().iter().map(|tool| {
        let mut tool = tool.clone();
        let mut function = without(tool.get("function"), &[]);
        schema(&mut function, "parameters");
        unless(&mut function, "strict", &["false"]);
        if tool.has("function") {
            tool.set("function", function);
        }
        tool
    });
    let tools = tools.collect();
    body.set("tools", Json::List(tools));
}
