//! Gemini's requests.

use super::{text, texts, unless, without};
use crate::json::Json;

/// What is not looked into.
const OPAQUE: [&str; 6] = [
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
];

/// Whether all calls have ids.
pub(super) fn has_ids(body: &Json) -> bool {
    let body = named(body);
    let parts = body.get("contents").list().iter();
    let mut calls = parts
        .flat_map(|content| content.get("parts").list())
        .map(|part| part.get("functionCall"));
    calls.all(|call| call.is_null() || call.has("id"))
}

pub(super) fn request(body: &Json, ids: bool) -> Json {
    let mut body = without(&named(body), &["model"]);
    let system = texts(body.get("systemInstruction").get("parts").list(), "\n\n");
    body.set("systemInstruction", text(system));
    let all = body.get("contents").list();
    let mut contents: Vec<Json> = Vec::new();
    for content in all {
        let role = match content.get("role").str() {
            "model" => "model",
            _ => "user",
        };
        let mut parts: Vec<Json> = content
            .get("parts")
            .list()
            .iter()
            .map(|part| bare(part, ids))
            .collect();
        if role == "model" {
            parts = super::super::said::joined(parts);
        }
        // Thoughts go to their maker alone.
        parts.retain(|part| !part.has("thought"));
        parts.retain(|part| part.get("text").text() != Some(""));
        contents.push(Json::object([
            ("role", text(role)),
            ("parts", Json::List(parts)),
        ]));
    }
    body.set("contents", Json::List(contents));
    let mut functions = Vec::new();
    for tool in body.get("tools").list() {
        for function in tool.get("functionDeclarations").list() {
            let mut function = without(function, &[]);
            plain(&mut function, "parameters", "parametersJsonSchema");
            super::schema(&mut function, "parametersJsonSchema");
            functions.push(function);
        }
    }
    body.set("tools", Json::List(functions));
    let mut calling = without(body.get("toolConfig").get("functionCallingConfig"), &[]);
    unless(&mut calling, "mode", &["\"AUTO\""]);
    body.set("toolConfig", calling);
    let mut config = without(body.get("generationConfig"), &[]);
    for name in ["presencePenalty", "frequencyPenalty"] {
        unless(&mut config, name, &["0.0", "0"]);
    }
    unless(&mut config, "candidateCount", &["1"]);
    plain(&mut config, "responseSchema", "responseJsonSchema");
    body.set("generationConfig", config);
    body
}

/// A part; its ids only where all have them.
fn bare(part: &Json, ids: bool) -> Json {
    let mut part = without(part, &["thoughtSignature"]);
    for name in ["functionCall", "functionResponse"] {
        if part.has(name) {
            let names: &[&str] = if ids { &[] } else { &["id"] };
            let mut inner = without(part.get(name), names);
            // A text that a tool gave has one of these names.
            if let [(key, Json::Text(words))] = inner.get("response").members()
                && matches!(&**key, "output" | "result")
            {
                let result = Json::object([("result", text(words))]);
                inner.set("response", result);
            }
            part.set(name, inner);
        }
    }
    part
}

/// With the JSON names of members.
fn named(value: &Json) -> Json {
    match value {
        Json::List(items) => Json::List(items.iter().map(named).collect()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                let name = camel(name);
                let value = if OPAQUE.contains(&&*name) {
                    value.clone()
                } else {
                    named(value)
                };
                (name, value)
            });
            Json::Object(members.collect())
        }
        other => other.clone(),
    }
}

pub(in crate::round) fn camel(name: &str) -> String {
    let mut pieces = name.split('_');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let mut letters = piece.chars();
        out.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// A schema of Google's own as JSON Schema.
fn plain(object: &mut Json, own: &str, json: &str) {
    if object.has(own) {
        let schema = as_json_schema(object.get(own));
        object.set(own, Json::Null);
        object.set(json, schema);
    }
}

fn as_json_schema(schema: &Json) -> Json {
    let mut out = without(schema, &["nullable", "propertyOrdering"]);
    let kind = text(schema.get("type").str().to_ascii_lowercase());
    out.set("type", kind.clone());
    if *schema.get("nullable") == Json::Bool(true) {
        out.set("type", Json::List(vec![kind, text("null")]));
    }
    if schema.has("items") {
        out.set("items", as_json_schema(schema.get("items")));
    }
    if schema.has("properties") {
        let members = schema.get("properties").members().iter();
        let members = members.map(|(name, inner)| (name.clone(), as_json_schema(inner)));
        out.set("properties", Json::Object(members.collect()));
    }
    out
}
