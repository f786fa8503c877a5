//! What few callers ask for, and what only one dialect has.

use switchboard_dialects::convert::Format;

use super::source::Source;
use super::{list, number, object, text, truth};
use crate::json::Json;

/// Adds one such thing.
pub(super) fn add(source: &mut Source, caller: Format, body: &mut Json) {
    match caller {
        Format::Chat => chat(source, body),
        Format::Responses => responses(source, body),
        Format::Anthropic => anthropic(source, body),
        Format::Gemini => gemini(source, body),
    }
}

fn push(body: &mut Json, key: &str, item: Json) {
    let mut items = body.get(key).list().to_vec();
    items.push(item);
    body.set(key, list(items));
}

fn turn(role: &str, parts: Vec<Json>) -> Json {
    object([("role", text(role)), ("content", list(parts))])
}

fn chat(source: &mut Source, body: &mut Json) {
    match source.pick(6) {
        0 => {
            body.set("modalities", list(vec![text("text"), text("audio")]));
            let audio = object([("voice", text("alloy")), ("format", text("wav"))]);
            body.set("audio", audio);
        }
        1 => {
            let file = object([("file_id", text("file-1"))]);
            let part = object([("type", text("file")), ("file", file)]);
            push(body, "messages", turn("user", vec![part]));
        }
        2 if !body.has("tools") => {
            let name = format!("f_{}", source.mark());
            let declared = object([("name", text(&name)), ("description", text(source.mark()))]);
            body.set("functions", list(vec![declared]));
            body.set("function_call", object([("name", text(&name))]));
            let call = object([("name", text(&name)), ("arguments", text("{}"))]);
            let said = [
                ("role", text("assistant")),
                ("content", Json::Null),
                ("function_call", call),
            ];
            push(body, "messages", object(said));
            let given = [
                ("role", text("function")),
                ("name", text(name)),
                ("content", text(source.mark())),
            ];
            push(body, "messages", object(given));
        }
        3 => {
            let prediction = object([("type", text("content")), ("content", text(source.mark()))]);
            body.set("prediction", prediction);
        }
        4 => {
            let said = [
                ("role", text("assistant")),
                ("audio", object([("id", text("audio_1"))])),
            ];
            push(body, "messages", object(said));
        }
        _ => body.set(
            "web_search_options",
            object([("search_context_size", text(source.mark()))]),
        ),
    }
}

fn responses(source: &mut Source, body: &mut Json) {
    match source.pick(8) {
        0 => body.set("previous_response_id", text("resp_1")),
        1 => body.set("conversation", Json::Null),
        2 => body.set("prompt", object([("id", text("pmpt_1"))])),
        3 => body.set("background", truth(true)),
        4 => push(body, "tools", object([("type", text("web_search"))])),
        5 => {
            let kind = source.one(&[
                "web_search_call",
                "item_reference",
                "compaction",
                "mcp_call",
            ]);
            let item = object([
                ("type", text(kind)),
                ("id", text("x_1")),
                ("status", text("completed")),
            ]);
            push(body, "input", item);
        }
        6 => {
            let part = object([("type", text("input_image")), ("file_id", text("file-1"))]);
            push(body, "input", turn("user", vec![part]));
        }
        _ => body.set("max_tool_calls", number(source.whole())),
    }
}

fn anthropic(source: &mut Source, body: &mut Json) {
    match source.pick(6) {
        0 => {
            let kind = text("web_search_20250305");
            push(
                body,
                "tools",
                object([("type", kind), ("name", text("web_search"))]),
            );
        }
        1 => {
            let file = object([("type", text("file")), ("file_id", text("file_1"))]);
            let part = object([("type", text("image")), ("source", file)]);
            push(body, "messages", turn("user", vec![part]));
        }
        2 => {
            let used = object([
                ("type", text("server_tool_use")),
                ("id", text("srvtoolu_1")),
                ("name", text("web_search")),
                ("input", object([])),
            ]);
            push(body, "messages", turn("assistant", vec![used]));
        }
        3 => {
            let words = object([
                ("type", text("text")),
                ("media_type", text("text/plain")),
                ("data", text(source.text())),
            ]);
            let cited = object([("enabled", truth(false))]);
            let part = object([
                ("type", text("document")),
                ("source", words),
                ("title", text(source.mark())),
                ("context", text(source.mark())),
                ("citations", cited),
            ]);
            push(body, "messages", turn("user", vec![part]));
        }
        4 => body.set("container", text(source.mark())),
        _ => body.set("inference_geo", text(source.mark())),
    }
}

fn gemini(source: &mut Source, body: &mut Json) {
    let parts = |part: Json| object([("role", text("user")), ("parts", list(vec![part]))]);
    match source.pick(5) {
        0 => body.set("cachedContent", text("cachedContents/1")),
        1 => push(body, "tools", object([("googleSearch", object([]))])),
        2 => {
            let config = object([("responseModalities", list(vec![text("AUDIO")]))]);
            body.set("generationConfig", config);
        }
        3 => {
            let place = text(format!("gs://bucket/{}.png", source.mark()));
            let file = object([("mimeType", text("image/png")), ("fileUri", place)]);
            push(body, "contents", parts(object([("fileData", file)])));
        }
        _ => {
            let data = object([
                ("mimeType", text("video/mp4")),
                ("data", text(format!("{}AAAA", source.mark()))),
            ]);
            push(body, "contents", parts(object([("inlineData", data)])));
        }
    }
}
