//! Requests of the Responses API.

use super::conversation::{Call, Conversation, Given, Model, Shown, Tool, Turn, schema_of};
use super::source::Source;
use super::{list, number, object, text, truth};
use crate::json::Json;

pub(super) fn request(source: &mut Source, said: &Conversation) -> Json {
    let mut body = object([("model", text("public-model"))]);
    let mut items = Vec::new();
    for (at, words) in said.system.iter().enumerate() {
        if at == 0 && source.once_in(2) {
            body.set("instructions", text(words));
        } else {
            let role = source.one(&["system", "developer"]);
            items.push(message(source, role, &[Shown::Text(words.clone())]));
        }
    }
    for turn in &said.turns {
        match turn {
            Turn::Instructions(words) => {
                let role = source.one(&["system", "developer"]);
                items.push(message(source, role, &[Shown::Text(words.clone())]));
            }
            Turn::User(parts) => items.push(message(source, "user", parts)),
            Turn::Model(model) => spoken(source, model, &mut items),
            Turn::Results(results) => items.extend(results.iter().map(output)),
        }
    }
    body.set("input", list(items));
    tools(source, said, &mut body);
    settings(source, &mut body);
    body
}

fn message(source: &mut Source, role: &'static str, parts: &[Shown]) -> Json {
    let content = match parts {
        [Shown::Text(words)] if source.once_in(2) => text(words),
        parts => list(parts.iter().map(|part| shown(part, role)).collect()),
    };
    let mut message = object([("role", text(role)), ("content", content)]);
    if source.once_in(2) {
        message.set("type", text("message"));
    }
    if role == "assistant" && source.once_in(3) {
        message.set("id", text("msg_1"));
        message.set("status", text("completed"));
        message.set("phase", text("commentary"));
    }
    message
}

fn shown(part: &Shown, role: &str) -> Json {
    match part {
        Shown::Text(words) if role == "assistant" => object([
            ("type", text("output_text")),
            ("text", text(words)),
            ("annotations", list(Vec::new())),
        ]),
        Shown::Text(words) => object([("type", text("input_text")), ("text", text(words))]),
        Shown::Image(image) => {
            let url = match image {
                Ok(url) => url.clone(),
                Err((mime, data)) => format!("data:{mime};base64,{data}"),
            };
            object([
                ("type", text("input_image")),
                ("image_url", text(url)),
                ("detail", text("auto")),
            ])
        }
        Shown::Document(data, name) => object([
            ("type", text("input_file")),
            (
                "file_data",
                text(format!("data:application/pdf;base64,{data}")),
            ),
            ("filename", text(name)),
        ]),
        Shown::Found(..) => Json::Null,
        Shown::Audio(data) => {
            let sound = object([("data", text(data)), ("format", text("mp3"))]);
            object([("type", text("input_audio")), ("input_audio", sound)])
        }
    }
}

fn spoken(source: &mut Source, model: &Model, items: &mut Vec<Json>) {
    for thought in &model.thoughts {
        let mut summary = Vec::new();
        if !thought.text.is_empty() {
            summary.push(object([
                ("type", text("summary_text")),
                ("text", text(&thought.text)),
            ]));
        }
        let mut item = object([
            ("type", text("reasoning")),
            ("id", text("rs_1")),
            ("summary", list(summary)),
        ]);
        if let Some(seal) = &thought.seal {
            item.set("encrypted_content", text(seal));
        }
        items.push(item);
    }
    let words: Vec<Shown> = model.texts.iter().cloned().map(Shown::Text).collect();
    let mut said = Vec::new();
    if !words.is_empty() {
        said.push(message(source, "assistant", &words));
    }
    if let Some(words) = &model.refusal {
        let part = object([("type", text("refusal")), ("refusal", text(words))]);
        let content = list(vec![part]);
        said.push(object([("role", text("assistant")), ("content", content)]));
    }
    let calls: Vec<Json> = model.calls.iter().map(call).collect();
    // Items may come in any order.
    if source.once_in(4) {
        items.extend(calls);
        items.extend(said);
    } else {
        items.extend(said);
        items.extend(calls);
    }
}

