//! Chat completions.

use std::collections::BTreeMap;

use super::sse::Event;
use super::{Check, between, filled, name, need, once, one_of, only, parts_of};
use crate::json::Json;

const REQUEST: &[&str] = &[
    "model",
    "messages",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "verbosity",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "stop",
    "n",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "service_tier",
    "store",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "moderation",
    "stream",
    "stream_options",
];
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const REASONS: &[&str] = &[
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "function_call",
];

pub(super) fn request(body: &Json) -> Check {
    only("the body", body, REQUEST)?;
    filled("model", body.get("model"))?;
    messages(body.get("messages").list())?;
    between("temperature", body.get("temperature"), 0.0, 2.0)?;
    between("top_p", body.get("top_p"), 0.0, 1.0)?;
    between("top_logprobs", body.get("top_logprobs"), 0.0, 20.0)?;
    let logprobs = *body.get("logprobs") == Json::Bool(true);
    need(logprobs || !body.has("top_logprobs"), || {
        "top_logprobs without logprobs".into()
    })?;
    for name in ["frequency_penalty", "presence_penalty"] {
        between(name, body.get(name), -2.0, 2.0)?;
    }
    for name in ["max_completion_tokens", "max_tokens", "n"] {
        between(name, body.get(name), 1.0, f64::MAX)?;
    }
    need(body.get("stop").list().len() <= 4, || {
        "more than 4 stops".into()
    })?;
    if body.has("reasoning_effort") {
        one_of("reasoning_effort", body.get("reasoning_effort"), EFFORTS)?;
    }
    need(
        !body.has("max_tokens") || !body.has("max_completion_tokens"),
        || "two limits".into(),
    )?;
    let user = body.get("safety_identifier").str();
    need(user.len() <= 64, || "safety_identifier is too long".into())?;
    let streamed = *body.get("stream") == Json::Bool(true);
    need(streamed || !body.has("stream_options"), || {
        "stream_options without stream".into()
    })?;
    tools(body)?;
    let format = body.get("response_format");
    if !format.is_null() {
        one_of(
            "response_format",
            format.get("type"),
            &["text", "json_object", "json_schema"],
        )?;
        if format.get("type").str() == "json_schema" {
            let schema = format.get("json_schema");
            name("response_format.json_schema.name", schema.get("name"), 64)?;
            need(schema.get("schema").is_object(), || "no schema".into())?;
        }
    }
    Ok(())
}

/// Roles, their content, and that every call is answered before anything else comes.
fn messages(messages: &[Json]) -> Check {
    need(!messages.is_empty(), || "no messages".into())?;
    let mut open: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message.get("role").str();
        let place = format!("messages[{at}] ({role})");
        if role == "tool" {
            let id = message.get("tool_call_id").str();
            let call = open.iter().position(|open| open == id);
            let call = call.ok_or_else(|| format!("{place} answers {id:?}, of {open:?}"))?;
            open.remove(call);
        } else {
            need(open.is_empty(), || {
                format!("{place} before {open:?} are answered")
            })?;
        }
        let kinds: &[&str] = match role {
            "user" => &["text", "image_url", "input_audio", "file"],
            "assistant" => &["text", "refusal"],
            "system" | "developer" | "tool" => &["text"],
            _ => return Err(format!("{place}: no such role")),
        };
        let content = message.get("content");
        for part in content.list() {
            one_of(&format!("{place}: a part"), part.get("type"), kinds)?;
            content_part(&place, part)?;
        }
        let spoken = content.is_text() || !content.list().is_empty();
        if role == "assistant" {
            let calls = message.get("tool_calls");
            need(
                spoken
                    || !calls.list().is_empty()
                    || message.has("refusal")
                    || message.has("reasoning_content"),
                || format!("{place} is empty"),
            )?;
            need(calls.is_null() || !calls.list().is_empty(), || {
                format!("{place}: no calls")
            })?;
            for call in calls.list() {
                open.push(called(&place, call)?);
            }
        } else {
            need(spoken, || format!("{place} is empty"))?;
            need(!message.has("tool_calls"), || format!("{place} has calls"))?;
        }
    }
    need(open.is_empty(), || format!("{open:?} are not answered"))
}

fn content_part(place: &str, part: &Json) -> Check {
    let kind = part.get("type").str();
    match kind {
        "text" => need(part.get("text").is_text(), || format!("{place}: no text")),
        "image_url" => {
            let url = part.get("image_url").get("url").str();
            let known = ["http:", "https:", "data:"];
            need(known.iter().any(|scheme| url.starts_with(scheme)), || {
                format!("{place}: an image at {url:?}")
            })
        }
        "input_audio" => filled(place, part.get("input_audio").get("data")),
        "file" => {
            let file = part.get("file");
            let one = file.has("file_data") != file.has("file_id");
            need(one, || format!("{place}: {}", file.compact()))
        }
        _ => Ok(()),
    }
}

