//! Streams whose events say what they are in `type`: images, speech, transcripts (PROTOCOLS §9).
//!
//! Every event passes byte for byte. The last one has a type of its own and carries the usage; there is no `[DONE]`.

use crate::carry::{Carrier, Event, Grammar, State, StreamOptions, no_object};
use crate::error::UpstreamError;
use crate::json::{Cursor, JsonError, Kind, Value};
use crate::text::TextBuffer;
use crate::usage::{Usage, UsageReport};

/// What the types of a dialect mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kinds {
    /// Ends of types whose events are content.
    pub(crate) content: &'static [&'static str],
    /// The end of the type that ends one answer.
    pub(crate) last: &'static str,
    /// The member of a content event that is text to be counted.
    pub(crate) text: Option<&'static str>,
    /// What follows for the usage from the number of answers that have ended.
    pub(crate) usage: fn(&mut Usage, u64),
}

/// A stream of typed events.
pub(crate) type TypedStream = Carrier<Typed>;

#[derive(Debug)]
pub(crate) struct Typed {
    kinds: Kinds,
    answers: u64,
    ended: u64,
    text: TextBuffer,
}

impl TypedStream {
    /// A stream of so many answers of which nothing has been read.
    pub(crate) fn open(kinds: Kinds, answers: u64, options: StreamOptions) -> Self {
        let grammar = Typed {
            kinds,
            answers,
            ended: 0,
            text: TextBuffer::new(options.text_bound),
        };
        Self::new(grammar, options)
    }
}

/// What one event says.
#[derive(Default)]
struct Said<'a> {
    kind: std::borrow::Cow<'a, str>,
    error: Option<Value>,
    usage: Option<Value>,
    text: Option<Value>,
}

impl<'a> Said<'a> {
    fn read(data: &'a str, text: Option<&str>) -> Result<Self, JsonError> {
        let mut said = Self::default();
        let mut cursor = Cursor::new(data);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(data) {
                "type" => {
                    let kind = value.text().map(|kind| kind.decode(data));
                    said.kind = kind.unwrap_or_default();
                }
                "error" => said.error = Some(value),
                "usage" => said.usage = Some(value),
                name if Some(name) == text => said.text = Some(value),
                _ => {}
            }
        }
        cursor.end()?;
        Ok(said)
    }
}

impl Grammar for Typed {
    fn event(&mut self, event: &Event<'_>, state: &mut State) -> Result<(), Box<UpstreamError>> {
        let data = event.data;
        if data.trim_ascii() == "[DONE]" {
            // Some proxies end every stream with it; here it means nothing, and clients would choke on it.
            return Ok(());
        }
        let Ok(said) = Said::read(data, self.kinds.text) else {
            return Err(no_object(event));
        };
        if let Some(error) = said
            .error
            .and_then(|e| UpstreamError::from_embedded(data, e))
        {
            return Err(Box::new(error));
        }
        let failed = said.kind == "error" || said.kind.ends_with(".failed");
        if failed || event.name == Some(b"error") {
            return Err(Box::new(UpstreamError::from_flat(data)));
        }
        if said.kind.is_empty() {
            // An upstream's own keep-alive.
            return Ok(());
        }
        state.events += 1;
        let last = said.kind.ends_with(self.kinds.last);
        let mut content = self.kinds.content.iter();
        if content.any(|end| said.kind.ends_with(end)) {
            if let Some(text) = said.text.and_then(|value| value.text()) {
                text.pieces(data, |piece| self.text.push(piece));
            }
            state.content();
        }
        if last {
            self.ended += 1;
            self.report(data, said.usage, state);
            state.content();
            state.done = self.ended >= self.answers;
        }
        state.pass(event);
        Ok(())
    }

    fn close(&mut self, _: &mut State) {}

    /// An upstream may make fewer answers than were asked for.
    fn complete(&self) -> bool {
        self.ended > 0
    }

    fn text(&self) -> &TextBuffer {
        &self.text
    }
}

impl Typed {
    fn report(&self, data: &str, usage: Option<Value>, state: &mut State) {
        let told = usage
            .filter(|value| value.kind == Kind::Object)
            .and_then(|value| UsageReport::from_openai(data, value));
        let mut report = told.or_else(|| state.usage.take()).unwrap_or_default();
        (self.kinds.usage)(&mut report.usage, self.ended);
        if !report.usage.is_empty() {
            state.usage = Some(report);
        }
    }
}
