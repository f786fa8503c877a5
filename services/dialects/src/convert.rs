//! Translation: a caller of one dialect is served by an upstream of another (SPEC DIAL-1).
//!
//! A direction is a file, `convert/<caller>_to_<upstream>.rs`: it puts the caller's request into the upstream's dialect, from
//! the original body, anew for each attempt (CASES C33), and says what is particular to answers on their way back. What a dialect
//! demands of a request and how its answers are read and said stands once a dialect (`chat`, `responses`, `anthropic`,
//! `gemini`): an answer is a sequence of parts, found by the upstream's reader and said by the caller's writer.
//!
//! Invariants: nothing is left out in silence ([`Drops`], [`Refusal`]); nothing is invented; a whole answer is what its stream
//! would have been in sum, as it goes the same way. The upstream's own [`AnswerStream`] stands in front of the reader:
//! what is held before the first content, what is a failure, what was used and what is missing at the end is judged there.

mod answer;
mod anthropic;
mod anthropic_to_chat;
mod anthropic_to_gemini;
mod anthropic_to_responses;
mod calls;
mod chat;
mod chat_to_anthropic;
mod chat_to_gemini;
mod chat_to_responses;
mod counterparts;
mod fields;
mod filename;
mod gemini;
mod gemini_to_anthropic;
mod gemini_to_chat;
mod gemini_to_responses;
mod names;
mod node;
mod openai;
mod part;
mod responses;
mod responses_to_anthropic;
mod responses_to_chat;
mod responses_to_gemini;
mod seal;
pub(crate) mod strip;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use self::fields::Raw;
pub use self::fields::{Drops, Refusal};
use self::part::{Head, Reader, Writer};
pub use self::strip::{seals_of, without_seals};
use crate::anthropic::{MessagesCall, MessagesRequest};
use crate::carry::{AnswerStream, StreamOptions};
use crate::chat::ChatRequest;
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::gemini::{Call, GeminiRequest};
use crate::parameters::Layout;
use crate::responses::ResponsesRequest;
use crate::text::TextBuffer;

/// The dialects in which text is generated. Every one is translated into every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `openai.chat`
    Chat,
    /// `openai.responses`
    Responses,
    /// `anthropic.messages`
    Anthropic,
    /// `gemini.generate`
    Gemini,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];

    /// The member of a request that is its conversation.
    const fn turns(self) -> &'static str {
        match self {
            Self::Chat | Self::Anthropic => "messages",
            Self::Responses => "input",
            Self::Gemini => "contents",
        }
    }

    /// A letter for it, in marks.
    const fn letter(self) -> &'static str {
        match self {
            Self::Chat => "c",
            Self::Responses => "r",
            Self::Anthropic => "a",
            Self::Gemini => "g",
        }
    }
}

/// What the caller's body does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The upstream's name of the model.
    pub model: &'a str,
    /// The name that answers carry.
    pub public_model: &'a str,
    /// The most output tokens of the model, for dialects in which a limit must be named; where the catalogue tells.
    pub max_output: Option<u64>,
    /// Whether the answer is streamed: not every dialect says it in the body.
    pub stream: bool,
    /// The request's id: what ids in the answer are made of.
    pub request_id: &'a str,
    /// Now, Unix seconds.
    pub now: i64,
}

/// A request in the upstream's dialect, and how its answers go back.
pub(crate) struct Opened {
    /// The body.
    pub(crate) body: String,
    /// What was left out.
    pub(crate) dropped: Drops,
    /// The way back.
    pub(crate) answering: Box<dyn Answering>,
}

/// The way back of one request's answers.
pub(crate) trait Answering: Debug + Send + Sync {
    /// Reads the upstream's answer.
    fn reader(&self) -> Box<dyn Reader>;

    /// Says it to the caller.
    fn writer(&self, head: Head) -> Box<dyn Writer>;
}

