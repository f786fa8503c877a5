//! Requests in the form in which they are compared: of what can be said in several ways within a dialect one is chosen, and what
//! is so anyway is left out.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use switchboard_dialects::convert::Format;

use crate::json::Json;

pub(super) use self::gemini::camel;

/// A request of a dialect, in its one form. Ids of calls count where the first one has them.
pub(super) fn request(format: Format, body: &Json, first: &Json) -> Json {
    match format {
        Format::Chat => chat::request(body),
        Format::Responses => responses::request(body),
        Format::Anthropic => anthropic::request(body),
        Format::Gemini => gemini::request(body, gemini::has_ids(first)),
    }
}

fn text(words: impl Into<String>) -> Json {
    Json::of(words)
}

/// The object without some of its members.
fn without(value: &Json, names: &[&str]) -> Json {
    let members = value.members().iter();
    let kept = members.filter(|(name, value)| !names.contains(&&**name) && !value.is_null());
    Json::Object(kept.cloned().collect())
}

/// The member under another name, where it is there.
fn rename(body: &mut Json, from: &str, to: &str) {
    if body.has(from) {
        let value = body.get(from).clone();
        body.set(from, Json::Null);
        body.set(to, value);
    }
}

/// Leaves a member out that says what is so anyway.
fn unless(body: &mut Json, name: &str, usual: &[&str]) {
    if usual.contains(&&*body.get(name).compact()) {
        body.set(name, Json::Null);
    }
}

/// A list of parts: a text is one of them.
fn parts(content: &Json, kind: &str) -> Vec<Json> {
    match content {
        Json::Text(words) if words.is_empty() => Vec::new(),
        Json::Text(words) => vec![Json::object([("type", text(kind)), ("text", text(words))])],
        content => content
            .list()
            .iter()
            .map(|part| without(part, &[]))
            .collect(),
    }
}

/// The texts of parts, joined.
fn texts(parts: &[Json], between: &str) -> String {
    let texts = parts
        .iter()
        .filter_map(|part| part.get("text").text().or(part.text()));
    texts.collect::<Vec<_>>().join(between)
}

/// A schema of arguments that asks for nothing says nothing.
fn schema(tool: &mut Json, name: &str) {
    let said = tool.get(name).compact();
    let nothing = [
        r#"{"type":"object"}"#,
        r#"{"type":"object","properties":{}}"#,
    ];
    if nothing.contains(&&*said) {
        tool.set(name, Json::Null);
    }
}