/// A call, whole; its id.
fn called(place: &str, call: &Json) -> Result<String, String> {
    filled(&format!("{place}: a call's id"), call.get("id"))?;
    let length = call.get("id").str().chars().count();
    need(
        place == "the answer" || place == "a call" || length <= 40,
        || format!("{place}: an id of {length} characters"),
    )?;
    match call.get("type").str() {
        "function" => {
            let function = call.get("function");
            name(
                &format!("{place}: a function's name"),
                function.get("name"),
                64,
            )?;
            need(function.get("arguments").is_text(), || {
                format!("{place}: arguments")
            })?;
        }
        "custom" => {
            name(place, call.get("custom").get("name"), 64)?;
            need(call.get("custom").get("input").is_text(), || {
                format!("{place}: input")
            })?;
        }
        other => return Err(format!("{place}: a call of type {other:?}")),
    }
    Ok(call.get("id").str().to_owned())
}

fn tools(body: &Json) -> Check {
    let mut names = Vec::new();
    for tool in body.get("tools").list() {
        let inner = match tool.get("type").str() {
            "function" => tool.get("function"),
            "custom" => tool.get("custom"),
            other => return Err(format!("a tool of type {other:?}")),
        };
        name("a tool's name", inner.get("name"), 64)?;
        names.push(inner.get("name").str());
    }
    need(!body.has("tools") || !names.is_empty(), || {
        "an empty list of tools".into()
    })?;
    once("a tool", &names)?;
    need(
        !body.has("parallel_tool_calls") || !names.is_empty(),
        || "parallel_tool_calls without tools".into(),
    )?;
    let choice = body.get("tool_choice");
    need(choice.is_null() || !names.is_empty(), || {
        "a choice without tools".into()
    })?;
    match choice {
        Json::Null => Ok(()),
        Json::Text(_) => one_of("tool_choice", choice, &["none", "auto", "required"]),
        choice if choice.get("type").str() == "allowed_tools" => {
            let allowed = choice.get("allowed_tools");
            one_of("mode", allowed.get("mode"), &["auto", "required"])?;
            let tools = allowed.get("tools").list();
            need(!tools.is_empty(), || "no tool is allowed".into())?;
            tools.iter().try_for_each(|tool| {
                let kind = tool.get("type").str();
                let wanted = tool.get(kind).get("name").str();
                need(names.contains(&wanted), || format!("no tool {wanted:?}"))
            })
        }
        choice => {
            let kind = choice.get("type").str();
            let wanted = choice.get(kind).get("name").str();
            need(names.contains(&wanted), || {
                format!("the choice {}", choice.compact())
            })
        }
    }
}

fn head(body: &Json, object: &str) -> Check {
    let id = body.get("id").str();
    need(id.starts_with("chatcmpl-") && id.len() > 9, || {
        format!("id {id:?}")
    })?;
    one_of("object", body.get("object"), &[object])?;
    need(body.get("created").whole().is_some(), || "created".into())?;
    filled("model", body.get("model"))?;
    need(!body.has("error"), || "an error".into())
}

pub(super) fn answer(body: &Json) -> Check {
    head(body, "chat.completion")?;
    let choices = body.get("choices").list();
    need(!choices.is_empty(), || "no choices".into())?;
    for (at, choice) in choices.iter().enumerate() {
        need(choice.get("index").whole() == Some(at as u64), || {
            "index".into()
        })?;
        let message = choice.get("message");
        one_of("role", message.get("role"), &["assistant"])?;
        for key in ["content", "refusal"] {
            let value = message.get(key);
            need(
                message.has(key) && (value.is_null() || value.is_text()),
                || key.into(),
            )?;
        }
        let calls = message.get("tool_calls").list();
        need(!message.has("tool_calls") || !calls.is_empty(), || {
            "tool_calls []".into()
        })?;
        for call in calls {
            called("the answer", call)?;
            arguments(call.get("function").get("arguments"))?;
        }
        need(choice.has("logprobs"), || "logprobs".into())?;
        one_of("finish_reason", choice.get("finish_reason"), REASONS)?;
        ends_for(choice.get("finish_reason"), !calls.is_empty())?;
    }
    usage(body.get("usage"))
}

/// Calls end an answer as such, unless it was cut off.
fn ends_for(reason: &Json, calls: bool) -> Check {
    let right = match reason.str() {
        "tool_calls" => calls,
        "stop" => !calls,
        _ => true,
    };
    need(right, || format!("{reason:?}, calls: {calls}"))
}

/// Arguments of functions are an object, written as a text.
fn arguments(text: &Json) -> Check {
    match text {
        Json::Null => Ok(()),
        text => {
            let read = Json::parse(text.str())?;
            need(read.is_object(), || format!("arguments {}", text.compact()))
        }
    }
}

