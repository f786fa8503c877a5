//! Anthropic's Messages.

use super::sse::Event;
use super::{Check, between, filled, name, need, once, one_of, only, parts_of};
use crate::json::Json;

const REQUEST: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "stop_sequences",
    "stream",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
    "service_tier",
    "speed",
    "cache_control",
    "container",
    "inference_geo",
    "temperature",
    "top_p",
    "top_k",
];
const STOPS: &[&str] = &[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
];

pub(super) fn request(body: &Json) -> Check {
    only("the body", body, REQUEST)?;
    filled("model", body.get("model"))?;
    let limit = body.get("max_tokens").whole();
    need(limit.is_some_and(|limit| limit > 0), || "max_tokens".into())?;
    messages(body.get("messages").list())?;
    for block in body.get("system").list() {
        one_of("system", block.get("type"), &["text"])?;
        filled("system", block.get("text"))?;
    }
    need(
        !body.has("system") || body.get("system").is_list() || !body.get("system").str().is_empty(),
        || "an empty system".into(),
    )?;
    for stop in body.get("stop_sequences").list() {
        need(!stop.str().trim().is_empty(), || {
            "a blank stop sequence".into()
        })?;
    }
    between("temperature", body.get("temperature"), 0.0, 1.0)?;
    between("top_p", body.get("top_p"), 0.0, 1.0)?;
    need(breakpoints(body) <= 4, || "more than 4 cache marks".into())?;
    only("metadata", body.get("metadata"), &["user_id"])?;
    let thinking = body.get("thinking");
    if !thinking.is_null() {
        one_of(
            "thinking",
            thinking.get("type"),
            &["enabled", "adaptive", "between_tools", "disabled"],
        )?;
    }
    if thinking.get("type").str() == "enabled" {
        let budget = thinking.get("budget_tokens").whole().unwrap_or(0);
        need(budget >= 1024 && Some(budget) < limit, || {
            format!("budget {budget} of {limit:?}")
        })?;
        let forced = matches!(body.get("tool_choice").get("type").str(), "any" | "tool");
        need(!forced, || "a forced tool, and thinking".into())?;
        let turns = body.get("messages").list();
        let spoken = turns
            .iter()
            .rev()
            .find(|turn| turn.get("role").str() == "assistant");
        let blocks = spoken.map_or(&[][..], |turn| turn.get("content").list());
        let calls = blocks
            .iter()
            .any(|block| block.get("type").str() == "tool_use");
        let thinks = |block: &Json| block.get("type").str().ends_with("thinking");
        need(!calls || blocks.first().is_some_and(thinks), || {
            "a loop of calls that does not begin with its thoughts".into()
        })?;
        let temperature = body.get("temperature").number();
        need(temperature.is_none_or(|t| (t - 1.0).abs() < 1e-9), || {
            "temperature, and thinking".into()
        })?;
    }
    let format = body.get("output_config").get("format");
    if !format.is_null() {
        one_of("output_config.format", format.get("type"), &["json_schema"])?;
        need(format.get("schema").is_object(), || "no schema".into())?;
    }
    tools(body)
}

fn breakpoints(value: &Json) -> usize {
    match value {
        Json::List(items) => items.iter().map(breakpoints).sum(),
        Json::Object(members) => members
            .iter()
            .map(|(key, value)| match key.as_str() {
                "cache_control" => 1,
                "input" | "input_schema" | "schema" => 0,
                _ => breakpoints(value),
            })
            .sum(),
        _ => 0,
    }
}

/// A turn: those of one role that follow each other are one.
fn messages(messages: &[Json]) -> Check {
    let mut turns: Vec<(&str, Vec<Json>)> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message.get("role").str();
        let place = format!("messages[{at}] ({role})");
        one_of(&place, message.get("role"), &["user", "assistant"])?;
        let content = match message.get("content") {
            Json::Text(text) => vec![Json::object([
                ("type", Json::of("text")),
                ("text", Json::of(text.clone())),
            ])],
            content => content.list().to_vec(),
        };
        need(!content.is_empty(), || format!("{place} is empty"))?;
        for piece in &content {
            block(&place, role, piece)?;
        }
        match turns.last_mut() {
            Some((last, blocks)) if *last == role => blocks.extend(content),
            _ => turns.push((role, content)),
        }
    }
    need(
        turns.first().is_some_and(|(role, _)| *role == "user"),
        || "the first turn is not the user's".into(),
    )?;
    let mut open: Vec<&str> = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (role, blocks) in &turns {
        let of = |kind: &'static str| {
            blocks
                .iter()
                .filter(move |block| block.get("type").str() == kind)
        };
        let results: Vec<&str> = of("tool_result")
            .map(|block| block.get("tool_use_id").str())
            .collect();
        need(same(&results, &open), || {
            format!("{role}: results {results:?} of {open:?}")
        })?;
        let first = blocks
            .iter()
            .take_while(|block| block.get("type").str() == "tool_result");
        need(first.count() == results.len(), || {
            "results come first".into()
        })?;
        open = of("tool_use").map(|block| block.get("id").str()).collect();
        for id in &open {
            need(!known.contains(id), || format!("the id {id} comes twice"))?;
            known.push(id);
        }
    }
    need(open.is_empty(), || format!("{open:?} are not answered"))?;
    let last = turns.last().filter(|(role, _)| *role == "assistant");
    let last = last
        .and_then(|(_, blocks)| blocks.last())
        .unwrap_or(&Json::Null);
    let text = last.get("text").str();
    need(text.trim_end() == text, || "white space at the end".into())
}