fn call(call: &Call) -> Json {
    let (kind, member) = match call.custom {
        true => ("custom_tool_call", "input"),
        false => ("function_call", "arguments"),
    };
    object([
        ("type", text(kind)),
        ("id", text("fc_1")),
        ("call_id", text(&call.id)),
        ("name", text(&call.name)),
        (member, text(&call.arguments)),
    ])
}

fn output(given: &Given) -> Json {
    let kind = match given.call.custom {
        true => "custom_tool_call_output",
        false => "function_call_output",
    };
    let output = match &*given.shown {
        [] => text(""),
        [Shown::Text(words)] => text(words),
        parts => list(parts.iter().map(|part| shown(part, "user")).collect()),
    };
    object([
        ("type", text(kind)),
        ("call_id", text(&given.call.id)),
        ("output", output),
    ])
}

fn tool(tool: &Tool) -> Json {
    let kind = if tool.custom { "custom" } else { "function" };
    let mut said = object([("type", text(kind)), ("name", text(&tool.name))]);
    if let Some(words) = &tool.description {
        said.set("description", text(words));
    }
    if let Some(schema) = &tool.schema {
        said.set("parameters", schema.clone());
    }
    if let Some(strict) = tool.strict {
        said.set("strict", truth(strict));
    }
    said
}

fn named(tool: &Tool) -> Json {
    let kind = if tool.custom { "custom" } else { "function" };
    object([("type", text(kind)), ("name", text(&tool.name))])
}

fn tools(source: &mut Source, said: &Conversation, body: &mut Json) {
    let Some(first) = said.tools.first() else {
        return;
    };
    let mut tools: Vec<Json> = said.tools.iter().map(tool).collect();
    if tools.len() > 1 && source.once_in(5) {
        let inside = tools.split_off(tools.len() - 1);
        tools.push(object([
            ("type", text("namespace")),
            ("name", text("space")),
            ("tools", list(inside)),
        ]));
    }
    body.set("tools", list(tools));
    let choice = match source.pick(8) {
        3 => text("none"),
        4 => text("auto"),
        5 => text("required"),
        6 => named(first),
        7 => object([
            ("type", text("allowed_tools")),
            ("mode", text(source.one(&["auto", "required"]))),
            ("tools", list(vec![named(first)])),
        ]),
        _ => return,
    };
    body.set("tool_choice", choice);
    if source.once_in(3) {
        body.set("parallel_tool_calls", truth(source.once_in(2)));
    }
}

fn settings(source: &mut Source, body: &mut Json) {
    for name in ["temperature", "top_p"] {
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
    if source.once_in(3) {
        body.set(
            "max_output_tokens",
            number(source.one(&["16", "5000", "4000000000"])),
        );
    }
    if source.once_in(10) {
        body.set("top_logprobs", number(source.one(&["1", "20"])));
        body.set("include", list(vec![text("message.output_text.logprobs")]));
    }
    if source.once_in(4) {
        let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        let mut reasoning = object([("effort", text(source.one(&efforts)))]);
        if source.once_in(2) {
            reasoning.set("summary", text(source.one(&["auto", "detailed"])));
        }
        body.set("reasoning", reasoning);
    }
    match source.pick(6) {
        3 => body.set("text", object([("verbosity", text("low"))])),
        4 => {
            let format = object([("type", text("json_object"))]);
            body.set("text", object([("format", format)]));
        }
        5 => {
            let mut format = object([
                ("type", text("json_schema")),
                ("name", text("a-schema")),
                ("schema", schema_of(source)),
            ]);
            if source.once_in(2) {
                format.set("strict", truth(source.once_in(2)));
                format.set("description", text(source.text()));
            }
            body.set("text", object([("format", format)]));
        }
        _ => {}
    }
    for name in ["user", "safety_identifier", "prompt_cache_key"] {
        if source.once_in(6) {
            body.set(name, text(source.mark()));
        }
    }
    for (name, value) in [
        ("store", truth(false)),
        ("service_tier", text("flex")),
        ("metadata", object([("k", text("v"))])),
        ("truncation", text("disabled")),
        ("background", truth(false)),
        ("previous_response_id", Json::Null),
    ] {
        if source.once_in(8) {
            body.set(name, value);
        }
    }
}
