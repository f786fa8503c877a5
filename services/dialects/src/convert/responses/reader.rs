//! Finds the parts of answers of the Responses API (PROTOCOLS §5.3).
//!
//! Items are told apart by `output_index` and what they are. What was streamed in deltas is not said again when it is repeated in a
//! `.done` or in the response that ends the stream; what comes there alone, or goes on there, is said then. Items of tools that
//! the provider runs are passed over.

mod state;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::state::{Kind, State};
use crate::convert::Format;
use crate::convert::answer::unmade;
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
    status: Option<Cow<'a, str>>,
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
            "completed" | "incomplete" | "cancelled" => {
                let response = event.response.as_ref();
                // Those that end every response in one way tell its status.
                let status = response.and_then(|response| response.status.as_deref());
                let status = status.unwrap_or(kind);
                if status == "cancelled" {
                    return Err(unmade());
                }
                let output = response.and_then(|response| response.output.as_deref());
                self.told_at_the_end(output.unwrap_or_default(), put);
                self.end(put);
                finish(
                    kind == "incomplete" || status == "incomplete",
                    response,
                    put,
                );
            }
            "output_item.added" => {
                if let Some(item) = &event.item {
                    self.announced(event.output_index, item, put);
                }
            }
            "output_item.done" => {
                if let Some(item) = &event.item {
                    let place = self.added(event.output_index, item, put);
                    self.done(place, item, put);
                }
            }
            _ => self.content(kind, &event, put),
        }
        Ok(())
    }

    fn end(&mut self, put: &mut Put<'_>) {
        for state in &mut self.items {
            state.end(put);
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

    /// The item that an event speaks of. `call`: the call's id, where one is told: some servers give all items one index.
    fn place(&self, index: Option<u64>, kind: Kind, call: &str) -> Option<usize> {
        let index = index.unwrap_or(0);
        let same = |state: &State| state.is(index, kind, call);
        self.items.iter().rposition(same)
    }

    /// An item is announced. What is announced twice begins once, but for servers that number all items alike.
    fn announced(&mut self, index: Option<u64>, item: &Item<'_>, put: &mut Put<'_>) {
        let place = self.added(index, item, put);
        if self.items.get(place).is_some_and(|state| state.done) {
            self.begin(index, item, put);
        }
    }

    /// The place of an item, which begins where it has not.
    fn added(&mut self, index: Option<u64>, item: &Item<'_>, put: &mut Put<'_>) -> usize {
        let kind = Kind::of_item(&item.kind);
        let id = item.call_id.as_deref().unwrap_or_default();
        if let Some(place) = self.place(index, kind, id) {
            return place;
        }
        self.begin(index, item, put)
    }

    fn begin(&mut self, index: Option<u64>, item: &Item<'_>, put: &mut Put<'_>) -> usize {
        let kind = Kind::of_item(&item.kind);
        let id = item.call_id.as_deref().unwrap_or_default();
        let call = (kind == Kind::Call).then_some(self.calls);
        if let Some(key) = call {
            self.calls += 1;
            let name = self.names.own(item.name.as_deref().unwrap_or_default());
            let custom = item.kind == "custom_tool_call";
            let seal = None;
            put(
                0,
                Part::Call {
                    key,
                    id,
                    name,
                    custom,
                    seal,
                },
            );
        }
        self.items
            .push(State::new(index.unwrap_or(0), kind, call, id));
        self.items.len() - 1
    }

    /// What the response consists of as it ends: some servers tell all, or some of it, there alone.
    fn told_at_the_end(&mut self, output: &[Item<'_>], put: &mut Put<'_>) {
        for (number, item) in output.iter().enumerate() {
            let kind = Kind::of_item(&item.kind);
            let index = u64::try_from(number).ok();
            let id = item.call_id.as_deref().unwrap_or_default();
            // Where the indexes say otherwise, the items of a kind are known by their order.
            let before = output.iter().take(number);
            let nth = before.filter(|item| Kind::of_item(&item.kind) == kind);
            let nth = nth.count();
            let of_kind = self.items.iter().enumerate();
            let mut of_kind = of_kind.filter(|(_, state)| state.kind == kind);
            let known = self
                .place(index, kind, id)
                .or_else(|| of_kind.nth(nth).map(|(place, _)| place));
            let place = known.unwrap_or_else(|| self.added(index, item, put));
            self.done(place, item, put);
        }
    }

    fn content(&mut self, event_kind: &str, event: &Event<'_>, put: &mut Put<'_>) {
        let Some(kind) = Kind::of_event(event_kind) else {
            return;
        };
        let place = match self.place(event.output_index, kind, "") {
            Some(place) => place,
            // Whom it calls is told when the item is.
            None if kind == Kind::Call => return,
            // Some servers announce no item: it is what is told of it.
            None => {
                let index = event.output_index.unwrap_or(0);
                self.items.push(State::new(index, kind, None, ""));
                self.items.len() - 1
            }
        };
        let Some(state) = self.items.get_mut(place) else {
            return;
        };
        let text = event.text.as_deref().unwrap_or_default();
        let part = event.summary_index.or(event.content_index);
        let delta = event.delta.as_deref().unwrap_or_default();
        match event_kind {
            "output_text.delta" => {
                state.say(part, delta, Part::Text, put);
                state.probed |= logprobs(event.logprobs, put);
            }
            "output_text.done" => {
                let probed = !state.is_new(part);
                state.say_rest(part, text, Part::Text, put);
                if !probed {
                    state.probed |= logprobs(event.logprobs, put);
                }
            }
            "refusal.delta" => state.say(part, delta, Part::Refusal, put),
            "refusal.done" => {
                let text = event.refusal.as_deref().unwrap_or_default();
                state.say_rest(part, text, Part::Refusal, put);
            }
            "reasoning_summary_text.delta" | "reasoning_text.delta" => {
                state.think(part, delta, put);
            }
            "reasoning_summary_text.done" | "reasoning_text.done" => {
                state.think_rest(part, text, put);
            }
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                state.argue(delta, put);
            }
            "function_call_arguments.done" | "custom_tool_call_input.done" => {
                let all = event.arguments.as_deref().or(event.input.as_deref());
                state.argue_rest(all.unwrap_or_default(), put);
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
    fn done(&mut self, place: usize, item: &Item<'_>, put: &mut Put<'_>) {
        let Some(state) = self.items.get_mut(place).filter(|state| !state.done) else {
            return;
        };
        if state.kind == Kind::Call {
            let all = string(item.arguments).or_else(|| string(item.input));
            state.argue_rest(&all.unwrap_or_default(), put);
            state.end(put);
            return;
        }
        state.done = true;
        let parts = || item.content.iter().flatten().zip(0..);
        match &*item.kind {
            "message" => {
                let (cited, probed) = (state.cited, state.probed);
                for (part, number) in parts() {
                    if let Some(refusal) = part.refusal.as_deref() {
                        state.say_rest(Some(number), refusal, Part::Refusal, put);
                    } else {
                        let text = part.text.as_deref().unwrap_or_default();
                        state.say_rest(Some(number), text, Part::Text, put);
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
                    state.think_rest(Some(number), part.text.as_deref().unwrap_or_default(), put);
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

fn finish(cut: bool, response: Option<&Response<'_>>, put: &mut Put<'_>) {
    let details = response.and_then(|response| response.incomplete_details.as_ref());
    let told = details.and_then(|details| details.reason.as_deref());
    let raw = told.unwrap_or_default();
    let (reason, raw) = match raw {
        _ if !cut => (Reason::Stop, raw),
        "max_output_tokens" => (Reason::Length, raw),
        "content_filter" => (Reason::Filtered, raw),
        "" => (Reason::Cut, "incomplete"),
        _ => (Reason::Cut, raw),
    };
    put(0, Part::Finish(Finish { reason, raw }));
}
