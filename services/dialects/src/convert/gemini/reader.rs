//! Finds the parts of Gemini's answers.
//!
//! Every event has the new parts only, calls whole. Thoughts are reasoning; a signature on a call goes with it, one on any
//! other part seals what came before. What was cited is told cumulatively, so only what is new of it is a part. A model that
//! ends in a call that it could not say, or for no good reason without having said anything, has failed: no dialect has a word
//! for that which would not make an answer of it (PROTOCOLS §11). A reason that is not known is told.

mod cited;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::cited::{Cited, logprobs};
use super::code;
use crate::convert::Format;
use crate::convert::names::Names;
use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::convert::seal::Seal;
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, JsonError, Kind, Value, whole_number};

/// Candidates above this index are not told apart from it.
const MAX_CANDIDATE: usize = 127;

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct GeminiReader {
    begun: bool,
    /// Names of functions that are tools of free text to the caller.
    custom: Vec<String>,
    names: Names,
    candidates: Vec<Candidate>,
}

/// What is known of a candidate.
#[derive(Debug, Default)]
struct Candidate {
    /// Calls so far.
    calls: u32,
    /// Something was said besides thoughts.
    said: bool,
    finished: bool,
    cited: Cited,
}

impl GeminiReader {
    /// Nothing was read yet. `custom`: the functions that stand for tools of free text
    /// (see [`free_text`](super::compose::free_text)); `names`: what the request calls the functions.
    pub(crate) fn new(custom: &[String], names: &Names) -> Self {
        Self {
            custom: custom.to_vec(),
            names: names.clone(),
            ..Self::default()
        }
    }
}

impl Reader for GeminiReader {
    fn event(
        &mut self,
        _: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>> {
        if data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            put(0, Part::Begin { created: None });
        }
        match self.read(data, put) {
            Ok(()) => Ok(()),
            Err(Wrong::Json) => Err(found("the upstream's answer is not what its dialect says")),
            Err(Wrong::PartialArguments) => Err(found(
                "the upstream streams arguments, which nobody asked for",
            )),
            Err(Wrong::Ended(word)) => Err(found(&format!("the upstream's model gave up: {word}"))),
        }
    }

    fn end(&mut self, _: &mut Put<'_>) {}
}

fn found(message: &str) -> Box<UpstreamError> {
    Box::new(UpstreamError::found(Class::Malformed, message))
}

enum Wrong {
    Json,
    PartialArguments,
    /// It ended, in this word, without an answer.
    Ended(String),
}

impl From<JsonError> for Wrong {
    fn from(_: JsonError) -> Self {
        Self::Json
    }
}

/// Goes through the members of an object.
fn members<'a>(
    data: &'a str,
    value: Value,
    mut member: impl FnMut(Cow<'a, str>, Value),
) -> Result<(), JsonError> {
    if value.kind != Kind::Object {
        return Ok(());
    }
    let mut cursor = Cursor::at_value(data, value);
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        member(key.decode(data), value);
    }
    Ok(())
}

