//! A streamed response on its way from the upstream to the caller.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::envelope::Envelope;
use crate::carry::{
    Carrier, Event, Grammar, Progress, Shape, Slot, State, StreamOptions, is_count, no_object,
};
use crate::chat::PublicName;
use crate::dialect::Finished;
use crate::error::UpstreamError;
use crate::json::{Cursor, JsonError, Kind, Value, splice, whole_number};
use crate::text::TextBuffer;

/// What the stream answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A create. A response that fails is a failure of the upstream.
    Create {
        /// The upstream was asked to keep the response.
        kept: bool,
        /// It is made in the background: an answer as soon as it exists.
        background: bool,
    },
    /// The events of a response that exists: they pass whatever they say.
    Replay,
}

/// Carries one streamed response.
///
/// What comes before the first content (`response.created` to `response.content_part.added`) is held; one of
/// `response.completed`, `response.incomplete` ends it. `response.failed` and `error`, flat or nested, are failures. A stream
/// that has none of them is cut. `[DONE]`, which a few upstreams send, is dropped: this dialect has none.
pub(super) type ResponseStream = Carrier<Events>;

/// The events of a response (PROTOCOLS §5.3).
#[derive(Debug)]
pub(super) struct Events {
    mode: Mode,
    name: Option<PublicName>,
    text: TextBuffer,
    /// The pieces of the text that comes.
    shape: Shape,
    id: Option<String>,
    not_kept: bool,
    created_at: i64,
    model: String,
    next: u64,
    finished: Option<Finished>,
}

impl ResponseStream {
    /// A stream of which nothing has been read.
    pub(super) fn open(mode: Mode, mut options: StreamOptions) -> Self {
        let grammar = Events {
            mode,
            name: options.public_model.take().map(PublicName::new),
            text: TextBuffer::new(options.text_bound),
            shape: Shape::default(),
            id: None,
            not_kept: false,
            created_at: 0,
            model: String::new(),
            next: 0,
            finished: None,
        };
        Self::new(grammar, options)
    }
}

/// The members of an event that matter.
#[derive(Default)]
struct Read {
    kind: Option<Value>,
    sequence: Option<Value>,
    padding: Option<Value>,
    response: Option<Value>,
    item: Option<Value>,
    delta: Option<Value>,
    error: Option<Value>,
}

impl Read {
    fn of(data: &str) -> Result<Self, JsonError> {
        let mut read = Self::default();
        let mut cursor = Cursor::new(data);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(data) {
                "type" => read.kind = Some(value),
                "sequence_number" => read.sequence = Some(value),
                "obfuscation" => read.padding = Some(value),
                "response" => read.response = Some(value).filter(|v| v.kind == Kind::Object),
                "item" => read.item = Some(value).filter(|v| v.kind == Kind::Object),
                "delta" => read.delta = Some(value),
                "error" => read.error = Some(value),
                _ => {}
            }
        }
        cursor.end()?;
        Ok(read)
    }
}

impl Read {
    /// The event's number, if it has one.
    fn number(&self, data: &str) -> Option<u64> {
        whole_number(self.sequence?.span.of(data))
    }

    /// Whether it is an error, whatever its type.
    fn says_error(&self) -> bool {
        let said = |value: &Value| matches!(value.kind, Kind::Object | Kind::String);
        self.error.as_ref().is_some_and(said)
    }
}

/// What an event means for the stream (the table of SPEC FWD-3 for this dialect).
enum Meaning {
    /// The response as it is now.
    Lifecycle,
    /// The response as it will stay.
    End,
    /// It failed.
    Failed,
    /// The upstream, not the response, failed.
    Error,
    /// An item begins.
    Item,
    /// A piece of something; text unless it is sound.
    Delta {
        /// It is text.
        text: bool,
    },
    /// Something that a caller sees.
    Content,
    /// A frame around what is to come, or nothing that is known.
    Frame,
}

fn meaning(kind: &str) -> Meaning {
    match kind {
        "response.created" | "response.queued" | "response.in_progress" => Meaning::Lifecycle,
        "response.completed" | "response.incomplete" | "response.cancelled" => Meaning::End,
        "response.failed" => Meaning::Failed,
        "error" => Meaning::Error,
        "response.output_item.added" => Meaning::Item,
        "response.audio.delta" => Meaning::Delta { text: false },
        "response.content_part.added" | "response.reasoning_summary_part.added" => Meaning::Frame,
        other if !other.starts_with("response.") => Meaning::Frame,
        other if other.ends_with(".delta") => Meaning::Delta { text: true },
        _ => Meaning::Content,
    }
}

