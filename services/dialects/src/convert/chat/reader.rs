//! Finds the parts of chat's answers (PROTOCOLS §3.3).
//!
//! Servers differ in what they leave out: a fragment of a call without an index belongs to the call that its id names, or to the
//! last one; arguments may come as an object; a call is begun when its name is known.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Kind};

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    begun: bool,
    /// Names of functions that are tools of free text to the caller.
    custom: Vec<String>,
    choices: Vec<State>,
}

/// What is known of a choice.
#[derive(Debug, Default)]
struct State {
    index: u32,
    calls: Vec<Call>,
}

#[derive(Debug, Default)]
struct Call {
    /// The upstream's number of it.
    index: Option<u64>,
    id: String,
    name: String,
    custom: bool,
    begun: bool,
    ended: bool,
    /// Arguments that cannot be said yet: of a call without a name, or of a tool of free text.
    held: String,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    created: Option<&'a RawValue>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    logprobs: Option<Logprobs<'a>>,
}

#[derive(Deserialize)]
struct Logprobs<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Fragment<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Vec<Annotation<'a>>>,
}

#[derive(Deserialize)]
struct Fragment<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
    #[serde(borrow, default)]
    custom: Option<Function<'a>>,
}

#[derive(Deserialize, Default)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, alias = "input")]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow, default)]
    url_citation: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Cited<'a> {
    #[serde(borrow, default)]
    url: Cow<'a, str>,
    #[serde(borrow, default)]
    title: Cow<'a, str>,
    start_index: Option<u64>,
    end_index: Option<u64>,
}

impl ChatReader {
    /// Nothing was read yet. `custom`: the functions that stand for tools of free text
    /// (see [`free_text`](super::compose::free_text)).
    pub(crate) fn new(custom: &[String]) -> Self {
        Self {
            custom: custom.to_vec(),
            ..Self::default()
        }
    }
}

impl Reader for ChatReader {
    fn event(
        &mut self,
        _: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>> {
        if data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|_| {
            let text = "the upstream's answer is not what its dialect says";
            Box::new(UpstreamError::found(Class::Malformed, text))
        })?;
        if !self.begun {
            self.begun = true;
            let created = chunk.created.and_then(|raw| raw.get().parse().ok());
            put(0, Part::Begin { created });
        }
        for choice in chunk.choices.into_iter().flatten() {
            self.choice(choice, put);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Put<'_>) {}
}

/// The string that a value is; nothing where it is none, or empty.
fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let raw = raw?.get();
    let value = Cursor::new(raw).skip().ok()?;
    Some(value.text()?.decode(raw)).filter(|text| !text.is_empty())
}

/// Arguments, also where they come as an object.
fn arguments(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let said = raw?.get();
    match Cursor::new(said).kind().ok()? {
        Kind::String => text(raw),
        Kind::Object => Some(Cow::Borrowed(said)),
        _ => None,
    }
}

impl ChatReader {
    fn choice(&mut self, choice: Choice<'_>, put: &mut Put<'_>) {
        let index = choice.index.unwrap_or(0);
        if !self.choices.iter().any(|state| state.index == index) {
            self.choices.push(State {
                index,
                calls: Vec::new(),
            });
        }
        let Some(state) = self.choices.iter_mut().find(|state| state.index == index) else {
            return;
        };
        if let Some(delta) = choice.delta {
            if let Some(text) = text(delta.reasoning_content).or_else(|| text(delta.reasoning)) {
                put(index, Part::Reasoning(&text));
            }
            if let Some(text) = text(delta.content) {
                put(index, Part::Text(&text));
            }
            if let Some(text) = text(delta.refusal) {
                put(index, Part::Refusal(&text));
            }
            for annotation in delta.annotations.into_iter().flatten() {
                cite(index, &annotation, put);
            }
            for fragment in delta.tool_calls.into_iter().flatten() {
                state.fragment(fragment, &self.custom, put);
            }
            if let Some(older) = delta.function_call {
                let fragment = Fragment {
                    index: Some(0),
                    id: None,
                    function: Some(older),
                    custom: None,
                };
                state.fragment(fragment, &self.custom, put);
            }
        }
        if let Some(probs) = choice.logprobs.and_then(|probs| probs.content) {
            let inside = probs.get().trim();
            let inside = inside
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            if let Some(items) = inside.map(str::trim).filter(|items| !items.is_empty()) {
                put(index, Part::Logprobs(items));
            }
        }
        if let Some(word) = choice.finish_reason.filter(|word| !word.is_empty()) {
            // What was broken off is not complete.
            if !matches!(&*word, "length" | "content_filter") {
                state.end_calls(put);
            }
            let reason = match &*word {
                "stop" => Reason::Stop,
                "length" => Reason::Length,
                "tool_calls" | "function_call" => Reason::ToolCalls,
                "content_filter" => Reason::Filtered,
                _ => Reason::Other,
            };
            put(index, Part::Finish(Finish { reason, raw: &word }));
        }
    }
}

fn cite(index: u32, annotation: &Annotation<'_>, put: &mut Put<'_>) {
    let Some(raw) = annotation.url_citation else {
        return;
    };
    if let Ok(cited) = serde_json::from_str::<Cited<'_>>(raw.get()) {
        put(
            index,
            Part::Citation {
                url: &cited.url,
                title: &cited.title,
                span: cited.start_index.zip(cited.end_index),
                raw: raw.get(),
            },
        );
    }
}

impl State {
    /// Which call a fragment belongs to; a new one where it is none of those.
    fn place(&mut self, fragment: &Fragment<'_>) -> usize {
        let id = fragment.id.as_deref().unwrap_or_default();
        let found = match fragment.index {
            Some(index) => self.calls.iter().position(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|call| call.id == id),
        };
        found.unwrap_or_else(|| {
            self.calls.push(Call {
                index: fragment.index,
                ..Call::default()
            });
            self.calls.len() - 1
        })
    }

    fn fragment(&mut self, fragment: Fragment<'_>, custom: &[String], put: &mut Put<'_>) {
        let place = self.place(&fragment);
        let index = self.index;
        let key = u32::try_from(place).unwrap_or(u32::MAX);
        let Some(call) = self.calls.get_mut(place) else {
            return;
        };
        if let Some(id) = fragment.id.filter(|_| call.id.is_empty()) {
            call.id = id.into_owned();
        }
        let free = fragment.custom.is_some();
        let function = fragment.function.or(fragment.custom).unwrap_or_default();
        if let Some(name) = function.name.filter(|_| call.name.is_empty()) {
            call.name = name.into_owned();
        }
        if let Some(piece) = arguments(function.arguments) {
            call.held.push_str(&piece);
        }
        if !call.begun && !call.name.is_empty() {
            call.begun = true;
            call.custom = !free && custom.contains(&call.name);
            let begin = Part::Call {
                key,
                id: &call.id,
                name: &call.name,
                custom: free || call.custom,
                seal: None,
            };
            put(index, begin);
        }
        if call.begun && !call.custom && !call.held.is_empty() {
            put(
                index,
                Part::Arguments {
                    key,
                    piece: &call.held,
                },
            );
            call.held.clear();
        }
    }

    fn end_calls(&mut self, put: &mut Put<'_>) {
        for (call, key) in self.calls.iter_mut().zip(0..) {
            if std::mem::replace(&mut call.ended, true) || !call.begun {
                continue;
            }
            if call.custom {
                let piece = &*super::compose::free_input(&call.held);
                put(self.index, Part::Arguments { key, piece });
            }
            put(self.index, Part::CallEnd { key });
        }
    }
}
