//! What becomes of a field, found by leaving it out and by changing it.

use serde_json::{Value, json};

use super::page::Fate;
use super::path::{Place, Step, at, name_of, with, without};
use crate::convert::Format;

/// What became of a document in another dialect.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Made {
    Body { body: Value, dropped: Vec<String> },
    Refused { param: String, message: String },
}

/// What becomes of the member at a place of a document, of which `made` was made. Nothing where the document is refused for
/// another reason.
pub(super) fn fate(
    format: Format,
    (document, made): (&Value, &Made),
    place: &Place,
    make: &dyn Fn(&Value) -> Made,
    answer: &dyn Fn(&Value) -> String,
) -> Option<Fate> {
    let value = at(document, &place.steps)?;
    let shorter = without(document, &place.steps);
    let left_out = make(&shorter);
    let (body, dropped) = match made {
        Made::Refused { param, .. } => {
            let about = is_refused(format, param, place);
            return (about && left_out != *made).then_some(Fate::Refused);
        }
        Made::Body { body, dropped } => (body, dropped),
    };
    let named = |dropped: &[String], whole: bool| {
        let mut names = dropped.iter();
        names.any(|name| is_about(format, name, place) == Some(whole))
    };
    let count = |other: &Value| occurrences(other, value);
    if named(dropped, true) {
        // Unless it is another one of its name that was left out.
        let stays =
            matches!(&left_out, Made::Body { body: other, .. } if count(body) > count(other));
        return Some(match stays {
            true => Fate::Carried,
            false => Fate::Dropped,
        });
    }
    let changes = changes(value).into_iter();
    let changes = changes.map(|value| with(document, &place.steps, value));
    let mut others: Vec<_> = changes.map(|other| (make(&other), other)).collect();
    // Another value is taken note of: what stands here says what is so anyway.
    let minded = others.iter().any(|(made, _)| match made {
        Made::Refused { param, .. } => is_refused(format, param, place),
        Made::Body { dropped, .. } => named(dropped, true),
    });
    others.push((left_out, shorter));
    let bodies = others.iter().filter_map(|(made, other)| match made {
        Made::Body { body, .. } => Some((body, other)),
        Made::Refused { .. } => None,
    });
    let bodies: Vec<_> = bodies.collect();
    if bodies.is_empty() {
        // It must be there, and no other value will do.
        return Some(match count(body) {
            0 => Fate::Converted,
            _ => Fate::Carried,
        });
    }
    if bodies.iter().any(|(other, _)| count(body) > count(other)) {
        Some(Fate::Carried)
    } else if bodies.iter().any(|(other, _)| *other != body) {
        Some(Fate::Converted)
    } else if named(dropped, false) {
        // What holds it was left out.
        Some(Fate::Dropped)
    } else {
        let own = answer(document);
        match bodies.iter().any(|(_, other)| answer(other) != own) {
            true => Some(Fate::Kept),
            false => (!minded).then_some(Fate::Ignored),
        }
    }
}

/// Other values of the same kind.
fn changes(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => match number.as_i64() {
            Some(whole) => vec![
                json!(whole - 1),
                json!(whole.saturating_mul(10).saturating_add(7)),
            ],
            None => vec![json!(number.as_f64().unwrap_or_default() / 2.0)],
        },
        Value::String(text) => vec![json!(format!("{text}x")), json!("x")],
        Value::Array(items) => vec![json!(items.get(1..).unwrap_or_default())],
        Value::Object(members) => {
            let mut members = members.clone();
            members.insert("x".to_owned(), json!("x"));
            vec![Value::Object(members)]
        }
    }
}

fn occurrences(document: &Value, value: &Value) -> usize {
    let within: usize = match document {
        Value::Array(items) => items.iter().map(|item| occurrences(item, value)).sum(),
        Value::Object(members) => members.values().map(|item| occurrences(item, value)).sum(),
        _ => 0,
    };
    within + usize::from(document == value)
}

/// Whether a name of what was left out means the member at a place (`true`), or what holds it (`false`). What is of a kind for which
/// another dialect has nothing is named by it: `tools[].web_search`.
fn is_about(format: Format, name: &str, place: &Place) -> Option<bool> {
    let names = names(format, name);
    let mut whole = None;
    for (index, segment) in place.segments.iter().enumerate() {
        let own = place.segments[..=index].iter().map(|own| &own.name);
        let last = index + 1 == place.segments.len();
        if own.clone().eq(&names) || own.chain(&segment.kind).eq(&names) {
            whole = Some(last);
        }
    }
    whole
}

/// Whether a path of what is refused means the member at a place, or what holds it, or something in it.
fn is_refused(format: Format, path: &str, place: &Place) -> bool {
    let names = names(format, path);
    let items = path.split('.').map(|name| {
        let index = name
            .split_once('[')
            .map(|(_, index)| index.trim_end_matches(']'));
        index.and_then(|index| index.parse().ok())
    });
    let mut own: Vec<(&str, Option<usize>)> = Vec::new();
    let mut segments = place.segments.iter();
    for step in &place.steps {
        match step {
            Step::Member(_) => own.extend(segments.next().map(|own| (&*own.name, None))),
            Step::Item(index) => {
                if let Some(last) = own.last_mut() {
                    last.1 = Some(*index);
                }
            }
        }
    }
    let mut all = names.iter().zip(items).zip(own);
    all.all(|((name, item), (own, index))| {
        name == own && (item.is_none() || index.is_none() || item == index)
    })
}

fn names(format: Format, path: &str) -> Vec<String> {
    let name = |name: &str| name_of(format, name.split('[').next().unwrap_or_default());
    path.split('.').map(name).collect()
}