impl Grammar for Events {
    fn run(&mut self, block: &Bytes, at: usize, limit: usize, state: &mut State) -> usize {
        let run = self
            .shape
            .run(block, at, limit, &mut self.text, &mut state.out);
        if run.events > 0 {
            let number = self.shape.counts().next();
            let number = number.and_then(|span| block.get(span.start..span.end));
            let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
            self.next = match number.and_then(whole_number) {
                Some(number) => number.saturating_add(1),
                None => self.next.saturating_add(run.events),
            };
        }
        state.events += run.events;
        run.end
    }

    fn event(&mut self, event: &Event<'_>, state: &mut State) -> Result<(), Box<UpstreamError>> {
        let data = event.data;
        if data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let Ok(read) = Read::of(data) else {
            return Err(no_object(event));
        };
        let kind = read.kind.and_then(|value| value.text());
        let kind = kind.map(|kind| kind.decode(data));
        let named = || event.name.and_then(|name| std::str::from_utf8(name).ok());
        let kind = kind.as_deref().or_else(named).unwrap_or("");
        let replay = self.mode == Mode::Replay;
        match meaning(kind) {
            Meaning::Error => return Err(said(data, &read)),
            // Those who know nothing of this dialect say it in their own.
            Meaning::Frame if !kind.starts_with("response.") && read.says_error() => {
                return Err(said(data, &read));
            }
            Meaning::Frame if kind.is_empty() && UpstreamError::from_stray(data).is_some() => {
                return Err(said(data, &read));
            }
            Meaning::Failed if !replay => {
                let response = self.response(data, &read, event)?;
                state.usage = response.usage(data).or(state.usage.take());
                return Err(response.failure(data));
            }
            Meaning::Lifecycle => {
                let response = self.response(data, &read, event)?;
                if !replay && response.failed(data) {
                    return Err(response.failure(data));
                }
                if let Some(report) = response.usage(data) {
                    state.report(report);
                }
                self.begin(&response, state);
                self.pass_response(&response, event, state);
            }
            Meaning::End | Meaning::Failed => {
                let response = self.response(data, &read, event)?;
                if !replay && response.failed(data) {
                    state.usage = response.usage(data).or(state.usage.take());
                    return Err(response.failure(data));
                }
                self.end(&response, data, state);
                self.pass_response(&response, event, state);
            }
            meaning => {
                if self.is_content(data, &meaning, &read) {
                    state.content();
                }
                state.pass(event);
                if matches!(meaning, Meaning::Delta { text: true }) {
                    self.learn(&read, event);
                }
            }
        }
        state.events += 1;
        self.next = read.number(data).unwrap_or(self.next).saturating_add(1);
        // Of what exists already nothing is taken back: it need not be held.
        state.committed |= replay;
        Ok(())
    }

    fn close(&mut self, _: &mut State) {}

    fn complete(&self) -> bool {
        false
    }

    fn text(&self) -> &TextBuffer {
        &self.text
    }

    fn progress(&self) -> Option<Progress> {
        let id = self.id.as_ref().filter(|_| self.mode != Mode::Replay)?;
        let model = match &self.name {
            Some(name) => name.plain(),
            None => &self.model,
        };
        Some(Progress {
            response_id: id.clone(),
            created_at: self.created_at,
            model: model.to_owned(),
            next_sequence: self.next,
        })
    }

    fn next_sequence(&self) -> Option<u64> {
        let told = self.id.is_some() && self.mode != Mode::Replay;
        told.then_some(self.next)
    }

    fn stored_id(&self) -> Option<&str> {
        match self.mode {
            Mode::Create { kept: true, .. } if !self.not_kept => self.id.as_deref(),
            _ => None,
        }
    }

    fn finished(&self) -> Option<Finished> {
        self.finished
    }
}

