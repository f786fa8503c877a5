//! A stream's events put together as the whole answer that they are.

use switchboard_dialects::convert::Format;

use crate::json::Json;

/// The whole answer of a stream.
pub(super) fn whole(format: Format, text: &str) -> Json {
    let events = text.split("\n\n").filter_map(|event| {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<_> = data.map(str::trim).collect();
        Json::parse(&data.join("\n")).ok()
    });
    let events: Vec<_> = events.collect();
    match format {
        Format::Chat => chat(&events),
        Format::Responses => {
            let last = events.last().expect("a last event");
            last.get("response").clone()
        }
        Format::Anthropic => anthropic(&events),
        Format::Gemini => gemini(&events),
    }
}

/// Adds a piece to the text of a member.
fn append(object: &mut Json, key: &str, piece: &Json) {
    if let Some(piece) = piece.text() {
        let all = format!("{}{piece}", object.get(key).str());
        object.set(key, Json::of(all));
    }
}

/// Adds an item to the list of a member.
fn push(object: &mut Json, key: &str, item: Json) {
    let mut items = object.get(key).list().to_vec();
    items.push(item);
    object.set(key, Json::List(items));
}

fn place<'l>(list: &'l mut Vec<Json>, index: &Json) -> &'l mut Json {
    let at = usize::try_from(index.whole().unwrap_or(0)).unwrap();
    while list.len() <= at {
        list.push(Json::object([]));
    }
    &mut list[at]
}

fn chat(events: &[Json]) -> Json {
    let mut choices = Vec::new();
    let mut usage = Json::Null;
    for event in events {
        if event.get("usage").is_object() {
            usage = event.get("usage").clone();
        }
        for choice in event.get("choices").list() {
            let whole = place(&mut choices, choice.get("index"));
            whole.set("index", choice.get("index").clone());
            let mut message = whole.get("message").clone();
            if !message.is_object() {
                message = Json::object([("role", Json::of("assistant"))]);
            }
            for (key, piece) in choice.get("delta").members() {
                match &**key {
                    "role" => {}
                    "tool_calls" => calls(&mut message, piece),
                    _ if piece.is_text() => append(&mut message, key, piece),
                    _ => piece
                        .list()
                        .iter()
                        .for_each(|item| push(&mut message, key, item.clone())),
                }
            }
            whole.set("message", message);
            for probs in choice.get("logprobs").get("content").list() {
                let mut all = whole.get("logprobs").clone();
                if !all.is_object() {
                    all = Json::object([]);
                }
                push(&mut all, "content", probs.clone());
                whole.set("logprobs", all);
            }
            for key in ["finish_reason", "native_finish_reason"] {
                if choice.get(key).is_text() {
                    whole.set(key, choice.get(key).clone());
                }
            }
        }
    }
    Json::object([
        ("object", Json::of("chat.completion")),
        ("created", Json::Number("1".into())),
        ("id", Json::of("chatcmpl-1")),
        ("model", Json::of("m")),
        ("choices", Json::List(choices)),
        ("usage", usage),
    ])
}

fn calls(message: &mut Json, fragments: &Json) {
    let mut all = message.get("tool_calls").list().to_vec();
    for fragment in fragments.list() {
        let call = place(&mut all, fragment.get("index"));
        for (key, value) in fragment.members() {
            match &**key {
                "index" => {}
                "function" | "custom" => {
                    let mut inner = match call.get(key) {
                        Json::Null => Json::object([]),
                        inner => inner.clone(),
                    };
                    for (key, piece) in value.members() {
                        append(&mut inner, key, piece);
                    }
                    call.set(key, inner);
                }
                _ => call.set(key, value.clone()),
            }
        }
    }
    message.set("tool_calls", Json::List(all));
}

fn anthropic(events: &[Json]) -> Json {
    let mut message = Json::Null;
    let mut blocks = Vec::new();
    for event in events {
        match event.get("type").str() {
            "message_start" => message = event.get("message").clone(),
            "content_block_start" => {
                *place(&mut blocks, event.get("index")) = event.get("content_block").clone();
            }
            "content_block_delta" => {
                let block = place(&mut blocks, event.get("index"));
                let delta = event.get("delta");
                match delta.get("type").str() {
                    "text_delta" => append(block, "text", delta.get("text")),
                    "thinking_delta" => append(block, "thinking", delta.get("thinking")),
                    "signature_delta" => append(block, "signature", delta.get("signature")),
                    "citations_delta" => push(block, "citations", delta.get("citation").clone()),
                    _ => append(block, "json", delta.get("partial_json")),
                }
            }
            "content_block_stop" => {
                let block = place(&mut blocks, event.get("index"));
                if let Ok(input) = Json::parse(block.get("json").str()) {
                    block.set("input", input);
                }
                block.set("json", Json::Null);
            }
            "message_delta" => {
                for (key, value) in event.get("delta").members() {
                    message.set(key, value.clone());
                }
                let mut usage = message.get("usage").clone();
                for (key, value) in event.get("usage").members() {
                    usage.set(key, value.clone());
                }
                message.set("usage", usage);
            }
            _ => {}
        }
    }
    message.set("content", Json::List(blocks));
    message
}

fn gemini(events: &[Json]) -> Json {
    let mut candidates = Vec::new();
    let mut whole = Json::object([]);
    for event in events {
        for (key, value) in event.members() {
            if key != "candidates" {
                whole.set(key, value.clone());
            }
        }
        for candidate in event.get("candidates").list() {
            let all = place(&mut candidates, candidate.get("index"));
            let mut parts = all.get("content").get("parts").list().to_vec();
            parts.extend_from_slice(candidate.get("content").get("parts").list());
            for (key, value) in candidate.members() {
                all.set(key, value.clone());
            }
            let role = ("role", Json::of("model"));
            all.set(
                "content",
                Json::object([role, ("parts", Json::List(parts))]),
            );
        }
    }
    if !candidates.is_empty() {
        whole.set("candidates", Json::List(candidates));
    }
    whole
}