/// The items of an array, or the one object that stands in its place.
fn each(
    data: &str,
    value: Value,
    mut item: impl FnMut(Value) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    match value.kind {
        Kind::Object => item(value),
        Kind::Array => {
            let mut cursor = Cursor::at_value(data, value);
            cursor.enter_array()?;
            let mut first = true;
            while cursor.next_item(&mut first)? {
                item(cursor.skip()?)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The string that a value is; empty where it is none.
fn text(data: &str, value: Option<Value>) -> Cow<'_, str> {
    value
        .and_then(|value| value.text())
        .map(|text| text.decode(data))
        .unwrap_or_default()
}

/// Whether a part is text that is no thought.
fn is_text(data: &str, part: Value) -> bool {
    let inside = part.span.of(data);
    let thought = crate::json::member(inside, "thought");
    crate::json::member(inside, "text").is_some()
        && thought.is_none_or(|thought| thought.span.of(inside) != "true")
}

impl GeminiReader {
    fn read(&mut self, data: &str, put: &mut Put<'_>) -> Result<(), Wrong> {
        let whole = Cursor::new(data).skip()?;
        let (mut candidates, mut feedback) = (None, None);
        members(data, whole, |name, value| match &*name {
            "candidates" => candidates = Some(value),
            "promptFeedback" => feedback = Some(value),
            _ => {}
        })?;
        if let Some(value) = candidates {
            each(data, value, |value| self.candidate(data, value, put))?;
        }
        if let Some(value) = feedback {
            let mut reason = None;
            members(data, value, |name, value| {
                if name == "blockReason" {
                    reason = Some(value);
                }
            })?;
            let raw = text(data, reason);
            if !matches!(&*raw, "" | "BLOCK_REASON_UNSPECIFIED") {
                self.finish(0, Reason::Filtered, &raw, put);
            }
        }
        Ok(())
    }

    fn state(&mut self, index: usize) -> Option<&mut Candidate> {
        while self.candidates.len() <= index {
            self.candidates.push(Candidate::default());
        }
        self.candidates.get_mut(index)
    }

    fn finish(&mut self, index: usize, reason: Reason<'_>, raw: &str, put: &mut Put<'_>) {
        let Some(state) = self.state(index) else {
            return;
        };
        if state.finished {
            return;
        }
        state.finished = true;
        put(number(index), Part::Finish(Finish { reason, raw }));
    }

    fn candidate(&mut self, data: &str, value: Value, put: &mut Put<'_>) -> Result<(), Wrong> {
        let mut index = 0;
        let (mut content, mut finish, mut grounding, mut citations, mut probs) =
            (None, None, None, None, None);
        members(data, value, |name, value| match &*name {
            "index" => {
                let said = whole_number(value.span.of(data)).unwrap_or(0);
                index = usize::try_from(said).map_or(MAX_CANDIDATE, |said| said.min(MAX_CANDIDATE));
            }
            "content" => content = Some(value),
            "finishReason" => finish = Some(value),
            "groundingMetadata" => grounding = Some(value),
            "citationMetadata" => citations = Some(value),
            "logprobsResult" => probs = Some(value),
            _ => {}
        })?;
        let mut parts_of = Vec::new();
        if let Some(content) = content {
            let mut parts = None;
            members(data, content, |name, value| {
                if name == "parts" {
                    parts = Some(value);
                }
            })?;
            if let Some(value) = parts {
                each(data, value, |part| {
                    parts_of.push(part);
                    Ok(())
                })?;
            }
        }
        // What is told of the text stands by it: behind the last part that is text, or behind all where none is.
        let last = parts_of.iter().rposition(|part| is_text(data, *part));
        let last = last.map_or(parts_of.len(), |last| last + 1);
        for part in parts_of.drain(..last) {
            self.part(index, data, part, put)?;
        }
        let Some(state) = self.state(index) else {
            return Ok(());
        };
        if let Some(value) = grounding {
            state.cited.grounding(data, value, number(index), put);
        }
        if let Some(value) = citations {
            state.cited.sources(data, value, number(index), put);
        }
        if let Some(items) = probs.and_then(|value| logprobs(data, value)) {
            put(number(index), Part::Logprobs(&items));
        }
        for part in parts_of {
            self.part(index, data, part, put)?;
        }
        let Some(state) = self.state(index) else {
            return Ok(());
        };
        let raw = text(data, finish);
        if !matches!(&*raw, "" | "FINISH_REASON_UNSPECIFIED") {
            let reason = reason(&raw, state.calls > 0);
            let garbled = matches!(&*raw, "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE");
            let failed = matches!(
                &*raw,
                "OTHER"
                    | "UNEXPECTED_TOOL_CALL"
                    | "TOO_MANY_TOOL_CALLS"
                    | "MISSING_THOUGHT_SIGNATURE"
            );
            let silent = !state.said && state.calls == 0;
            if garbled || (failed && silent) {
                return Err(Wrong::Ended(raw.into_owned()));
            }
            self.finish(index, reason, &raw, put);
        }
        Ok(())
    }

    fn part(
        &mut self,
        index: usize,
        data: &str,
        value: Value,
        put: &mut Put<'_>,
    ) -> Result<(), Wrong> {
        let mut thought = false;
        let (mut signature, mut content) = (None, None);
        members(data, value, |name, value| match &*name {
            "thought" => thought = value.span.of(data) == "true",
            "thoughtSignature" => signature = Some(value),
            "text" => content = Some((Held::Text, value)),
            "functionCall" => content = Some((Held::Call, value)),
            "inlineData" => content = Some((Held::Data, value)),
            "fileData" => content = Some((Held::File, value)),
            "executableCode" => content = Some((Held::Code, value)),
            "codeExecutionResult" => content = Some((Held::Output, value)),
            _ => {}
        })?;
        let signature = text(data, signature);
        let seal = (!signature.is_empty()).then(|| Seal {
            maker: Format::Gemini,
            redacted: false,
            value: &signature,
        });
        if let Some((Held::Call, value)) = content {
            return self.call(index, data, value, seal, put);
        }
        let choice = number(index);
        if let Some((held, value)) = content {
            let said = held.said(data, value, choice, put)?;
            let shown = !thought && said.as_ref().is_none_or(|said| !said.is_empty());
            if let Some(state) = self.state(index) {
                state.said |= shown;
            }
            if let Some(said) = said.filter(|said| !said.is_empty()) {
                if thought {
                    put(choice, Part::Reasoning(&said));
                } else {
                    if let Some(state) = self.state(index) {
                        state.cited.ascii &= said.is_ascii();
                    }
                    put(choice, Part::Text(&said));
                }
            }
        }
        if let Some(seal) = seal {
            put(choice, Part::Sealed(seal));
        }
        Ok(())
    }

    fn call(
        &mut self,
        index: usize,
        data: &str,
        value: Value,
        seal: Option<Seal<'_>>,
        put: &mut Put<'_>,
    ) -> Result<(), Wrong> {
        let Some(state) = self.state(index) else {
            return Ok(());
        };
        let key = state.calls;
        state.calls += 1;
        let (mut id, mut name, mut args, mut partial) = (None, None, None, false);
        members(data, value, |member, value| match &*member {
            "id" => id = Some(value),
            "name" => name = Some(value),
            "args" => args = Some(value),
            "partialArgs" => partial = true,
            _ => {}
        })?;
        if partial {
            return Err(Wrong::PartialArguments);
        }
        let choice = number(index);
        let name = text(data, name);
        let name = self.names.own(&name);
        let args = args.filter(|args| args.kind == Kind::Object);
        let custom = self.custom.iter().any(|custom| custom == name);
        let call = Part::Call {
            key,
            id: &text(data, id),
            name,
            custom,
            seal,
        };
        put(choice, call);
        if let Some(args) = args {
            let input = if custom { input(data, args)? } else { None };
            let piece = input.as_deref().unwrap_or_else(|| args.span.of(data));
            put(choice, Part::Arguments { key, piece });
        }
        put(choice, Part::CallEnd { key });
        Ok(())
    }
}

/// The free text of a call; `None` where the model kept to no schema.
fn input(data: &str, args: Value) -> Result<Option<Cow<'_, str>>, JsonError> {
    let mut input = None;
    members(data, args, |name, value| {
        if name == "input" && value.kind == Kind::String {
            input = Some(value);
        }
    })?;
    Ok(input.map(|value| text(data, Some(value))))
}

/// What a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Text,
    Call,
    Data,
    File,
    Code,
    Output,
}

impl Held {
    /// The text that it is, or puts what is none.
    fn said<'a>(
        self,
        data: &'a str,
        value: Value,
        choice: u32,
        put: &mut Put<'_>,
    ) -> Result<Option<Cow<'a, str>>, JsonError> {
        if self == Self::Text {
            return Ok(Some(text(data, Some(value))));
        }
        let (mut first, mut second) = (None, None);
        members(data, value, |name, value| match &*name {
            "mimeType" | "language" | "outcome" => first = Some(value),
            "data" | "fileUri" | "code" | "output" => second = Some(value),
            _ => {}
        })?;
        let (first, second) = (text(data, first), text(data, second));
        Ok(match self {
            Self::Data => {
                let (mime, data) = (&*first, &*second);
                put(choice, Part::Media { mime, data });
                None
            }
            Self::File => Some(second),
            Self::Code => Some(Cow::Owned(code::source(&first, &second))),
            Self::Output => Some(Cow::Owned(code::output(&first, &second))),
            Self::Text | Self::Call => None,
        })
    }
}

/// A candidate's index as a choice: it is bounded.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(0)
}

/// What a finish reason means (PROTOCOLS §11). There is none of its own for calls.
fn reason(raw: &str, calls: bool) -> Reason<'static> {
    match raw {
        "STOP" if calls => Reason::ToolCalls,
        "STOP" => Reason::Stop,
        "MAX_TOKENS" => Reason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Reason::Filtered,
        _ => Reason::Other,
    }
}
