//! Finds the parts of answers of the Responses API (PROTOCOLS §5.3).
//!
//! Items are told apart by `output_index`. What was streamed in deltas is not said again when it is repeated in a `.done`; what comes in
//! a `.done` alone is said then. Items of tools that the provider runs are passed over.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::convert::Format;
use crate::convert::names::Names;
use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::convert::seal::Seal;
use crate::error::{Class, UpstreamError};

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct ResponsesReader {
    names: Names,
    items: Vec<State>,
    calls: u32,
}

/// What is known of an item.
#[derive(Debug, Default)]
struct State {
    index: u64,
    /// What it is; empty: it was not announced.
    kind: String,
    /// The number of the call that it is.
    call: Option<u32>,
    /// Something of its content was said.
    said: bool,
    /// The parts of its text or summary of which something was said.
    parts: Vec<u64>,
    /// Sources were named.
    cited: bool,
    /// Log probabilities were told.
    probed: bool,
    done: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(default)]
    content_index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    logprobs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<Item<'a>>,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    /// Of tools that the provider runs it may be an object.
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    encrypted_content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    summary: Option<Vec<Content<'a>>>,
    #[serde(borrow, default)]
    content: Option<Vec<Content<'a>>>,
    /// An image, base64.
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_format: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    annotations: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    logprobs: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<Details<'a>>,
    #[serde(borrow, default)]
    output: Option<Vec<Item<'a>>>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Cited<'a> {
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(default)]
    start_index: Option<u64>,
    #[serde(default)]
    end_index: Option<u64>,
}

impl Reader for ResponsesReader {
    fn event(
        &mut self,
        _: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|_| {
            let text = "the upstream's answer is not what its dialect says";
            Box::new(UpstreamError::found(Class::Malformed, text))
        })?;
        let kind = event.kind.strip_prefix("response.").unwrap_or(&event.kind);
        match kind {
            "created" => {
                let told = event.response.and_then(|response| response.created_at);
                // Some servers tell fractions of a second.
                let created = told.and_then(|raw| raw.get().split('.').next()?.parse().ok());
                put(0, Part::Begin { created });
            }
            "completed" | "incomplete" => {
                let output = event.response.as_ref().and_then(|all| all.output.as_ref());
                // Some servers tell all at the end alone, or not that an item is complete.
                let silent = self.items.is_empty();
                for (item, index) in output.into_iter().flatten().zip(0..) {
                    if silent {
                        self.added(Some(index), item, put);
                    }
                    let state = self.state(Some(index));
                    let same = |kind: &str| kind.is_empty() || kind == item.kind;
                    if state.is_some_and(|state| same(&state.kind)) {
                        self.done(Some(index), item, put);
                    }
                }
                self.end(put);
                finish(kind, event.response.as_ref(), put);
            }
            "cancelled" => return Err(crate::convert::answer::unmade()),
            "output_item.added" => {
                if let Some(item) = &event.item {
                    // Some servers number all items alike.
                    if let Some(state) = self.state(event.output_index).filter(|it| it.done) {
                        state.index = u64::MAX;
                    }
                    self.added(event.output_index, item, put);
                }
            }
            "output_item.done" => {
                if let Some(item) = &event.item {
                    self.added(event.output_index, item, put);
                    self.done(event.output_index, item, put);
                }
            }
            _ => self.content(kind, &event, put),
        }
        Ok(())
    }

    fn end(&mut self, put: &mut Put<'_>) {
        for state in &mut self.items {
            if let Some(key) = state.call.filter(|_| !state.done) {
                put(0, Part::CallEnd { key });
            }
            state.done = true;
        }
    }
}

impl ResponsesReader {
    /// Nothing was read yet. `names`: what the request calls the tools.
    pub(crate) fn new(names: &Names) -> Self {
        Self {
            names: names.clone(),
            ..Self::default()
        }
    }

