//! What a caller reads of an answer, as its clients gather it.

use switchboard_dialects::convert::Format;

use crate::json::Json;

/// What a choice says, kind by kind.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) refusal: String,
    /// Name, arguments, id.
    pub(super) calls: Vec<(String, String, String)>,
    pub(super) urls: Vec<String>,
    pub(super) tokens: Vec<String>,
    pub(super) images: Vec<String>,
    pub(super) seals: Vec<String>,
    pub(super) end: String,
}

/// What a document says, choice by choice, and input and output tokens.
pub(super) fn of(format: Format, body: &Json) -> (Vec<Said>, [u64; 2]) {
    let count = |value: &Json| value.whole().unwrap_or(0);
    let usage = body.get("usage");
    match format {
        Format::Chat => {
            let choices = body.get("choices").list();
            let used = ["prompt_tokens", "completion_tokens"].map(|key| count(usage.get(key)));
            (choices.iter().map(chat).collect(), used)
        }
        Format::Responses => {
            let used = ["input_tokens", "output_tokens"].map(|key| count(usage.get(key)));
            (vec![responses(body)], used)
        }
        Format::Anthropic => {
            let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
            let cached: u64 = cached.iter().map(|key| count(usage.get(key))).sum();
            let [input, output] =
                ["input_tokens", "output_tokens"].map(|key| count(usage.get(key)));
            (vec![anthropic(body)], [input + cached, output])
        }
        Format::Gemini => {
            let usage = body.get("usageMetadata");
            let input = count(usage.get("promptTokenCount"));
            let output = ["candidatesTokenCount", "thoughtsTokenCount"];
            let output = output.iter().map(|key| count(usage.get(key))).sum();
            let candidates = body.get("candidates").list();
            (candidates.iter().map(gemini).collect(), [input, output])
        }
    }
}

fn chat(choice: &Json) -> Said {
    let message = choice.get("message");
    let mut said = Said {
        text: message.get("content").str().to_owned(),
        thought: message.get("reasoning_content").str().to_owned(),
        refusal: message.get("refusal").str().to_owned(),
        end: choice.get("finish_reason").str().to_owned(),
        ..Said::default()
    };
    for call in message.get("tool_calls").list() {
        let (inner, arguments) = match call.get("custom") {
            Json::Null => (call.get("function"), "arguments"),
            custom => (custom, "input"),
        };
        said.call(inner.get("name"), inner.get(arguments), call.get("id"));
        let google = call.get("extra_content").get("google");
        said.seal(google.get("thought_signature"));
    }
    for annotation in message.get("annotations").list() {
        said.url(annotation.get("url_citation").get("url"));
    }
    for detail in message.get("reasoning_details").list() {
        said.seal(detail.get("signature"));
        said.seal(detail.get("data"));
    }
    for image in message.get("images").list() {
        let url = image.get("image_url").get("url").str();
        let data = url.split_once(',').map_or(url, |(_, data)| data);
        said.images.push(data.to_owned());
    }
    said.tokens(choice.get("logprobs").get("content"), "token");
    said
}

fn responses(body: &Json) -> Said {
    let mut said = Said {
        end: body.get("status").str().to_owned(),
        ..Said::default()
    };
    let reason = body.get("incomplete_details").get("reason");
    said.end.push_str(reason.str());
    for item in body.get("output").list() {
        for part in item.get("summary").list() {
            said.thought.push_str(part.get("text").str());
        }
        said.seal(item.get("encrypted_content"));
        for part in item.get("content").list() {
            said.text.push_str(part.get("text").str());
            said.refusal.push_str(part.get("refusal").str());
            for annotation in part.get("annotations").list() {
                said.url(annotation.get("url"));
            }
            said.tokens(part.get("logprobs"), "token");
        }
        match item.get("type").str() {
            "function_call" => {
                said.call(item.get("name"), item.get("arguments"), item.get("call_id"))
            }
            "custom_tool_call" => {
                said.call(item.get("name"), item.get("input"), item.get("call_id"))
            }
            "image_generation_call" => said.images.push(item.get("result").str().to_owned()),
            _ => {}
        }
    }
    said
}

