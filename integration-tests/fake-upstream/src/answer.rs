//! What is said: a script's answer for one request, before it is cut into writes.

use bytes::Bytes;

use crate::format::{Usage, UsageShape};
use crate::request::{Asked, Endpoint};
use crate::script::{Answer, Script};
use crate::shapes::{self, Chunk, Message};

/// One server-sent event.
pub(crate) struct Event {
    pub(crate) data: String,
    /// Counted by [`crate::script::Point::Content`].
    pub(crate) delta: bool,
    pub(crate) tokens: u64,
}

pub(crate) enum Said {
    Whole {
        content_type: &'static str,
        bytes: Bytes,
        usage: Usage,
    },
    Stream {
        events: Vec<Event>,
        usage: Usage,
    },
    Raw(Bytes),
}

/// The request, as far as an answer depends on it.
pub(crate) struct Question<'a> {
    pub(crate) id: u64,
    pub(crate) endpoint: Endpoint,
    pub(crate) asked: &'a Asked,
    pub(crate) body: &'a [u8],
    pub(crate) models: &'a [String],
}

pub(crate) fn say(script: &Script, question: &Question<'_>) -> Said {
    match &script.answer {
        Answer::Raw(bytes) => Said::Raw(bytes.clone()),
        Answer::Body {
            content_type,
            bytes,
        } => Said::Whole {
            content_type,
            bytes: bytes.clone(),
            usage: script.usage.unwrap_or_default(),
        },
        Answer::Events(data) => Said::Stream {
            events: data
                .iter()
                .map(|data| Event {
                    data: data.clone(),
                    delta: true,
                    tokens: 0,
                })
                .collect(),
            usage: script.usage.unwrap_or_default(),
        },
        Answer::Endpoint => endpoint(script, question),
    }
}

fn endpoint(script: &Script, question: &Question<'_>) -> Said {
    let asked_model = question.asked.model.as_deref().unwrap_or("fake-chat");
    let model = script.model.as_deref().unwrap_or(asked_model);
    match question.endpoint {
        Endpoint::Chat if question.asked.stream => stream(script, question, model),
        Endpoint::Chat => whole(script, question, model),
        Endpoint::Embeddings => {
            let (body, usage) = shapes::embeddings(question.body, model, script.usage);
            json(body, usage)
        }
        Endpoint::Models => json(shapes::models(question.models), Usage::default()),
        Endpoint::Scripted | Endpoint::Unknown => json(
            r#"{"error":{"message":"Invalid URL","type":"invalid_request_error","param":null,"code":null}}"#
                .to_owned(),
            Usage::default(),
        ),
    }
}

fn json(body: String, usage: Usage) -> Said {
    Said::Whole {
        content_type: "application/json",
        bytes: body.into(),
        usage,
    }
}

/// The content's deltas as text; none when tools or a refusal take their place.
fn content(script: &Script, asked: &Asked) -> Vec<String> {
    if let Some(count) = asked.directive.tokens {
        return (0..count).map(|n| format!("tok{n} ")).collect();
    }
    match &script.content {
        Some(deltas) => deltas.clone(),
        None if script.refusal.is_some() || !script.tools.is_empty() => Vec::new(),
        None => ["Hello", " from", " upstream"].map(str::to_owned).to_vec(),
    }
}

fn usage_of(script: &Script, deltas: u64) -> Usage {
    let reasoning = script.reasoning.len() as u64;
    script.usage.unwrap_or(Usage {
        prompt: script.prompt_tokens,
        completion: deltas,
        reasoning: (reasoning > 0).then_some(reasoning),
        ..Usage::default()
    })
}

fn finish_of(script: &Script) -> &str {
    let natural = if script.tools.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    script.finish.as_deref().unwrap_or(natural)
}

/// The JSON of all deltas that count as content, in order.
fn deltas(script: &Script, asked: &Asked) -> Vec<String> {
    let field = |name: &str, text: &str| format!(r#"{{"{name}":{}}}"#, shapes::quoted(text));
    let mut deltas: Vec<String> = script
        .reasoning
        .iter()
        .map(|text| field("reasoning_content", text))
        .collect();
    deltas.extend(
        content(script, asked)
            .iter()
            .map(|text| field("content", text)),
    );
    deltas.extend(script.refusal.iter().map(|text| field("refusal", text)));
    for (index, call) in script.tools.iter().enumerate() {
        deltas.extend(shapes::call_deltas(index, call));
    }
    deltas
}

fn whole(script: &Script, question: &Question<'_>, model: &str) -> Said {
    let content = content(script, question.asked);
    let usage = usage_of(script, deltas(script, question.asked).len() as u64);
    let message = Message {
        content: (!content.is_empty()).then(|| content.concat()),
        refusal: script.refusal.as_deref(),
        reasoning: script.reasoning.concat(),
        tools: &script.tools,
    };
    let shown = (script.shape != UsageShape::Absent).then_some(&usage);
    let body = shapes::completion(question.id, model, &message, finish_of(script), shown);
    json(body, usage)
}

fn stream(script: &Script, question: &Question<'_>, model: &str) -> Said {
    let deltas = deltas(script, question.asked);
    let usage = usage_of(script, deltas.len() as u64);
    let shape = match script.shape {
        UsageShape::AsAsked if question.asked.include_usage => UsageShape::OwnChunk,
        UsageShape::AsAsked => UsageShape::Absent,
        shape => shape,
    };
    let chunk = Chunk {
        id: question.id,
        model,
    };
    let full = shapes::usage(&usage);
    let nulls = (shape != UsageShape::Absent).then_some("null");
    let plain = |data: String| Event {
        data,
        delta: false,
        tokens: 0,
    };

    let role = r#"{"role":"assistant","content":"","refusal":null}"#;
    let mut events = vec![plain(chunk.with(&shapes::choice(role, None), nulls))];
    for (index, delta) in deltas.iter().enumerate() {
        let so_far = shapes::usage(&Usage {
            completion: index as u64 + 1,
            ..usage
        });
        let field = match shape {
            UsageShape::EveryChunk => Some(so_far.as_str()),
            _ => nulls,
        };
        events.push(Event {
            data: chunk.with(&shapes::choice(delta, None), field),
            delta: true,
            tokens: 1,
        });
    }
    let at_finish = match shape {
        UsageShape::FinishChunk | UsageShape::EveryChunk => Some(full.as_str()),
        _ => nulls,
    };
    let finish = shapes::choice("{}", Some(finish_of(script)));
    events.push(plain(chunk.with(&finish, at_finish)));
    match shape {
        UsageShape::OwnChunk => events.push(plain(chunk.with("", Some(&full)))),
        UsageShape::OwnChunkWithChoice => {
            events.push(plain(chunk.with(&shapes::choice("{}", None), Some(&full))));
        }
        _ => {}
    }
    if script.done {
        events.push(plain("[DONE]".to_owned()));
    }
    Said::Stream { events, usage }
}
