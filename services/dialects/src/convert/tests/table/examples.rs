//! Examples of fields: the fixtures of requests and answers, and `fixtures/fields/<dialect>.jsonl`, a request of few members
//! in a line. Before it may stand the name of the upstream's model, where it is that on which it depends. What
//! every request must have is added.

use std::fs;

use serde_json::{Value, json};

use super::page::{name, root};
use crate::convert::Format;

/// An example.
#[derive(Debug)]
pub(super) struct Example {
    /// For messages.
    pub(super) name: String,
    pub(super) document: Value,
    /// The members that it is an example of; all where there are none.
    pub(super) of: Vec<String>,
    /// The upstream's model, where it matters.
    pub(super) model: Option<String>,
    /// It has members on purpose that no document knows.
    pub(super) unknown: bool,
}

/// The fixtures of a directory.
pub(super) fn fixtures(directory: &str, format: Format) -> Vec<Example> {
    let directory = root().join("fixtures").join(directory).join(name(format));
    let paths = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = paths.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let example = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let body: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with("//"))
            .collect();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Example {
            document: settled(&body.join("\n")),
            of: Vec::new(),
            model: None,
            unknown: name == "unknown",
            name,
        }
    };
    paths.iter().map(example).collect()
}

/// A document whose numbers are what they are when it is read again.
fn settled(text: &str) -> Value {
    let mut document: Value = serde_json::from_str(text).unwrap();
    for _ in 0..2 {
        document = serde_json::from_str(&document.to_string()).unwrap();
    }
    document
}

/// The lines of `fixtures/fields/<name>.jsonl`, with what must be there.
pub(super) fn lines(name: &str, needed: &Value) -> Vec<Example> {
    let path = root()
        .join("fixtures/fields")
        .join(name)
        .with_extension("jsonl");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.starts_with("//"));
    let examples = lines.map(|(number, text)| Example {
        name: format!("line {}", number + 1),
        ..line(text, needed)
    });
    examples.collect()
}

/// A line, with what must be there.
pub(super) fn line(text: &str, needed: &Value) -> Example {
    let (model, body) = text.split_at(text.find('{').expect("an object"));
    let own: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{text}: {error}"));
    let own = own.as_object().expect("an object");
    let mut document = needed.clone();
    for (name, value) in own {
        document[name] = value.clone();
    }
    Example {
        name: text.to_owned(),
        document,
        of: own.keys().cloned().collect(),
        model: Some(model.trim().to_owned()).filter(|model| !model.is_empty()),
        unknown: false,
    }
}

/// What every request has.
pub(super) fn needed(format: Format) -> Value {
    match format {
        Format::Chat => json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}),
        Format::Responses => json!({"model": "m", "input": "Hi"}),
        Format::Anthropic => {
            json!({"model": "m", "max_tokens": 8192, "messages": [{"role": "user", "content": "Hi"}]})
        }
        Format::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    }
}