    fn state(&mut self, index: Option<u64>) -> Option<&mut State> {
        let index = index.unwrap_or(0);
        self.items.iter_mut().find(|state| state.index == index)
    }

    /// An item begins. What is announced twice begins once.
    fn added(&mut self, index: Option<u64>, item: &Item<'_>, put: &mut Put<'_>) {
        if self.state(index).is_some() {
            return;
        }
        let custom = item.kind == "custom_tool_call";
        let call = (custom || item.kind == "function_call").then_some(self.calls);
        if let Some(key) = call {
            self.calls += 1;
            put(
                0,
                Part::Call {
                    key,
                    id: item.call_id.as_deref().unwrap_or_default(),
                    name: self.names.own(item.name.as_deref().unwrap_or_default()),
                    custom,
                    seal: None,
                },
            );
        }
        self.items.push(State {
            index: index.unwrap_or(0),
            kind: item.kind.to_string(),
            call,
            ..State::default()
        });
    }

    fn content(&mut self, kind: &str, event: &Event<'_>, put: &mut Put<'_>) {
        let told = ["output_text.", "refusal.", "reasoning_"];
        let tells = told.iter().any(|told| kind.starts_with(told));
        if tells && self.state(event.output_index).is_none() {
            // Some servers announce no item: it is what is told of it.
            self.items.push(State {
                index: event.output_index.unwrap_or(0),
                ..State::default()
            });
        }
        let Some(state) = self.state(event.output_index) else {
            return;
        };
        let part = event.summary_index.or(event.content_index);
        let delta = event.delta.as_deref().unwrap_or_default();
        match kind {
            "output_text.delta" => {
                state.say(part, delta, Part::Text, put);
                state.probed |= logprobs(event.logprobs, put);
            }
            "output_text.done" if state.is_new(part) => {
                state.say(
                    part,
                    event.text.as_deref().unwrap_or_default(),
                    Part::Text,
                    put,
                );
                state.probed |= logprobs(event.logprobs, put);
            }
            "refusal.delta" => state.say(part, delta, Part::Refusal, put),
            "refusal.done" if state.is_new(part) => {
                let text = event.refusal.as_deref().unwrap_or_default();
                state.say(part, text, Part::Refusal, put);
            }
            "reasoning_summary_text.delta" | "reasoning_text.delta" => {
                state.think(part, delta, put);
            }
            "reasoning_summary_text.done" | "reasoning_text.done" if state.is_new(part) => {
                state.think(part, event.text.as_deref().unwrap_or_default(), put);
            }
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                state.argue(delta, put);
            }
            "function_call_arguments.done" | "custom_tool_call_input.done" if !state.said => {
                let all = event.arguments.as_deref().or(event.input.as_deref());
                state.argue(all.unwrap_or_default(), put);
            }
            "output_text.annotation.added" => {
                if let Some(raw) = event.annotation {
                    state.cited = true;
                    cite(raw, put);
                }
            }
            _ => {}
        }
    }

    /// An item is complete: what of it was not said yet is said.
    fn done(&mut self, index: Option<u64>, item: &Item<'_>, put: &mut Put<'_>) {
        let Some(state) = self.state(index).filter(|state| !state.done) else {
            return;
        };
        state.done = true;
        let said = state.said;
        if let Some(key) = state.call {
            if !said {
                let all = string(item.arguments).or_else(|| string(item.input));
                state.argue(&all.unwrap_or_default(), put);
            }
            put(0, Part::CallEnd { key });
            return;
        }
        let parts = || item.content.iter().flatten().zip(0..);
        match &*item.kind {
            "message" => {
                let (cited, probed) = (state.cited, state.probed);
                for (part, number) in parts() {
                    if state.is_new(Some(number)) {
                        let text = part.text.as_deref().unwrap_or_default();
                        state.say(Some(number), text, Part::Text, put);
                        let refusal = part.refusal.as_deref().unwrap_or_default();
                        state.say(Some(number), refusal, Part::Refusal, put);
                    }
                    if !probed {
                        state.probed |= logprobs(part.logprobs, put);
                    }
                    for raw in part.annotations.iter().flatten().filter(|_| !cited) {
                        cite(raw, put);
                    }
                }
            }
            "reasoning" => {
                let summary = item.summary.iter().flatten();
                let texts = summary.chain(item.content.iter().flatten());
                for (part, number) in texts.zip(0..) {
                    if !state.is_new(Some(number)) {
                        continue;
                    }
                    state.think(Some(number), part.text.as_deref().unwrap_or_default(), put);
                }
                let sealed = item.encrypted_content.as_deref().unwrap_or_default();
                if !sealed.is_empty() {
                    put(
                        0,
                        Part::Sealed(Seal {
                            maker: Format::Responses,
                            redacted: false,
                            value: sealed,
                        }),
                    );
                }
            }
            "image_generation_call" => {
                let data = string(item.result).unwrap_or_default();
                if !data.is_empty() {
                    let format = item.output_format.as_deref().unwrap_or("png");
                    let (mime, data) = (&*format!("image/{format}"), &*data);
                    put(0, Part::Media { mime, data });
                }
            }
            _ => {}
        }
    }
}