/// Puts a caller's request into the upstream's dialect.
type Open = fn(&Raw<'_>, &Target<'_>) -> Result<Opened, Box<Refusal>>;

/// How one dialect becomes another; `None` where they are the same.
const fn direction(caller: Format, upstream: Format) -> Option<Open> {
    match (caller, upstream) {
        (Format::Anthropic, Format::Chat) => Some(anthropic_to_chat::open),
        (Format::Anthropic, Format::Gemini) => Some(anthropic_to_gemini::open),
        (Format::Anthropic, Format::Responses) => Some(anthropic_to_responses::open),
        (Format::Chat, Format::Anthropic) => Some(chat_to_anthropic::open),
        (Format::Chat, Format::Gemini) => Some(chat_to_gemini::open),
        (Format::Chat, Format::Responses) => Some(chat_to_responses::open),
        (Format::Gemini, Format::Anthropic) => Some(gemini_to_anthropic::open),
        (Format::Gemini, Format::Chat) => Some(gemini_to_chat::open),
        (Format::Gemini, Format::Responses) => Some(gemini_to_responses::open),
        (Format::Responses, Format::Anthropic) => Some(responses_to_anthropic::open),
        (Format::Responses, Format::Chat) => Some(responses_to_chat::open),
        (Format::Responses, Format::Gemini) => Some(responses_to_gemini::open),
        _ => None,
    }
}

/// A request on its way to an upstream of another dialect. To the pipeline it is a request like all others: its body is the
/// upstream's, its answers are the caller's.
#[derive(Debug)]
pub struct Translation {
    caller: Arc<dyn DialectRequest>,
    upstream: Box<dyn DialectRequest>,
    /// The caller's dialect and the upstream's.
    formats: (Format, Format),
    body: Bytes,
    dropped: Drops,
    answering: Box<dyn Answering>,
    head: Head,
}

impl Translation {
    /// Translates the body of a request that was read as `asked`.
    ///
    /// # Errors
    /// The upstream's dialect has nothing for what it asks, or a field that only translation looks into is wrong.
    pub fn open(
        (caller, upstream): (Format, Format),
        asked: &Arc<dyn DialectRequest>,
        body: &[u8],
        target: &Target<'_>,
    ) -> Result<Self, Box<Refusal>> {
        let Some(open) = direction(caller, upstream) else {
            return Err(Refusal::unsupported("model", "no translation leads there"));
        };
        // It was read before, so it is text.
        let text = std::str::from_utf8(body).unwrap_or("");
        let opened = open(&Raw::body(text), target)?;
        if says_nothing(upstream, &opened.body) {
            let why = "nothing is said in it, and a conversation without words is not taken";
            return Err(Refusal::unsupported(caller.turns(), why));
        }
        let body = Bytes::from(opened.body);
        let request = read(upstream, &body, asked.form(), target.model)?;
        Ok(Self {
            caller: Arc::clone(asked),
            upstream: request,
            formats: (caller, upstream),
            body,
            dropped: opened.dropped,
            answering: opened.answering,
            head: Head {
                form: asked.form(),
                model: target.public_model.to_owned(),
                seed: target.request_id.to_owned(),
                created: target.now,
            },
        })
    }

    /// Fields of the caller's request that the upstream's dialect has nothing for and that were left out (SPEC FWD-11).
    #[must_use]
    pub fn dropped(&self) -> &[String] {
        self.dropped.names()
    }

    /// What the caller wrote in its `body` that became the parameter `name` of the upstream's dialect.
    #[must_use]
    pub fn called_by_caller(&self, name: &str, body: &[u8]) -> Vec<String> {
        let body = std::str::from_utf8(body).unwrap_or("");
        counterparts::called_by_caller(self.formats, name, body)
    }
}

/// Whether the conversation of a request that we wrote ourselves is empty: what a caller says may be blank, or have no counterpart.
fn says_nothing(format: Format, body: &str) -> bool {
    let turns = crate::json::member(body, format.turns());
    turns.is_none_or(|turns| turns.span.of(body) == "[]")
}