fn same(a: &[&str], b: &[&str]) -> bool {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

fn block(place: &str, role: &str, block: &Json) -> Check {
    let kinds: &[&str] = match role {
        "assistant" => &["text", "thinking", "redacted_thinking", "tool_use"],
        "user" => &["text", "image", "document", "search_result", "tool_result"],
        _ => &["text", "image", "document", "search_result"],
    };
    one_of(place, block.get("type"), kinds)?;
    match block.get("type").str() {
        "text" => need(!block.get("text").str().trim().is_empty(), || {
            format!("{place}: a blank text")
        }),
        "thinking" => {
            need(block.get("thinking").is_text(), || {
                format!("{place}: thinking")
            })?;
            filled(&format!("{place}: a signature"), block.get("signature"))
        }
        "redacted_thinking" => filled(place, block.get("data")),
        "tool_use" => {
            name(&format!("{place}: an id"), block.get("id"), usize::MAX)?;
            name(&format!("{place}: a name"), block.get("name"), 128)?;
            need(block.get("input").is_object(), || {
                format!("{place}: an input that is no object")
            })
        }
        "tool_result" => {
            let content = block.get("content");
            let known = content.is_null() || content.is_text() || content.is_list();
            need(known, || format!("{place}: content"))?;
            content
                .list()
                .iter()
                .try_for_each(|part| self::block(place, "result", part))
        }
        "image" | "document" => source(place, block),
        _ => Ok(()),
    }
}

fn source(place: &str, block: &Json) -> Check {
    let source = block.get("source");
    match source.get("type").str() {
        "base64" => {
            filled(place, source.get("data"))?;
            let image = block.get("type").str() == "image";
            let types: &[&str] = if image {
                &["image/png", "image/jpeg", "image/gif", "image/webp"]
            } else {
                &["application/pdf"]
            };
            one_of(place, source.get("media_type"), types)
        }
        "url" => need(source.get("url").str().starts_with("http"), || {
            format!("{place}: url")
        }),
        "text" => one_of(place, source.get("media_type"), &["text/plain"]),
        "file" => filled(place, source.get("file_id")),
        "content" => Ok(()),
        other => Err(format!("{place}: a source of type {other:?}")),
    }
}

fn tools(body: &Json) -> Check {
    let mut names = Vec::new();
    for tool in body.get("tools").list() {
        name("a tool's name", tool.get("name"), 128)?;
        names.push(tool.get("name").str());
        one_of(
            "input_schema",
            tool.get("input_schema").get("type"),
            &["object"],
        )?;
    }
    need(!body.has("tools") || !names.is_empty(), || {
        "an empty list of tools".into()
    })?;
    once("a tool", &names)?;
    let choice = body.get("tool_choice");
    if choice.is_null() {
        return Ok(());
    }
    one_of(
        "tool_choice",
        choice.get("type"),
        &["auto", "any", "tool", "none"],
    )?;
    need(!names.is_empty(), || "a choice without tools".into())?;
    let named = choice.get("type").str() == "tool";
    need(!named || names.contains(&choice.get("name").str()), || {
        choice.compact()
    })
}

fn head(message: &Json) -> Check {
    let id = message.get("id").str();
    need(id.starts_with("msg_") && id.len() > 4, || {
        format!("id {id:?}")
    })?;
    one_of("type", message.get("type"), &["message"])?;
    one_of("role", message.get("role"), &["assistant"])?;
    filled("model", message.get("model"))?;
    need(message.get("content").is_list(), || "content".into())?;
    need(
        message.has("stop_reason") && message.has("stop_sequence"),
        || "stop_reason".into(),
    )?;
    usage(message.get("usage"))
}

pub(super) fn answer(message: &Json) -> Check {
    head(message)?;
    for piece in message.get("content").list() {
        answer_block(piece)?;
    }
    ended(message, message.get("content").list())
}

/// The reason is one of the dialect's, and agrees with the blocks.
fn ended(said: &Json, blocks: &[Json]) -> Check {
    let reason = said.get("stop_reason");
    one_of("stop_reason", reason, STOPS)?;
    let calls = blocks
        .iter()
        .any(|block| block.get("type").str() == "tool_use");
    // Calls end an answer as such, unless it was cut off.
    let right = match reason.str() {
        "tool_use" => calls,
        "end_turn" => !calls,
        _ => true,
    };
    need(right, || format!("{reason:?}, calls: {calls}"))?;
    let sequence = said.get("stop_sequence");
    need(
        sequence.is_text() == (reason.str() == "stop_sequence"),
        || "stop_sequence".into(),
    )
}

fn answer_block(block: &Json) -> Check {
    match block.get("type").str() {
        "text" => need(block.get("text").is_text(), || "text".into()),
        "thinking" => need(
            block.get("thinking").is_text() && block.get("signature").is_text(),
            || "thinking".into(),
        ),
        "redacted_thinking" => filled("data", block.get("data")),
        "tool_use" => {
            name("id", block.get("id"), usize::MAX)?;
            filled("name", block.get("name"))?;
            need(block.get("input").is_object(), || "input".into())
        }
        other => Err(format!("a block of type {other:?}")),
    }
}

fn usage(usage: &Json) -> Check {
    for key in ["input_tokens", "output_tokens"] {
        need(usage.get(key).whole().is_some(), || format!("usage.{key}"))?;
    }
    for key in ["cache_creation_input_tokens", "cache_read_input_tokens"] {
        let count = usage.get(key);
        need(count.is_null() || count.whole().is_some(), || {
            format!("usage.{key}")
        })?;
    }
    let thinking = usage.get("output_tokens_details").get("thinking_tokens");
    parts_of("output_tokens", usage.get("output_tokens"), &[thinking])
}

pub(super) fn stream(events: &[Event<'_>]) -> Check {
    let mut blocks: Vec<Json> = Vec::new();
    let mut open: Option<Open> = None;
    let mut ended_with: Option<Json> = None;
    let count = events.len();
    for (at, (named, data)) in events.iter().enumerate() {
        let event = Json::parse(data)?;
        let kind = event.get("type").str();
        let place = format!("event {at} {kind}");
        need(*named == Some(kind), || {
            format!("{place} is called {named:?}")
        })?;
        need((kind == "message_start") == (at == 0), || {
            format!("{place}: message_start first")
        })?;
        need((kind == "message_stop") == (at + 1 == count), || {
            format!("{place}, of {count}")
        })?;
        let index = event.get("index").whole() == Some(blocks.len() as u64);
        match kind {
            "ping" => {}
            "message_start" => {
                let message = event.get("message");
                head(message)?;
                need(message.get("content").list().is_empty(), || {
                    "content early".into()
                })?;
                need(message.get("stop_reason").is_null(), || {
                    "stop_reason early".into()
                })?;
            }
            "content_block_start" => {
                need(index && open.is_none() && ended_with.is_none(), || {
                    place.clone()
                })?;
                open = Some(Open::start(event.get("content_block"))?);
            }
            "content_block_delta" => {
                let block = open.as_mut().filter(|_| index).ok_or(place)?;
                block.delta(event.get("delta"))?;
            }
            "content_block_stop" => {
                let block = open.take().filter(|_| index).ok_or(place)?.stop()?;
                answer_block(&block)?;
                blocks.push(block);
            }
            "message_delta" => {
                need(open.is_none(), || "a block is open".into())?;
                usage(event.get("usage"))?;
                ended(event.get("delta"), &blocks)?;
                ended_with = Some(event.get("delta").clone());
            }
            "message_stop" => need(ended_with.is_some(), || "no message_delta".into())?,
            _ => return Err(place),
        }
    }
    need(count > 2, || "no end".into())
}

/// A block that is open.
struct Open {
    block: Json,
    json: String,
    sealed: bool,
}

impl Open {
    fn start(block: &Json) -> Result<Self, String> {
        let empty = match block.get("type").str() {
            "text" => block.get("text").text() == Some(""),
            "thinking" => block.get("thinking").text() == Some(""),
            "tool_use" => block.get("input").is_object() && block.get("input").members().is_empty(),
            _ => true,
        };
        need(empty, || format!("it is not empty: {}", block.compact()))?;
        let (block, json) = (block.clone(), String::new());
        Ok(Self {
            block,
            json,
            sealed: false,
        })
    }

    fn delta(&mut self, delta: &Json) -> Check {
        need(!self.sealed, || "something after the signature".into())?;
        let kind = self.block.get("type").str();
        let (of, key, from) = match delta.get("type").str() {
            "text_delta" => ("text", "text", "text"),
            "thinking_delta" => ("thinking", "thinking", "thinking"),
            "signature_delta" => {
                self.sealed = true;
                ("thinking", "signature", "signature")
            }
            "input_json_delta" => {
                self.json.push_str(delta.get("partial_json").str());
                return need(
                    kind == "tool_use" && delta.get("partial_json").is_text(),
                    || delta.compact(),
                );
            }
            "citations_delta" => {
                return need(kind == "text" && delta.get("citation").is_object(), || {
                    delta.compact()
                });
            }
            _ => return Err(delta.compact()),
        };
        need(kind == of && delta.get(from).is_text(), || delta.compact())?;
        let text = format!("{}{}", self.block.get(key).str(), delta.get(from).str());
        self.block.set(key, Json::of(text));
        Ok(())
    }

    fn stop(mut self) -> Result<Json, String> {
        if !self.json.is_empty() {
            self.block.set("input", Json::parse(&self.json)?);
        }
        Ok(self.block)
    }
}