impl State {
    /// Whether nothing was said of a part.
    fn is_new(&self, part: Option<u64>) -> bool {
        !self.parts.contains(&part.unwrap_or(0))
    }

    fn begin(&mut self, part: Option<u64>) {
        self.said = true;
        if self.is_new(part) {
            self.parts.push(part.unwrap_or(0));
        }
    }

    fn say<'a>(
        &mut self,
        part: Option<u64>,
        text: &'a str,
        say: fn(&'a str) -> Part<'a>,
        put: &mut Put<'_>,
    ) {
        if !text.is_empty() {
            self.begin(part);
            put(0, say(text));
        }
    }

    /// Parts of a summary are told apart by a blank line.
    fn think(&mut self, part: Option<u64>, text: &str, put: &mut Put<'_>) {
        if !text.is_empty() {
            if self.said && self.is_new(part) {
                put(0, Part::Reasoning("\n\n"));
            }
            self.begin(part);
            put(0, Part::Reasoning(text));
        }
    }

    fn argue(&mut self, piece: &str, put: &mut Put<'_>) {
        if let Some(key) = self.call.filter(|_| !piece.is_empty()) {
            self.said = true;
            put(0, Part::Arguments { key, piece });
        }
    }
}

/// The string that a value is.
fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw?.get()).ok()
}

/// Whether there were any.
fn logprobs(raw: Option<&RawValue>, put: &mut Put<'_>) -> bool {
    let inside = raw.map(|raw| raw.get().trim());
    let inside = inside.and_then(|raw| raw.strip_prefix('[')?.strip_suffix(']'));
    match inside.map(str::trim).filter(|items| !items.is_empty()) {
        Some(items) => {
            put(0, Part::Logprobs(items));
            true
        }
        None => false,
    }
}

fn cite(raw: &RawValue, put: &mut Put<'_>) {
    if let Ok(cited) = serde_json::from_str::<Cited<'_>>(raw.get()) {
        put(
            0,
            Part::Citation {
                url: cited.url.as_deref().unwrap_or_default(),
                title: cited.title.as_deref().unwrap_or_default(),
                span: cited.start_index.zip(cited.end_index),
                raw: raw.get(),
            },
        );
    }
}

fn finish(kind: &str, response: Option<&Response<'_>>, put: &mut Put<'_>) {
    let details = response.and_then(|response| response.incomplete_details.as_ref());
    let raw = details.and_then(|details| details.reason.as_deref());
    let raw = raw.unwrap_or_default();
    let reason = match (kind, raw) {
        ("completed", _) => Reason::Stop,
        (_, "max_output_tokens") => Reason::Length,
        (_, "content_filter") => Reason::Filtered,
        _ => Reason::Other,
    };
    put(0, Part::Finish(Finish { reason, raw }));
}
