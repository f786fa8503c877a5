//! Requests of Anthropic's Messages.

use super::{parts, schema, text, texts, unless, without};
use crate::json::Json;

pub(super) fn request(body: &Json) -> Json {
    let mut body = without(body, &["model", "stream"]);
    body.set(
        "system",
        text(texts(&parts(body.get("system"), "text"), "\n\n")),
    );
    let mut messages: Vec<Json> = Vec::new();
    for message in body.get("messages").list() {
        let role = message.get("role").clone();
        let mut blocks = parts(message.get("content"), "text");
        // Thoughts go to their maker alone.
        blocks.retain(|block| !block.get("type").str().ends_with("thinking"));
        blocks.iter_mut().for_each(result);
        // Turns of one side that follow each other are one.
        match messages.last_mut() {
            Some(last) if *last.get("role") == role => {
                let mut all = last.get("content").list().to_vec();
                all.extend(blocks);
                last.set("content", Json::List(all));
            }
            _ => {
                let mut message = without(message, &[]);
                message.set("content", Json::List(blocks));
                messages.push(message);
            }
        }
    }
    for message in &mut messages {
        let mut blocks = message.get("content").list().to_vec();
        // Results come first, in the order of their calls.
        blocks.sort_by_key(|block| match block.get("type").str() {
            "tool_result" => (0, block.get("tool_use_id").str().to_owned()),
            _ => (1, String::new()),
        });
        message.set("content", Json::List(blocks));
    }
    body.set("messages", Json::List(messages));
    let tools = body.get("tools").list().iter().map(|tool| {
        let mut tool = without(tool, &[]);
        schema(&mut tool, "input_schema");
        unless(&mut tool, "type", &["\"custom\""]);
        unless(&mut tool, "strict", &["false"]);
        tool
    });
    let tools = tools.collect();
    body.set("tools", Json::List(tools));
    unless(&mut body, "tool_choice", &[r#"{"type":"auto"}"#]);
    unless(&mut body, "service_tier", &["\"auto\""]);
    body
}

/// What a tool gave as blocks, its texts as one.
fn result(block: &mut Json) {
    if block.get("type").str() != "tool_result" {
        return;
    }
    let given = parts(block.get("content"), "text");
    let (said, mut other): (Vec<Json>, Vec<Json>) =
        given.into_iter().partition(|part| part.has("text"));
    let said = texts(&said, "\n");
    if !said.is_empty() {
        other.insert(
            0,
            Json::object([("type", text("text")), ("text", text(said))]),
        );
    }
    block.set("content", Json::List(other));
    unless(block, "is_error", &["false"]);
}
