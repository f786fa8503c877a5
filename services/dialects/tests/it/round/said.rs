//! What requests and answers say, in the form in which it is compared.

use base64::Engine as _;
use switchboard_dialects::convert::Format;

use crate::json::Json;

/// An answer, with texts that follow each other as one, seals without marks, and without counts of nothing.
pub(super) fn answer(format: Format, body: &Json) -> Json {
    let mut body = unsealed(body);
    for key in ["usage", "usageMetadata"] {
        let counted = without_zeros(body.get(key));
        body.set(key, counted);
    }
    match format {
        Format::Anthropic => {
            let blocks = body.get("content").list().to_vec();
            body.set("content", Json::List(joined(blocks)));
        }
        Format::Gemini => {
            let candidates = body.get("candidates").list().iter().map(|candidate| {
                let mut candidate = candidate.clone();
                let mut content = candidate.get("content").clone();
                let parts = content.get("parts").list().to_vec();
                content.set("parts", Json::List(joined(parts)));
                candidate.set("content", content);
                let mut cited = candidate.get("citationMetadata").clone();
                cited.set("citationSources", cited.get("citations").clone());
                cited.set("citations", Json::Null);
                if candidate.get("citationMetadata").has("citations") {
                    candidate.set("citationMetadata", cited);
                }
                candidate
            });
            let candidates = candidates.collect();
            body.set("candidates", Json::List(candidates));
        }
        Format::Chat | Format::Responses => {}
    }
    body
}

/// Joins texts of the same kind that nothing else is on.
pub(super) fn joined(parts: Vec<Json>) -> Vec<Json> {
    let bare = |part: &Json| {
        let with = ["citations", "thoughtSignature"];
        part.has("text")
            && with
                .iter()
                .all(|key| part.get(key).list().is_empty() && !part.get(key).is_text())
    };
    let mut all: Vec<Json> = Vec::new();
    for part in parts {
        match all.last_mut() {
            Some(last)
                if bare(last) && bare(&part) && last.get("thought") == part.get("thought") =>
            {
                let text = format!("{}{}", last.get("text").str(), part.get("text").str());
                last.set("text", Json::of(text));
            }
            _ => all.push(part),
        }
    }
    all.retain(|part| !bare(part) || !part.get("text").str().is_empty());
    all
}

fn without_zeros(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let counted = members
                .iter()
                .filter(|(_, value)| value.number() != Some(0.0));
            let members = counted.map(|(key, value)| (key.clone(), without_zeros(value)));
            Json::Object(members.collect())
        }
        other => other.clone(),
    }
}

/// The value with what each seal is in the end, whoever passed it on.
fn unsealed(value: &Json) -> Json {
    match value {
        Json::Text(text) => Json::of(innermost(text)),
        Json::List(items) => Json::List(items.iter().map(unsealed).collect()),
        Json::Object(members) if value.get("type").str() == "redacted_thinking" => Json::object([
            ("type", Json::of("thinking")),
            ("thinking", Json::of("")),
            ("signature", unsealed(&members[1].1)),
        ]),
        Json::Object(members) => {
            let members = members.iter();
            Json::Object(
                members
                    .map(|(key, value)| (key.clone(), unsealed(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// A seal without the marks of those who passed it on.
fn innermost(text: &str) -> String {
    if let Some(rest) = text.strip_prefix("switchboard.") {
        return rest
            .split_once('.')
            .map_or_else(String::new, |(_, own)| innermost(own));
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let inside = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(inside) = inside.filter(|inside| inside.starts_with("switchboard.")) {
        return innermost(&inside);
    }
    // A detail of a chat upstream is a seal as a whole.
    let detail = Json::parse(text)
        .ok()
        .filter(|detail| detail.get("type").str().starts_with("reasoning."));
    match detail {
        Some(detail) => innermost(match detail.get("signature").text() {
            Some(signature) => signature,
            None => detail.get("data").str(),
        }),
        None => text.to_owned(),
    }
}
