//! The JSON of OpenAI's answers, with the fields in the order that OpenAI sends them. Everything is deterministic:
//! ids come from the request's number and `created` is constant.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::format::Usage;
use crate::script::ToolCall;

const CREATED: u64 = 1_700_000_000;

pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

pub(crate) fn usage(usage: &Usage) -> String {
    let mut json = format!(
        r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}"#,
        usage.prompt,
        usage.completion,
        usage.prompt + usage.completion
    );
    if usage.cached.is_some() || usage.cache_write.is_some() {
        json += &format!(
            r#","prompt_tokens_details":{{"cached_tokens":{},"cache_write_tokens":{},"audio_tokens":0}}"#,
            usage.cached.unwrap_or(0),
            usage.cache_write.unwrap_or(0)
        );
    }
    if let Some(reasoning) = usage.reasoning {
        json += &format!(
            r#","completion_tokens_details":{{"reasoning_tokens":{reasoning},"audio_tokens":0}}"#
        );
    }
    json + "}"
}

/// What all chunks of one stream have in common.
pub(crate) struct Chunk<'a> {
    pub(crate) id: u64,
    pub(crate) model: &'a str,
}

impl Chunk<'_> {
    /// A chunk; `usage` is the field's JSON, `None` leaves the field out.
    pub(crate) fn with(&self, choices: &str, usage: Option<&str>) -> String {
        let usage = usage.map_or(String::new(), |json| format!(r#","usage":{json}"#));
        format!(
            r#"{{"id":"chatcmpl-fake-{}","object":"chat.completion.chunk","created":{CREATED},"model":{},"system_fingerprint":"fp_fake","choices":[{choices}]{usage}}}"#,
            self.id,
            quoted(self.model),
        )
    }
}

pub(crate) fn choice(delta: &str, finish: Option<&str>) -> String {
    let finish = finish.map_or_else(|| "null".to_owned(), quoted);
    format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#)
}

/// The parts of a whole answer's message.
pub(crate) struct Message<'a> {
    pub(crate) content: Option<String>,
    pub(crate) refusal: Option<&'a str>,
    pub(crate) reasoning: String,
    pub(crate) tools: &'a [ToolCall],
}

pub(crate) fn completion(
    id: u64,
    model: &str,
    message: &Message<'_>,
    finish: &str,
    usage: Option<&Usage>,
) -> String {
    let content = message
        .content
        .as_deref()
        .map_or_else(|| "null".to_owned(), quoted);
    let refusal = message.refusal.map_or_else(|| "null".to_owned(), quoted);
    let mut body = format!(r#"{{"role":"assistant","content":{content},"refusal":{refusal}"#);
    if !message.reasoning.is_empty() {
        body += &format!(r#","reasoning_content":{}"#, quoted(&message.reasoning));
    }
    if !message.tools.is_empty() {
        let calls: Vec<_> = message.tools.iter().map(whole_call).collect();
        body += &format!(r#","tool_calls":[{}]"#, calls.join(","));
    }
    body += "}";
    let usage = usage.map_or(String::new(), |u| format!(r#","usage":{}"#, self::usage(u)));
    format!(
        r#"{{"id":"chatcmpl-fake-{id}","object":"chat.completion","created":{CREATED},"model":{},"choices":[{{"index":0,"message":{body},"logprobs":null,"finish_reason":{}}}]{usage},"system_fingerprint":"fp_fake"}}"#,
        quoted(model),
        quoted(finish),
    )
}

fn whole_call(call: &ToolCall) -> String {
    format!(
        r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
        quoted(&call.id),
        quoted(&call.name),
        quoted(&call.arguments.concat())
    )
}

/// The deltas of one tool call in a stream: the start, then a piece of the arguments each.
pub(crate) fn call_deltas(index: usize, call: &ToolCall) -> Vec<String> {
    let start = format!(
        r#"{{"tool_calls":[{{"index":{index},"id":{},"type":"function","function":{{"name":{},"arguments":""}}}}]}}"#,
        quoted(&call.id),
        quoted(&call.name)
    );
    let pieces = call.arguments.iter().map(|piece| {
        format!(
            r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":{}}}}}]}}"#,
            quoted(piece)
        )
    });
    std::iter::once(start).chain(pieces).collect()
}

pub(crate) fn models(names: &[String]) -> String {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": CREATED, "owned_by": "fake"}))
        .collect();
    json!({"object": "list", "data": data}).to_string()
}

/// An embeddings answer: one vector an input, made from the input's bytes; one prompt token per 4 bytes.
/// Returns the body and the prompt tokens; `usage` overrides what is counted.
pub(crate) fn embeddings(request: &[u8], model: &str, given: Option<Usage>) -> (String, Usage) {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let input = &request["input"];
    let inputs: Vec<String> = match input {
        Value::Array(items) if items.iter().all(Value::is_number) => vec![input.to_string()],
        Value::Array(items) => items.iter().map(text_of).collect(),
        other => vec![text_of(other)],
    };
    let dimensions = request["dimensions"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(4)
        .min(4096);
    let base64 = request["encoding_format"] == "base64";
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let vector = vector(text, dimensions);
            let embedding = if base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
                Value::from(base64::engine::general_purpose::STANDARD.encode(bytes))
            } else {
                Value::from(vector)
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    let counted = inputs
        .iter()
        .map(|text| (text.len() as u64).div_ceil(4))
        .sum();
    let usage = given.unwrap_or(Usage::of(counted, 0));
    let body = json!({
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": usage.prompt, "total_tokens": usage.prompt},
    });
    (body.to_string(), usage)
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Multiples of 1/256 below 1, exact in `f32`, so that they survive any JSON library.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let bytes = text.as_bytes();
    (0..dimensions)
        .map(|i| {
            let byte = bytes.get(i % bytes.len().max(1)).copied().unwrap_or(0);
            f32::from(byte.wrapping_add(i.to_le_bytes()[0])) / 256.0
        })
        .collect()
}