/// How a text ends that stands for an image.
const NO_PLACE: &str = "for which this API has no place in an answer]";

fn anthropic(body: &Json) -> Said {
    let mut said = Said {
        end: body.get("stop_reason").str().to_owned(),
        ..Said::default()
    };
    for block in body.get("content").list() {
        match block.get("type").str() {
            // A place where an image was made, which cannot be shown.
            "text" if block.get("text").str().ends_with(NO_PLACE) => {
                said.images.push(String::new());
            }
            "text" => {
                said.text.push_str(block.get("text").str());
                for citation in block.get("citations").list() {
                    said.url(citation.get("url"));
                }
            }
            "thinking" => {
                said.thought.push_str(block.get("thinking").str());
                said.seal(block.get("signature"));
            }
            "redacted_thinking" => said.seal(block.get("data")),
            "tool_use" => {
                let input = Json::of(block.get("input").compact());
                said.call(block.get("name"), &input, block.get("id"));
            }
            _ => {}
        }
    }
    said
}

fn gemini(candidate: &Json) -> Said {
    let mut said = Said {
        end: candidate.get("finishReason").str().to_owned(),
        ..Said::default()
    };
    for part in candidate.get("content").get("parts").list() {
        let words = part.get("text").str();
        match *part.get("thought") == Json::Bool(true) {
            true => said.thought.push_str(words),
            false => said.text.push_str(words),
        }
        said.seal(part.get("thoughtSignature"));
        let call = part.get("functionCall");
        if call.is_object() {
            let args = match call.get("args") {
                Json::Null => "{}".to_owned(),
                args => args.compact(),
            };
            said.call(call.get("name"), &Json::of(args), call.get("id"));
        }
        if part.has("inlineData") {
            said.images
                .push(part.get("inlineData").get("data").str().to_owned());
        }
    }
    let sources = candidate.get("citationMetadata").get("citationSources");
    for source in sources.list() {
        said.url(source.get("uri"));
    }
    let chosen = candidate.get("logprobsResult").get("chosenCandidates");
    said.tokens(chosen, "token");
    said
}

impl Said {
    fn call(&mut self, name: &Json, arguments: &Json, id: &Json) {
        let all = [name, arguments, id].map(|value| value.str().to_owned());
        let [name, arguments, id] = all;
        self.calls.push((name, arguments, id));
    }

    fn url(&mut self, url: &Json) {
        self.urls.extend(url.text().map(str::to_owned));
    }

    fn seal(&mut self, seal: &Json) {
        // One without a value only tells of its maker.
        let empty = |seal: &str| seal.is_empty() || seal.ends_with('.');
        let seal = seal.text().filter(|seal| !empty(seal));
        self.seals.extend(seal.map(str::to_owned));
    }

    fn tokens(&mut self, items: &Json, key: &str) {
        let tokens = items
            .list()
            .iter()
            .map(|item| item.get(key).str().to_owned());
        self.tokens.extend(tokens);
    }
}

/// The document that a valid stream amounts to.
pub(super) fn gathered(format: Format, stream: &str) -> Json {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Json> = data.filter_map(|data| Json::parse(data).ok()).collect();
    match format {
        Format::Responses => {
            let last = events.last().unwrap();
            last.get("response").clone()
        }
        Format::Chat => gathered_chat(&events),
        Format::Anthropic => gathered_anthropic(&events),
        Format::Gemini => gathered_gemini(&events),
    }
}

/// Puts a text to the end of the one that is there.
fn add(object: &mut Json, key: &str, more: &Json) {
    if let Some(more) = more.text() {
        let text = format!("{}{more}", object.get(key).str());
        object.set(key, Json::of(text));
    }
}

/// Puts items to the end of those that are there.
fn extend(object: &mut Json, key: &str, more: &Json) {
    if !more.list().is_empty() {
        let all = [object.get(key).list(), more.list()].concat();
        object.set(key, Json::List(all));
    }
}

