//! Two values compared: at which paths they differ.

use crate::json::Json;

/// The paths at which `left` and `right` differ, with both sides. What is null, or empty, is absent; texts that are JSON objects are
/// compared as these.
pub(super) fn differences(left: &Json, right: &Json, ignored: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    compare("", left, right, ignored, &mut found);
    found
}

fn compare(
    path: &str,
    left: &Json,
    right: &Json,
    ignored: &[&str],
    found: &mut Vec<(String, String)>,
) {
    match (left, right) {
        (Json::Object(one), Json::Object(other)) => {
            let keys = one.iter().chain(other).map(|(key, _)| key);
            let mut seen: Vec<&String> = Vec::new();
            for key in keys {
                let inner = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                if seen.contains(&key) || ignored.contains(&&*inner) {
                    continue;
                }
                seen.push(key);
                compare(&inner, left.get(key), right.get(key), ignored, found);
            }
        }
        (Json::List(one), Json::List(other)) if one.len() == other.len() => {
            for (left, right) in one.iter().zip(other) {
                compare(&format!("{path}[]"), left, right, ignored, found);
            }
        }
        _ if is_absent(left) && is_absent(right) => {}
        (Json::Object(_), Json::Null) => compare(path, left, &Json::object([]), ignored, found),
        (Json::Null, Json::Object(_)) => compare(path, &Json::object([]), right, ignored, found),
        _ => {
            let same = match (left, right) {
                (Json::Number(_), Json::Number(_)) => left.number() == right.number(),
                (Json::Text(one), Json::Text(other)) => one == other || inside(one, other),
                _ => left == right,
            };
            if !same {
                found.push((
                    path.to_owned(),
                    format!("{} -> {}", left.compact(), right.compact()),
                ));
            }
        }
    }
}

/// Whether two texts are the same JSON object.
fn inside(one: &str, other: &str) -> bool {
    let parsed = |text: &str| {
        let text = if text.trim().is_empty() { "{}" } else { text };
        Json::parse(text).ok().filter(Json::is_object)
    };
    match (parsed(one), parsed(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

fn is_absent(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Text(text) => text.is_empty(),
        Json::List(items) => items.iter().all(is_absent),
        Json::Object(members) => members.iter().all(|(_, value)| is_absent(value)),
        Json::Bool(_) | Json::Number(_) => false,
    }
}