impl Events {
    /// Remembers the shape of a piece of text.
    fn learn(&mut self, read: &Read, event: &Event<'_>) {
        let text = read.delta.and_then(|delta| delta.text());
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return;
        };
        let number = read.sequence.map(|number| (Slot::Count, number.span));
        if number.is_some_and(|(_, span)| !is_count(span.of(event.data))) {
            return;
        }
        let padding = read.padding.and_then(|padding| padding.text());
        let padding = padding.map(|padding| (Slot::Padding, padding.span));
        let slots = [Some((Slot::Text, text.span)), number, padding];
        self.shape.learn(event, slots.into_iter().flatten(), None);
    }

    fn response(
        &self,
        data: &str,
        read: &Read,
        event: &Event<'_>,
    ) -> Result<Envelope, Box<UpstreamError>> {
        let response = read.response.ok_or_else(|| no_object(event))?;
        Envelope::read(data, response).map_err(|_| no_object(event))
    }

    /// Takes over who the response is.
    fn begin(&mut self, response: &Envelope, state: &mut State) {
        if self.id.is_none() {
            self.id.clone_from(&response.id);
            self.created_at = response.created_at;
            self.model.clone_from(&response.model);
        }
        self.not_kept |= response.not_kept;
        // Of one that is made in the background its existence is the answer, and nothing of what exists is taken back.
        state.committed |= !matches!(
            self.mode,
            Mode::Create {
                background: false,
                ..
            }
        );
    }

    fn end(&mut self, response: &Envelope, data: &str, state: &mut State) {
        self.begin(response, state);
        if let Some(report) = response.usage(data) {
            state.report(report);
        }
        self.finished = response.finished().or(Some(Finished::Answered));
        let told = state.usage.as_ref().and_then(|said| said.usage.output);
        if told.is_none() && self.text.bytes() == 0 {
            response.text(data, &mut self.text);
        }
        state.content |= self.text.bytes() > 0;
        state.committed = true;
        state.done = true;
    }

    /// Passes an event with a response on, under the public name.
    fn pass_response(&self, response: &Envelope, event: &Event<'_>, state: &mut State) {
        let name = self.name.as_ref();
        let edits: Vec<_> = name
            .into_iter()
            .flat_map(|name| response.renamed(event.data, name))
            .collect();
        if edits.is_empty() {
            return state.pass(event);
        }
        let data = splice(event.data.as_bytes(), edits);
        // Text with text put in its places.
        state.write(event.name, std::str::from_utf8(&data).unwrap_or("{}"));
    }

    /// Whether a caller sees something of it. Takes over its text.
    fn is_content(&mut self, data: &str, meaning: &Meaning, read: &Read) -> bool {
        match meaning {
            Meaning::Delta { text } => match read.delta.map(|delta| (delta, delta.text())) {
                Some((_, Some(piece))) => {
                    if *text {
                        piece.pieces(data, |piece| self.text.push(piece));
                    }
                    !piece.is_empty()
                }
                Some((delta, None)) => delta.kind != Kind::Null,
                None => false,
            },
            Meaning::Item => read.item.is_some_and(|item| self.item(data, item)),
            Meaning::Content => true,
            _ => false,
        }
    }

    /// Whether an item is content as soon as it begins: all but those that are made of what follows.
    fn item(&mut self, data: &str, item: Value) -> bool {
        let mut content = true;
        let mut read = || {
            let mut cursor = Cursor::at_value(data, item);
            cursor.enter_object()?;
            let mut first = true;
            while let Some(key) = cursor.next_key(&mut first)? {
                let value = cursor.skip()?;
                let Some(text) = value.text() else { continue };
                match &*key.decode(data) {
                    "type" => content = !matches!(&*text.decode(data), "message" | "reasoning"),
                    "name" => text.pieces(data, |piece| self.text.push(piece)),
                    _ => {}
                }
            }
            Ok::<(), JsonError>(())
        };
        // What was scanned before reads again.
        let _same = read();
        content
    }
}

/// A failure that an `error` event says, flat or nested.
fn said(data: &str, read: &Read) -> Box<UpstreamError> {
    let nested = read
        .error
        .and_then(|error| UpstreamError::from_embedded(data, error));
    let mut error = nested.unwrap_or_else(|| UpstreamError::from_flat(data));
    // The flat form's `type` is the event's.
    if error.kind.as_deref() == Some("error") {
        error.kind = None;
    }
    error.body = None;
    Box::new(error)
}
