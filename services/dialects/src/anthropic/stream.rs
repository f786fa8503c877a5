//! A streamed message on its way from the upstream to the caller.

use bytes::Bytes;

use super::answer::renamed;
use super::events::{Fragment, Said, block_text, fragment};
use super::request::member;
use crate::carry::{Carrier, Event, Grammar, Shape, Slot, State, StreamOptions, no_object};
use crate::error::{Class, UpstreamError};
use crate::json::{Kind, Value, splice};
use crate::text::TextBuffer;
use crate::usage::AnthropicUsage;

/// Carries one streamed message.
pub(super) type MessageStream = Carrier<Events>;

/// The events of a Messages stream (PROTOCOLS §7.2): `message_start`, blocks, `message_delta`, `message_stop`, and `ping`
/// anywhere. What is unknown passes as it came.
#[derive(Debug)]
pub(super) struct Events {
    text: TextBuffer,
    /// The pieces of the block that comes.
    shape: Shape,
    usage: AnthropicUsage,
    public_model: Option<String>,
    /// `message_start` was read.
    begun: bool,
    /// A `message_delta` told why the message ends: nothing of it is missing.
    ended: bool,
}

impl MessageStream {
    /// A stream of which nothing has been read.
    pub(super) fn open(options: StreamOptions) -> Self {
        let grammar = Events {
            text: TextBuffer::new(options.text_bound),
            shape: Shape::default(),
            usage: AnthropicUsage::default(),
            public_model: options.public_model.clone(),
            begun: false,
            ended: false,
        };
        Self::new(grammar, options)
    }
}

impl Grammar for Events {
    fn run(&mut self, block: &Bytes, at: usize, limit: usize, state: &mut State) -> usize {
        let run = self
            .shape
            .run(block, at, limit, &mut self.text, &mut state.out);
        state.events += run.events;
        run.end
    }

    fn event(&mut self, event: &Event<'_>, state: &mut State) -> Result<(), Box<UpstreamError>> {
        let data = event.data;
        if self.begun
            && event.name == Some(b"content_block_delta")
            && let Some(Fragment { text, .. }) = fragment(data)
        {
            text.pieces(data, |piece| self.text.push(piece));
            state.events += 1;
            state.pass(event);
            if !text.is_empty() {
                state.content();
                let slots = [(Slot::Text, text.span)];
                self.shape.learn(event, slots, None);
            }
            return Ok(());
        }
        if data.trim_ascii() == "[DONE]" {
            // some compatible upstreams end with OpenAI's mark; there is none here
            return Ok(());
        }
        let Ok(said) = Said::read(data) else {
            return Err(no_object(event));
        };
        let named = event.name.and_then(|name| std::str::from_utf8(name).ok());
        let kind = said.kind.as_deref().or(named).unwrap_or("");
        if let Some(error) = said
            .error
            .and_then(|error| UpstreamError::from_embedded(data, error))
        {
            return Err(Box::new(error));
        }
        if kind == "error" || named == Some("error") {
            return Err(Box::new(UpstreamError::from_flat(data)));
        }
        if kind.is_empty()
            && let Some(said) = UpstreamError::from_stray(data)
        {
            return Err(Box::new(said));
        }
        self.known(kind, &said, event, state)
    }

    fn close(&mut self, state: &mut State) {
        state.write(Some(b"message_stop"), r#"{"type":"message_stop"}"#);
    }

    fn complete(&self) -> bool {
        self.ended
    }

    fn text(&self) -> &TextBuffer {
        &self.text
    }
}

impl Events {
    fn known(
        &mut self,
        kind: &str,
        said: &Said<'_>,
        event: &Event<'_>,
        state: &mut State,
    ) -> Result<(), Box<UpstreamError>> {
        let part = matches!(
            kind,
            "content_block_start"
                | "content_block_delta"
                | "content_block_stop"
                | "message_delta"
                | "message_stop"
        );
        if part && !self.begun {
            let what = "the upstream's stream does not begin with message_start";
            return Err(Box::new(UpstreamError::found(Class::Malformed, what)));
        }
        match kind {
            "message_start" => return self.start(said, event, state),
            "content_block_start" | "content_block_delta" => {
                let value = said.block.or(said.delta);
                if self.shows(event, value)? {
                    state.content();
                }
            }
            "message_delta" => self.delta(said, event, state)?,
            "message_stop" => {
                self.count(said, event, state);
                if !state.content && !self.ended {
                    let what = "the upstream's stream ended without an answer";
                    return Err(Box::new(UpstreamError::found(Class::Empty, what)));
                }
                state.committed = true;
                state.done = true;
            }
            _ => {}
        }
        state.events += u64::from(part);
        pass(kind, event, state);
        Ok(())
    }

    /// Whether a block or a delta is content; its text is kept.
    fn shows(
        &mut self,
        event: &Event<'_>,
        value: Option<Value>,
    ) -> Result<bool, Box<UpstreamError>> {
        match value {
            Some(value) => {
                block_text(event.data, value, &mut self.text).map_err(|_| no_object(event))
            }
            None => Ok(false),
        }
    }

    fn start(
        &mut self,
        said: &Said<'_>,
        event: &Event<'_>,
        state: &mut State,
    ) -> Result<(), Box<UpstreamError>> {
        let data = event.data;
        let message = said.message.filter(|value| value.kind == Kind::Object);
        let Some(message) = message else {
            let what = "the upstream's stream begins without a message";
            return Err(Box::new(UpstreamError::found(Class::Malformed, what)));
        };
        let of = |name| member(data, message, name).map_err(|_| no_object(event));
        if let Some(usage) = of("usage")? {
            self.usage.start(data, usage);
            state.usage = self.usage.report();
        }
        self.begun = true;
        state.events += 1;
        match renamed(data, of("model")?, self.public_model.as_deref()) {
            Some(edit) => {
                let data = splice(data.as_bytes(), vec![edit]);
                // one text with another in it
                let data = std::str::from_utf8(&data).unwrap_or("{}");
                state.write(Some(b"message_start"), data);
            }
            None => pass("message_start", event, state),
        }
        Ok(())
    }

    /// Takes over the usage so far, if the event tells it.
    fn count(&mut self, said: &Said<'_>, event: &Event<'_>, state: &mut State) {
        if let Some(usage) = said.usage {
            self.usage.last(event.data, usage);
            state.usage = self.usage.report();
        }
    }

    fn delta(
        &mut self,
        said: &Said<'_>,
        event: &Event<'_>,
        state: &mut State,
    ) -> Result<(), Box<UpstreamError>> {
        self.count(said, event, state);
        let reason = match said.delta {
            Some(delta) => {
                member(event.data, delta, "stop_reason").map_err(|_| no_object(event))?
            }
            None => None,
        };
        if reason.is_some_and(|reason| reason.kind == Kind::String) {
            self.ended = true;
            state.committed = true;
        }
        Ok(())
    }
}

/// Passes an event on, under its name: clients ignore what has none, or another one than its type.
fn pass(kind: &str, event: &Event<'_>, state: &mut State) {
    if event.name == Some(kind.as_bytes()) || kind.is_empty() {
        state.pass(event);
    } else {
        state.write(Some(kind.as_bytes()), event.data);
    }
}
