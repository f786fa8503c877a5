//! Requests for chat completions.

use super::conversation::{Call, Conversation, Given, Model, Shown, Tool, Turn, schema_of};
use super::source::Source;
use super::{list, number, object, text, truth};
use crate::json::Json;

pub(super) fn request(source: &mut Source, said: &Conversation) -> Json {
    let mut messages = Vec::new();
    for words in &said.system {
        messages.push(instructions(source, words));
    }
    for turn in &said.turns {
        match turn {
            Turn::Instructions(words) => messages.push(instructions(source, words)),
            Turn::User(parts) => {
                let content = content(source, parts);
                messages.push(object([("role", text("user")), ("content", content)]));
            }
            Turn::Model(model) => messages.push(assistant(source, model)),
            Turn::Results(results) => {
                for given in results {
                    messages.push(tool_message(source, given));
                }
            }
        }
    }
    let mut body = object([
        ("model", text("public-model")),
        ("messages", list(messages)),
    ]);
    tools(source, said, &mut body);
    settings(source, &mut body);
    body
}

fn instructions(source: &mut Source, words: &str) -> Json {
    let role = source.one(&["system", "developer"]);
    let content = content(source, &[Shown::Text(words.to_owned())]);
    object([("role", text(role)), ("content", content)])
}

fn content(source: &mut Source, parts: &[Shown]) -> Json {
    if let [Shown::Text(words)] = parts
        && source.once_in(2)
    {
        return text(words);
    }
    let part = |part: &Shown| match part {
        Shown::Text(words) => object([("type", text("text")), ("text", text(words))]),
        Shown::Image(image) => {
            let url = match image {
                Ok(url) => url.clone(),
                Err((mime, data)) => format!("data:{mime};base64,{data}"),
            };
            object([
                ("type", text("image_url")),
                ("image_url", object([("url", text(url))])),
            ])
        }
        Shown::Document(data, name) => {
            let data = format!("data:application/pdf;base64,{data}");
            let file = object([("file_data", text(data)), ("filename", text(name))]);
            object([("type", text("file")), ("file", file)])
        }
        Shown::Found(..) => Json::Null,
        Shown::Audio(data) => {
            let sound = object([("data", text(data)), ("format", text("wav"))]);
            object([("type", text("input_audio")), ("input_audio", sound)])
        }
    };
    let mut parts: Vec<Json> = parts.iter().map(part).collect();
    if let Some(last) = parts.last_mut()
        && source.once_in(5)
    {
        let mode = object([("mode", text("explicit"))]);
        last.set("prompt_cache_breakpoint", mode);
    }
    list(parts)
}

fn assistant(source: &mut Source, model: &Model) -> Json {
    let mut message = object([("role", text("assistant"))]);
    let parts: Vec<Shown> = model.texts.iter().cloned().map(Shown::Text).collect();
    match parts.is_empty() {
        true if source.once_in(2) => {}
        true => message.set("content", Json::Null),
        false => message.set("content", content(source, &parts)),
    }
    if let Some(words) = &model.refusal {
        message.set("refusal", text(words));
    }
    let thoughts: String = model
        .thoughts
        .iter()
        .map(|thought| &*thought.text)
        .collect();
    if !thoughts.is_empty() {
        message.set("reasoning_content", text(thoughts));
    }
    let mut details = Vec::new();
    for thought in &model.thoughts {
        let Some(seal) = &thought.seal else { continue };
        details.push(match thought.text.is_empty() {
            true => object([("type", text("reasoning.encrypted")), ("data", text(seal))]),
            false => object([
                ("type", text("reasoning.text")),
                ("text", text(&thought.text)),
                ("signature", text(seal)),
            ]),
        });
    }
    if !details.is_empty() {
        message.set("reasoning_details", list(details));
    }
    if !model.calls.is_empty() {
        message.set("tool_calls", list(model.calls.iter().map(call).collect()));
    }
    message
}

fn call(call: &Call) -> Json {
    let (kind, member) = match call.custom {
        true => ("custom", "input"),
        false => ("function", "arguments"),
    };
    let inner = object([("name", text(&call.name)), (member, text(&call.arguments))]);
    let mut said = object([("id", text(&call.id)), ("type", text(kind)), (kind, inner)]);
    if let Some(seal) = &call.seal {
        let google = object([("thought_signature", text(seal))]);
        said.set("extra_content", object([("google", google)]));
    }
    said
}

