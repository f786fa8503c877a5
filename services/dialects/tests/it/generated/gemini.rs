//! Requests of Gemini's generateContent.

use super::conversation::{Conversation, Given, Model, Shown, Turn, schema_of};
use super::source::Source;
use super::{list, number, object, text, truth};
use crate::json::Json;

pub(super) fn request(source: &mut Source, said: &Conversation) -> Json {
    let mut contents = Vec::new();
    let with_ids = source.once_in(2);
    for turn in &said.turns {
        let (role, parts) = match turn {
            Turn::Instructions(_) => continue,
            Turn::User(parts) => ("user", parts.iter().map(shown).collect()),
            Turn::Model(model) => ("model", spoken(model, with_ids)),
            Turn::Results(results) => {
                let part = |given: &Given| result(given, with_ids);
                ("user", results.iter().map(part).collect())
            }
        };
        contents.push(object([("role", text(role)), ("parts", list(parts))]));
    }
    let mut body = object([("contents", list(contents))]);
    if !said.system.is_empty() {
        let parts = said.system.iter().map(|words| part(words)).collect();
        body.set("systemInstruction", object([("parts", list(parts))]));
    }
    tools(source, said, &mut body);
    settings(source, &mut body);
    if source.once_in(6) {
        snake(&mut body);
    }
    body
}

/// The names of the proto in place of those of its JSON.
fn snake(value: &mut Json) {
    match value {
        Json::List(items) => items.iter_mut().for_each(snake),
        Json::Object(members) => {
            for (key, value) in members {
                if matches!(
                    &**key,
                    "args" | "response" | "parametersJsonSchema" | "responseJsonSchema"
                ) {
                    continue;
                }
                snake(value);
                let mut other = String::new();
                for character in key.chars() {
                    if character.is_ascii_uppercase() {
                        other.push('_');
                    }
                    other.push(character.to_ascii_lowercase());
                }
                *key = other;
            }
        }
        _ => {}
    }
}

fn part(words: &str) -> Json {
    object([("text", text(words))])
}

fn shown(shown: &Shown) -> Json {
    let inline = |mime: &str, data: &str| {
        let data = object([("mimeType", text(mime)), ("data", text(data))]);
        object([("inlineData", data)])
    };
    match shown {
        Shown::Text(words) => part(words),
        Shown::Image(Err((mime, data))) => inline(mime, data),
        Shown::Image(Ok(url)) => {
            let file = object([("mimeType", text("image/png")), ("fileUri", text(url))]);
            object([("fileData", file)])
        }
        Shown::Document(data, _) => inline("application/pdf", data),
        Shown::Audio(data) => inline("audio/wav", data),
        Shown::Found(..) => Json::Null,
    }
}

fn spoken(model: &Model, with_ids: bool) -> Vec<Json> {
    let mut parts = Vec::new();
    for thought in &model.thoughts {
        let mut said = object([("text", text(&thought.text)), ("thought", truth(true))]);
        if let Some(seal) = &thought.seal {
            said.set("thoughtSignature", text(seal));
        }
        parts.push(said);
    }
    parts.extend(model.texts.iter().map(|words| part(words)));
    if model.texts.len() > 1 {
        let code = object([("language", text("PYTHON")), ("code", text("print(1)"))]);
        let output = object([("outcome", text("OUTCOME_OK")), ("output", text("1"))]);
        parts.push(object([("executableCode", code)]));
        parts.push(object([("codeExecutionResult", output)]));
    }
    for call in &model.calls {
        let mut said = object([("name", text(&call.name))]);
        if with_ids {
            said.set("id", text(&call.id));
        }
        if call.arguments != "{}" {
            said.set("args", Json::parse(&call.arguments).unwrap());
        }
        let mut said = object([("functionCall", said)]);
        if let Some(seal) = &call.seal {
            said.set("thoughtSignature", text(seal));
        }
        parts.push(said);
    }
    parts
}

