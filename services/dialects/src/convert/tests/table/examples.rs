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
    /// Notes: `ask.<dialect>: {…}` says what the caller of an answer asked for.
    pub(super) note: Vec<String>,
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
        let (note, body): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("//"));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Example {
            document: settled(&body.join("\n")),
            of: Vec::new(),
            model: None,
            note: note
                .iter()
                .map(|line| line[2..].trim().to_owned())
                .collect(),
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
        note: Vec::new(),
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

/// What every answer has.
pub(super) fn answer(format: Format) -> Value {
    match format {
        Format::Chat => {
            json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "up",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}})
        }
        Format::Responses => {
            json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "up",
            "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}],
            "usage": {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}})
        }
        Format::Anthropic => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up",
            "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 100, "output_tokens": 20}})
        }
        Format::Gemini => {
            json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}})
        }
    }
}

/// The request to which answers are given: it has the tools that they call.
pub(super) fn asking(caller: Format, answer: &Example) -> Value {
    let mut request = needed(caller);
    if caller == Format::Anthropic {
        request["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    }
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let declared =
        ["get_weather", "now"].map(|name| json!({"name": name, "parametersJsonSchema": schema}));
    request["tools"] = match caller {
        Format::Chat => ["get_weather", "now"]
            .map(|name| json!({"type": "function", "function": {"name": name, "parameters": schema}}))
            .into(),
        Format::Responses => ["get_weather", "now"]
            .map(|name| json!({"type": "function", "name": name, "parameters": schema, "strict": false}))
            .into(),
        Format::Anthropic => ["get_weather", "now"]
            .map(|name| json!({"name": name, "input_schema": schema}))
            .into(),
        Format::Gemini => json!([{ "functionDeclarations": declared }]),
    };
    let mark = format!("ask.{}:", name(caller));
    for more in answer
        .note
        .iter()
        .filter_map(|line| line.strip_prefix(&mark))
    {
        let more: Value = serde_json::from_str(more).unwrap();
        for (name, value) in more.as_object().unwrap() {
            request[name] = value.clone();
        }
    }
    request
}