fn tool_message(source: &mut Source, given: &Given) -> Json {
    let content = match given.shown.is_empty() {
        true => text(""),
        false => content(source, &given.shown),
    };
    object([
        ("role", text("tool")),
        ("tool_call_id", text(&given.call.id)),
        ("content", content),
    ])
}

fn tool(tool: &Tool) -> Json {
    let mut inner = object([("name", text(&tool.name))]);
    if let Some(words) = &tool.description {
        inner.set("description", text(words));
    }
    if let Some(schema) = &tool.schema {
        inner.set("parameters", schema.clone());
    }
    if let Some(strict) = tool.strict {
        inner.set("strict", truth(strict));
    }
    let kind = if tool.custom { "custom" } else { "function" };
    object([("type", text(kind)), (kind, inner)])
}

fn named(tool: &Tool) -> Json {
    let kind = if tool.custom { "custom" } else { "function" };
    object([
        ("type", text(kind)),
        (kind, object([("name", text(&tool.name))])),
    ])
}

fn tools(source: &mut Source, said: &Conversation, body: &mut Json) {
    let Some(first) = said.tools.first() else {
        return;
    };
    body.set("tools", list(said.tools.iter().map(tool).collect()));
    let choice = match source.pick(8) {
        3 => text("none"),
        4 => text("auto"),
        5 => text("required"),
        6 => named(first),
        7 => {
            let mode = text(source.one(&["auto", "required"]));
            let allowed = object([("mode", mode), ("tools", list(vec![named(first)]))]);
            object([("type", text("allowed_tools")), ("allowed_tools", allowed)])
        }
        _ => return,
    };
    body.set("tool_choice", choice);
    if source.once_in(3) {
        body.set("parallel_tool_calls", truth(source.once_in(2)));
    }
}

fn settings(source: &mut Source, body: &mut Json) {
    for name in [
        "temperature",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
    ] {
        if source.once_in(4) {
            body.set(name, number(source.fraction()));
        }
    }
    if source.once_in(6) {
        let most: &[&str] = if source.wrong_once_in(2) {
            &["2.5", "-1"]
        } else {
            &["2", "1.3"]
        };
        body.set("temperature", number(source.one(most)));
    }
    for name in ["max_completion_tokens", "max_tokens"] {
        if source.once_in(4) {
            body.set(
                name,
                number(source.one(&["1", "16", "5000", "200000", "4000000000"])),
            );
        }
    }
    if source.once_in(4) {
        body.set("seed", number(source.whole()));
    }
    if source.once_in(12) {
        body.set("n", number(source.one(&["1", "3"])));
    }
    if source.once_in(10) {
        body.set("logprobs", truth(true));
        body.set("top_logprobs", number(source.one(&["0", "5", "20"])));
    }
    if source.once_in(5) {
        body.set("logit_bias", object([("50256", number("-100"))]));
    }
    match source.pick(5) {
        3 => body.set("stop", text(source.text())),
        4 => {
            let stops = (0..source.pick(5)).map(|_| text(source.text())).collect();
            body.set("stop", list(stops));
        }
        _ => {}
    }
    if source.once_in(4) {
        let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        body.set("reasoning_effort", text(source.one(&efforts)));
    }
    match source.pick(6) {
        3 => body.set("response_format", object([("type", text("text"))])),
        4 => body.set("response_format", object([("type", text("json_object"))])),
        5 => {
            let mut schema = object([("name", text("a-schema")), ("schema", schema_of(source))]);
            if source.once_in(2) {
                schema.set("strict", truth(source.once_in(2)));
                schema.set("description", text(source.text()));
            }
            let format = object([("type", text("json_schema")), ("json_schema", schema)]);
            body.set("response_format", format);
        }
        _ => {}
    }
    for name in ["user", "safety_identifier", "prompt_cache_key"] {
        if source.once_in(6) {
            body.set(name, text(source.mark()));
        }
    }
    for (name, value) in [
        ("store", truth(true)),
        ("service_tier", text("flex")),
        ("verbosity", text("low")),
        ("metadata", object([("k", text("v"))])),
        ("stream_options", Json::Null),
        ("modalities", list(vec![text("text")])),
    ] {
        if source.once_in(8) {
            body.set(name, value);
        }
    }
}