fn usage(usage: &Json) -> Check {
    if usage.is_null() {
        return Ok(());
    }
    let (prompt, completion) = (usage.get("prompt_tokens"), usage.get("completion_tokens"));
    let details = usage.get("prompt_tokens_details");
    let cached = [
        details.get("cached_tokens"),
        details.get("cache_write_tokens"),
    ];
    parts_of("prompt_tokens", prompt, &cached)?;
    let reasoning = usage
        .get("completion_tokens_details")
        .get("reasoning_tokens");
    parts_of("completion_tokens", completion, &[reasoning])?;
    let total = usage.get("total_tokens").whole();
    let sum = prompt.whole().zip(completion.whole()).map(|(a, b)| a + b);
    need(total.is_some() && total == sum, || {
        format!("usage {}", usage.compact())
    })
}

/// What a choice of a stream has said.
#[derive(Default)]
struct Choice {
    calls: Vec<String>,
    finished: bool,
}

pub(super) fn stream(events: &[Event<'_>]) -> Check {
    let mut choices: BTreeMap<u64, Choice> = BTreeMap::new();
    let mut first: Option<Json> = None;
    let mut used = false;
    let Some(((None, "[DONE]"), chunks)) = events.split_last() else {
        return Err("no [DONE]".into());
    };
    for (named, data) in chunks {
        need(named.is_none(), || "an event with a name".into())?;
        let chunk = Json::parse(data)?;
        head(&chunk, "chat.completion.chunk")?;
        let first = first.get_or_insert_with(|| chunk.clone());
        for key in ["id", "created", "model"] {
            need(first.get(key) == chunk.get(key), || {
                format!("{key} changes")
            })?;
        }
        need(!used, || "a chunk after the usage".into())?;
        need(chunk.get("choices").is_list(), || "no choices".into())?;
        if chunk.get("choices").list().is_empty() {
            used = true;
            need(chunk.get("usage").is_object(), || "an empty chunk".into())?;
            need(choices.values().all(|choice| choice.finished), || {
                "usage early".into()
            })?;
            usage(chunk.get("usage"))?;
        } else {
            let told = chunk.has("usage");
            need(!told || chunk.get("usage").is_null(), || {
                "usage beside choices".into()
            })?;
            need(told == first.has("usage"), || {
                "`usage` comes and goes".into()
            })?;
        }
        for said in chunk.get("choices").list() {
            let index = said.get("index").whole().ok_or("a choice without index")?;
            delta(said, index, &mut choices)?;
        }
    }
    need(!choices.is_empty(), || "no choice".into())?;
    // It is said where it was asked for, and the upstream told.
    need(
        !used || first.is_some_and(|first| first.has("usage")),
        || "the usage chunk".into(),
    )?;
    for (at, (index, choice)) in choices.iter().enumerate() {
        need(*index == at as u64, || "choices with gaps".into())?;
        need(choice.finished, || {
            format!("choice {index} does not finish")
        })?;
        for arguments in &choice.calls {
            let read = Json::parse(arguments)?;
            need(read.is_object(), || format!("arguments {arguments}"))?;
        }
    }
    Ok(())
}

fn delta(said: &Json, index: u64, choices: &mut BTreeMap<u64, Choice>) -> Check {
    let delta = said.get("delta");
    need(delta.is_object(), || "no delta".into())?;
    need(said.has("finish_reason"), || "no finish_reason".into())?;
    let known = choices.contains_key(&index);
    need(known != delta.has("role"), || {
        format!("the role comes once: {}", said.compact())
    })?;
    let choice = choices.entry(index).or_default();
    need(!choice.finished, || "said after the finish".into())?;
    if delta.has("role") {
        one_of("role", delta.get("role"), &["assistant"])?;
    }
    for piece in delta.get("tool_calls").list() {
        let call = piece.get("index").whole().ok_or("a call without index")?;
        let call = usize::try_from(call).unwrap();
        let custom = piece.get("custom");
        let function = if custom.is_null() {
            piece.get("function")
        } else {
            custom
        };
        if call == choice.calls.len() {
            called("a call", piece)?;
            choice.calls.push(String::new());
        } else {
            need(call < choice.calls.len(), || {
                "call indexes with gaps".into()
            })?;
            let again = piece.has("id") || function.has("name");
            need(!again, || "id or name is repeated".into())?;
        }
        let text = function.get("arguments").str();
        choice.calls[call].push_str(if custom.is_null() { text } else { "{}" });
        if !custom.is_null() {
            choice.calls[call].truncate(2);
        }
    }
    let reason = said.get("finish_reason");
    if !reason.is_null() {
        one_of("finish_reason", reason, REASONS)?;
        choice.finished = true;
        ends_for(reason, !choice.calls.is_empty())?;
    }
    Ok(())
}