fn gathered_chat(events: &[Json]) -> Json {
    let mut choices: Vec<Json> = Vec::new();
    let mut body = Json::object([]);
    for chunk in events {
        if chunk.get("usage").is_object() {
            body.set("usage", chunk.get("usage").clone());
        }
        for said in chunk.get("choices").list() {
            let at = usize::try_from(said.get("index").whole().unwrap()).unwrap();
            while choices.len() <= at {
                choices.push(Json::object([("message", Json::object([]))]));
            }
            let choice = &mut choices[at];
            let (delta, mut message) = (said.get("delta"), choice.get("message").clone());
            for key in ["content", "refusal", "reasoning_content"] {
                add(&mut message, key, delta.get(key));
            }
            for key in ["annotations", "reasoning_details", "images", "citations"] {
                extend(&mut message, key, delta.get(key));
            }
            for piece in delta.get("tool_calls").list() {
                call_piece(&mut message, piece);
            }
            choice.set("message", message);
            let mut logprobs = choice.get("logprobs").clone();
            if !logprobs.is_object() {
                logprobs = Json::object([]);
            }
            extend(
                &mut logprobs,
                "content",
                said.get("logprobs").get("content"),
            );
            choice.set("logprobs", logprobs);
            if said.get("finish_reason").is_text() {
                choice.set("finish_reason", said.get("finish_reason").clone());
            }
        }
    }
    body.set("choices", Json::List(choices));
    body
}

fn call_piece(message: &mut Json, piece: &Json) {
    let at = usize::try_from(piece.get("index").whole().unwrap()).unwrap();
    let mut calls = message.get("tool_calls").list().to_vec();
    match calls.get_mut(at) {
        None => calls.push(piece.clone()),
        Some(call) => {
            for (key, inside) in [("function", "arguments"), ("custom", "input")] {
                let mut inner = call.get(key).clone();
                add(&mut inner, inside, piece.get(key).get(inside));
                call.set(key, inner);
            }
            if piece.has("extra_content") {
                call.set("extra_content", piece.get("extra_content").clone());
            }
        }
    }
    message.set("tool_calls", Json::List(calls));
}

fn gathered_anthropic(events: &[Json]) -> Json {
    let mut body = Json::object([]);
    let mut blocks: Vec<Json> = Vec::new();
    let mut input = String::new();
    for event in events {
        let delta = event.get("delta");
        match event.get("type").str() {
            "content_block_start" => {
                blocks.push(event.get("content_block").clone());
                input.clear();
            }
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                for key in ["text", "thinking", "signature"] {
                    add(block, key, delta.get(key));
                }
                input.push_str(delta.get("partial_json").str());
                if delta.has("citation") {
                    let one = Json::List(vec![delta.get("citation").clone()]);
                    extend(block, "citations", &one);
                }
            }
            "content_block_stop" if !input.is_empty() => {
                let block = blocks.last_mut().unwrap();
                block.set("input", Json::parse(&input).unwrap());
                input.clear();
            }
            "message_delta" => {
                body.set("stop_reason", delta.get("stop_reason").clone());
                body.set("usage", event.get("usage").clone());
            }
            _ => {}
        }
    }
    body.set("content", Json::List(blocks));
    body
}

fn gathered_gemini(events: &[Json]) -> Json {
    let mut body = Json::object([]);
    let mut candidates: Vec<Json> = Vec::new();
    for event in events {
        if event.has("usageMetadata") {
            body.set("usageMetadata", event.get("usageMetadata").clone());
        }
        for said in event.get("candidates").list() {
            let at = usize::try_from(said.get("index").whole().unwrap()).unwrap();
            while candidates.len() <= at {
                candidates.push(Json::object([]));
            }
            let candidate = &mut candidates[at];
            for (key, inside) in [
                ("content", "parts"),
                ("citationMetadata", "citationSources"),
                ("logprobsResult", "chosenCandidates"),
            ] {
                let mut outer = candidate.get(key).clone();
                if !outer.is_object() {
                    outer = Json::object([]);
                }
                extend(&mut outer, inside, said.get(key).get(inside));
                candidate.set(key, outer);
            }
            if said.has("finishReason") {
                candidate.set("finishReason", said.get("finishReason").clone());
            }
        }
    }
    body.set("candidates", Json::List(candidates));
    body
}