/// Reads a request that we wrote ourselves. That fails only where the caller's values make no sense in the other dialect.
fn read(
    format: Format,
    body: &[u8],
    form: Form,
    model: &str,
) -> Result<Box<dyn DialectRequest>, Box<Refusal>> {
    let read: Result<Box<dyn DialectRequest>, _> = match format {
        Format::Chat => ChatRequest::peek(body).map(|asked| Box::new(asked) as _),
        Format::Responses => ResponsesRequest::peek(body).map(|asked| Box::new(asked) as _),
        Format::Anthropic => {
            MessagesRequest::peek(body, MessagesCall::Create).map(|asked| Box::new(asked) as _)
        }
        Format::Gemini => {
            let call = match form {
                Form::Whole => Call::Generate,
                Form::Events | Form::Array | Form::Bytes => Call::StreamEvents,
            };
            GeminiRequest::peek(call, model, body).map(|asked| Box::new(asked) as _)
        }
    };
    read.map_err(|error| {
        Box::new(Refusal {
            param: error.param().unwrap_or_default().to_owned(),
            message: format!("in the dialect of this model's upstream {error}"),
            unsupported: true,
        })
    })
}

/// Whether a response is one that is still to be made, or was given up.
fn is_unmade(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or("");
    let status = crate::json::member(text, "status").and_then(|status| status.text());
    let status = status.map(|status| status.decode(text));
    matches!(
        status.as_deref(),
        Some("queued" | "in_progress" | "cancelled")
    )
}

impl DialectRequest for Translation {
    fn model(&self) -> &str {
        self.caller.model()
    }

    fn form(&self) -> Form {
        self.caller.form()
    }

    fn text_bytes(&self) -> u64 {
        self.caller.text_bytes()
    }

    fn output_limit(&self) -> Option<u64> {
        self.caller.output_limit()
    }

    fn choices(&self) -> u32 {
        self.caller.choices()
    }

    fn can_be_capped(&self) -> bool {
        self.upstream.can_be_capped()
    }

    fn framing(&self, content_type: Option<&str>) -> Option<crate::sse::Framing> {
        self.upstream.framing(content_type)
    }

    fn operation(&self) -> &'static str {
        self.caller.operation()
    }

    fn needs(&self) -> Needs {
        self.caller.needs()
    }

    fn layout(&self) -> Option<&'static Layout> {
        self.upstream.layout()
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        self.caller.keep_alive()
    }

    /// The upstream's body; what the caller sent is not needed again.
    fn prepare(&self, _: &Bytes, change: &Change<'_>) -> Bytes {
        self.upstream.prepare(&self.body, change)
    }

    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64 {
        self.caller.input(body, text)
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        let options = ReadOptions {
            public_model: None,
            ..*options
        };
        let mut answer = self.upstream.read(body, &options)?;
        if self.formats.1 == Format::Responses && is_unmade(body) {
            return Err(answer::unmade());
        }
        if self.form() == Form::Whole {
            let usage = answer.usage.as_ref().map(|report| report.usage);
            let events = self.upstream.as_events(&answer.body);
            let (reader, writer) = (
                self.answering.reader(),
                self.answering.writer(self.head.clone()),
            );
            answer.body = answer::whole(events, usage, reader, writer)?;
            answer.content_type = None;
        }
        answer.stored_id = None;
        Ok(answer)
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        let max_event = options.max_event;
        let upstream = self.upstream.stream(StreamOptions {
            public_model: None,
            ..options
        });
        let (reader, writer) = (
            self.answering.reader(),
            self.answering.writer(self.head.clone()),
        );
        Box::new(answer::TranslatedStream::new(
            upstream, max_event, reader, writer,
        ))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        self.upstream.as_events(body)
    }
}
