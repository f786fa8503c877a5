//! Finds the parts of chat's answers (PROTOCOLS §3.3).
//!
//! Besides what OpenAI's document has, it reads what servers in the wild say: thoughts in `reasoning_content` or `reasoning`,
//! OpenRouter's `reasoning_details` and `images`, Mistral's contents in parts, and the signature that Google's chat endpoint
//! puts on a call. A detail is a seal as a whole, but for its text.
//!
//! Servers differ in what they leave out: a fragment of a call without an index belongs to the call that its id names, or to the
//! last one; arguments may come as an object; a call is begun when its name is known. Some number all calls 0, Google's chat
//! endpoint among them: a fragment with a name begins a call of its own where its id is another one, or, where ids are missing,
//! where the arguments before it are whole.

mod content;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::content::{detail, images, say_content, thought};
use crate::convert::Format;
use crate::convert::names::Names;
use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::convert::seal::Seal;
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Kind, Nesting};

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    begun: bool,
    tools: Tools,
    choices: Vec<State>,
}

/// What the caller's tools are.
#[derive(Debug, Default)]
struct Tools {
    /// Names of functions that are tools of free text to the caller, as the caller has them.
    custom: Vec<String>,
    /// Names that the upstream knows them by.
    names: Names,
}

/// What is known of a choice.
#[derive(Debug, Default)]
struct State {
    index: u32,
    calls: Vec<Call>,
    /// Its thoughts are told as plain text, so that details only seal them.
    thinks_aloud: bool,
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
    /// Where its arguments are, and whether there were any.
    nesting: Nesting,
    argued: bool,
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
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    images: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Fragment<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
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
    #[serde(borrow, default)]
    extra_content: Option<&'a RawValue>,
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
    /// (see [`free_text`](super::compose::free_text)); `names`: what the request calls the tools.
    pub(crate) fn new(custom: &[String], names: &Names) -> Self {
        Self {
            tools: Tools {
                custom: custom.to_vec(),
                names: names.clone(),
            },
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
                thinks_aloud: false,
            });
        }
        let Some(state) = self.choices.iter_mut().find(|state| state.index == index) else {
            return;
        };
        if let Some(delta) = choice.delta {
            if let Some(text) = text(delta.reasoning_content).or_else(|| text(delta.reasoning)) {
                state.thinks_aloud = true;
                put(index, Part::Reasoning(&text));
            }
            if let Some(raw) = delta.reasoning_details {
                // Where the text is not told apart, it stands here alone.
                let silent = !state.thinks_aloud;
                each(raw, |item| {
                    if let Some(text) = thought(item).filter(|_| silent) {
                        put(index, Part::Reasoning(&text));
                    }
                    seal(index, item, put);
                });
            }
            if let Some(raw) = delta.content {
                say_content(index, raw.get(), put);
            }
            // They are the text's, and stand by it.
            if let Some(raw) = delta.annotations {
                each(raw, |item| cite(index, item, put));
            }
            if let Some(probs) = choice.logprobs.and_then(|probs| probs.content) {
                probable(index, probs, put);
            }
            if let Some(text) = text(delta.refusal) {
                put(index, Part::Refusal(&text));
            }
            if let Some(raw) = delta.images {
                images(index, raw.get(), put);
            }
            for fragment in delta.tool_calls.into_iter().flatten() {
                state.fragment(fragment, &self.tools, put);
            }
            if let Some(older) = delta.function_call {
                let fragment = Fragment {
                    index: Some(0),
                    id: None,
                    function: Some(older),
                    custom: None,
                    extra_content: None,
                };
                state.fragment(fragment, &self.tools, put);
            }
        }
        if let Some(word) = choice.finish_reason.filter(|word| !word.is_empty()) {
            // What was broken off is not complete.
            if matches!(&*word, "length" | "content_filter") {
                state.say_free(put);
            } else {
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

/// Reads each item of a list.
fn each(list: &RawValue, mut read: impl FnMut(&str)) {
    let list = list.get();
    let mut items = || {
        let mut cursor = Cursor::new(list);
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            read(cursor.skip()?.span.of(list));
        }
        Ok::<(), crate::json::JsonError>(())
    };
    // what is no list has no items; the value itself is valid
    let _none = items();
}

/// `logprobs.content`.
fn probable(index: u32, list: &RawValue, put: &mut Put<'_>) {
    let inside = list.get().trim();
    let inside = inside
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(items) = inside.map(str::trim).filter(|items| !items.is_empty()) {
        put(index, Part::Logprobs(items));
    }
}

fn cite(index: u32, item: &str, put: &mut Put<'_>) {
    let Ok(Annotation {
        url_citation: Some(raw),
    }) = serde_json::from_str::<Annotation<'_>>(item)
    else {
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

/// The seal that an item of `reasoning_details` is, if it is one.
fn seal(index: u32, item: &str, put: &mut Put<'_>) {
    if let Some(value) = detail(item) {
        let seal = Seal {
            maker: Format::Chat,
            redacted: false,
            value: &value,
        };
        put(index, Part::Sealed(seal));
    }
}

/// `extra_content.google.thought_signature`.
fn signature(extra: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let extra = extra?.get();
    let google = crate::json::member(extra, "google")?.span.of(extra);
    let signature = crate::json::member(google, "thought_signature")?.text()?;
    Some(signature.decode(google)).filter(|text| !text.is_empty())
}

impl Fragment<'_> {
    fn called(&self) -> Option<&Function<'_>> {
        self.function.as_ref().or(self.custom.as_ref())
    }
}

impl Call {
    /// Whether a fragment that seems to be of this call begins the next one.
    fn is_over_at(&self, fragment: &Fragment<'_>) -> bool {
        let Some(function) = fragment.called() else {
            return false;
        };
        if self.name.is_empty() || function.name.as_deref().is_none_or(str::is_empty) {
            return false;
        }
        match fragment.id.as_deref() {
            Some(id) if !id.is_empty() && !self.id.is_empty() => self.id != id,
            _ => {
                self.argued && self.nesting.depth() == 0 && arguments(function.arguments).is_some()
            }
        }
    }
}

impl State {
    /// Which call a fragment belongs to; a new one where it is none of those.
    fn place(&mut self, fragment: &Fragment<'_>) -> usize {
        let id = fragment.id.as_deref().unwrap_or_default();
        let last = |index| self.calls.iter().rposition(|call| call.index == index);
        let named = |call: &Call| !id.is_empty() && call.id == id;
        let found = match fragment.index {
            index @ Some(_) => {
                let same = |call: &Call| call.index == index && named(call);
                self.calls.iter().position(same).or_else(|| last(index))
            }
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(named),
        };
        let found = found.filter(|place| {
            let call = self.calls.get(*place);
            call.is_some_and(|call| !call.is_over_at(fragment))
        });
        found.unwrap_or_else(|| {
            self.calls.push(Call {
                index: fragment.index,
                ..Call::default()
            });
            self.calls.len() - 1
        })
    }

    fn fragment(&mut self, fragment: Fragment<'_>, tools: &Tools, put: &mut Put<'_>) {
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
        let signature = signature(fragment.extra_content);
        let function = fragment.function.or(fragment.custom).unwrap_or_default();
        if let Some(name) = function.name.filter(|_| call.name.is_empty()) {
            call.name = tools.names.own(&name).to_owned();
        }
        if let Some(piece) = arguments(function.arguments) {
            call.argued = true;
            piece.bytes().for_each(|byte| call.nesting.step(byte));
            call.held.push_str(&piece);
        }
        if !call.begun && !call.name.is_empty() {
            call.begun = true;
            call.custom = !free && tools.custom.contains(&call.name);
            let begin = Part::Call {
                key,
                id: &call.id,
                name: &call.name,
                custom: free || call.custom,
                seal: signature.as_deref().map(|value| Seal {
                    maker: Format::Chat,
                    redacted: false,
                    value,
                }),
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

    /// Says the texts of calls of tools of free text whose arguments are all there, though nothing says that the call is.
    fn say_free(&mut self, put: &mut Put<'_>) {
        for (call, key) in self.calls.iter_mut().zip(0..) {
            let mut cursor = Cursor::new(&call.held);
            if call.begun && call.custom && !call.ended && cursor.skip().is_ok() {
                let piece = &*super::compose::free_input(&call.held);
                put(self.index, Part::Arguments { key, piece });
                call.ended = true;
            }
        }
    }

    fn end_calls(&mut self, put: &mut Put<'_>) {
        for (call, key) in self.calls.iter_mut().zip(0..) {
            if std::mem::replace(&mut call.ended, true) {
                continue;
            }
            if !call.begun {
                // It has no name, which is for whoever says it to judge.
                put(
                    self.index,
                    Part::Call {
                        key,
                        id: &call.id,
                        name: "",
                        custom: false,
                        seal: None,
                    },
                );
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