fn result(given: &Given, with_ids: bool) -> Json {
    let (mut words, mut media) = (Vec::new(), Vec::new());
    for part in &given.shown {
        match part {
            Shown::Text(text) => words.push(text.clone()),
            other => media.push(shown(other)),
        }
    }
    let member = if given.failed { "error" } else { "result" };
    let response = match &*words {
        [only] => object([(member, text(only))]),
        all => object([("all", list(all.iter().map(text).collect()))]),
    };
    let mut said = object([("name", text(&given.call.name)), ("response", response)]);
    if with_ids {
        said.set("id", text(&given.call.id));
    }
    if !media.is_empty() {
        said.set("parts", list(media));
    }
    object([("functionResponse", said)])
}

fn tools(source: &mut Source, said: &Conversation, body: &mut Json) {
    let Some(first) = said.tools.first() else {
        return;
    };
    let openapi = source.once_in(4);
    let declared = said.tools.iter().map(|tool| {
        let mut one = object([("name", text(&tool.name))]);
        if let Some(words) = &tool.description {
            one.set("description", text(words));
        }
        match &tool.schema {
            // Google's own subset of OpenAPI.
            Some(_) if openapi => {
                let mark = text(&tool.name);
                let property = object([("type", text("STRING")), ("description", mark)]);
                let properties = object([("p", property)]);
                let schema = object([("type", text("OBJECT")), ("properties", properties)]);
                one.set("parameters", schema);
            }
            Some(schema) => one.set("parametersJsonSchema", schema.clone()),
            None => {}
        }
        one
    });
    let declared = object([("functionDeclarations", list(declared.collect()))]);
    body.set("tools", list(vec![declared]));
    let mut calling = match source.pick(7) {
        3 => object([("mode", text("NONE"))]),
        4 => object([("mode", text("AUTO"))]),
        5 => object([("mode", text("ANY"))]),
        6 => object([("mode", text("VALIDATED"))]),
        _ => return,
    };
    if matches!(calling.get("mode").str(), "ANY" | "VALIDATED") && source.once_in(2) {
        calling.set("allowedFunctionNames", list(vec![text(&first.name)]));
    }
    body.set("toolConfig", object([("functionCallingConfig", calling)]));
}

fn settings(source: &mut Source, body: &mut Json) {
    let mut config = object([]);
    for name in ["temperature", "topP", "presencePenalty", "frequencyPenalty"] {
        if source.once_in(4) {
            config.set(name, number(source.fraction()));
        }
    }
    if source.once_in(6) {
        let most: &[&str] = if source.wrong_once_in(2) {
            &["2.5", "-1"]
        } else {
            &["2", "1.3"]
        };
        config.set("temperature", number(source.one(most)));
    }
    for name in ["topK", "seed"] {
        if source.once_in(5) {
            config.set(name, number(source.whole()));
        }
    }
    if source.once_in(3) {
        config.set(
            "maxOutputTokens",
            number(source.one(&["1", "5000", "200000"])),
        );
    }
    if source.once_in(12) {
        config.set("candidateCount", number(source.one(&["1", "2"])));
    }
    if source.once_in(4) {
        let stops = (0..source.pick(6)).map(|_| text(source.text())).collect();
        config.set("stopSequences", list(stops));
    }
    if source.once_in(10) {
        config.set("responseLogprobs", truth(true));
        config.set("logprobs", number(source.one(&["1", "5"])));
    }
    match source.pick(6) {
        3 => config.set("responseMimeType", text("text/plain")),
        4 => config.set("responseMimeType", text("application/json")),
        5 => {
            config.set("responseMimeType", text("application/json"));
            config.set("responseJsonSchema", schema_of(source));
        }
        _ => {}
    }
    match source.pick(7) {
        4 => {
            let budget = number(source.one(&["-1", "0", "512", "4096", "32000"]));
            config.set("thinkingConfig", object([("thinkingBudget", budget)]));
        }
        5 => {
            let level = text(source.one(&["MINIMAL", "LOW", "MEDIUM", "HIGH"]));
            let thinking = object([("thinkingLevel", level), ("includeThoughts", truth(true))]);
            config.set("thinkingConfig", thinking);
        }
        6 => config.set("thinkingConfig", object([("includeThoughts", truth(true))])),
        _ => {}
    }
    if !config.members().is_empty() {
        body.set("generationConfig", config);
    }
    if source.once_in(6) {
        let mark = text(source.mark());
        body.set("labels", object([("team", mark)]));
    }
    if source.once_in(6) {
        let mark = text(source.mark());
        body.set("safetySettings", list(vec![object([("category", mark)])]));
    }
}
