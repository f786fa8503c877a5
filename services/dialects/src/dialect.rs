//! What all dialects have in common, as the pipeline sees it: a request that was read, its whole answer, its stream.
//!
//! A dialect implements [`DialectRequest`] for its request; everything else follows from it. The pipeline knows no
//! dialect by name but where it reads the body.

use std::borrow::Cow;
use std::fmt::Debug;

use bytes::Bytes;

use crate::carry::{AnswerStream, StreamOptions};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::sse::{Framing, KEEP_ALIVE};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// In which form an answer goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One document, checked as a whole before anything of it goes out.
    Whole,
    /// Server-sent events.
    Events,
    /// A JSON array whose elements go out one by one (Gemini's stream without `alt=sse`).
    Array,
    /// Bytes of the upstream's own type, passed on as they arrive (audio).
    Bytes,
}

/// What a target must be able to do, by the catalogue's names of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Calls tools.
    pub tools: bool,
    /// Reads images.
    pub vision: bool,
    /// Answers in JSON.
    pub json: bool,
    /// Reads or speaks audio.
    pub audio: bool,
}

/// What must change in a request before it goes to an upstream of the same dialect (SPEC FWD-1). Whatever is not named
/// goes through byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change<'a> {
    /// The upstream's name of the model.
    pub model: &'a str,
    /// No more output tokens than this, for each answer.
    pub output_cap: Option<u64>,
}

/// How a whole answer is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadOptions<'a> {
    /// The public name that the answer must carry, where the target's differs.
    pub public_model: Option<&'a str>,
    /// The most text that is kept for counting where the upstream reports no usage, bytes.
    pub text_bound: usize,
    /// The answer's content type.
    pub content_type: Option<&'a str>,
}

/// A whole answer that has what its dialect demands (SPEC FWD-5), as the caller gets it.
#[derive(Debug, Clone, Default)]
pub struct WholeAnswer {
    /// The body.
    pub body: Bytes,
    /// Its type; JSON where none is given.
    pub content_type: Option<Cow<'static, str>>,
    /// What the upstream reported.
    pub usage: Option<UsageReport>,
    /// Its text, where tokens have to be counted.
    pub text: Option<TextBuffer>,
    /// The id under which the upstream keeps it (Responses with `store`).
    pub stored_id: Option<String>,
    /// How the response that it tells of ended; `None`: it goes on in the background, or there is no such thing.
    pub finished: Option<Finished>,
}

/// How a response ended that may be made in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// With an answer, though it may be cut short.
    Answered,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// A caller's request as far as Switchboard has to understand it. Made by reading the body once; it does not hold the
/// body, which is given again where it is needed.
pub trait DialectRequest: Debug + Send + Sync {
    /// The model that was asked for.
    fn model(&self) -> &str;

    /// The form in which the answer goes out.
    fn form(&self) -> Form;

    /// Bytes from which input is estimated: media are not text (SPEC BILL-3).
    fn text_bytes(&self) -> u64;

    /// The output tokens that the caller allows for each answer.
    fn output_limit(&self) -> Option<u64> {
        None
    }

    /// How many answers are asked for at once.
    fn choices(&self) -> u32 {
        1
    }

    /// Whether the upstream can be told to stop at a number of output tokens ([`Change::output_cap`]).
    fn can_be_capped(&self) -> bool {
        true
    }

    /// How many images are asked for.
    fn images(&self) -> u64 {
        0
    }

    /// How long the audio is that is to be heard, as far as its bytes tell, milliseconds.
    fn audio_millis(&self) -> u64 {
        0
    }

    /// How an upstream's answer is to be read that goes out piece by piece, by its content type; `None` where that is for
    /// the provider to say.
    fn framing(&self, _content_type: Option<&str>) -> Option<Framing> {
        None
    }

    /// Whether output tokens are generated at all.
    fn generates(&self) -> bool {
        true
    }

    /// Whether it costs nothing (SURF-1: a retrieval, a list, a cancel, a count is never billed).
    fn free(&self) -> bool {
        false
    }

    /// The operation's name in traces (OpenTelemetry's GenAI conventions).
    fn operation(&self) -> &'static str {
        "chat"
    }

    /// What the target must be able to do.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Whether the answer may go on to be made after it was given (Responses with `background`).
    fn background(&self) -> bool {
        false
    }

    /// The response that this request continues, or asks for.
    fn previous_response(&self) -> Option<&str> {
        None
    }

    /// The type of the body that goes to the upstream; JSON unless the request's own must be kept (multipart).
    fn content_type(&self) -> Option<&str> {
        None
    }

    /// Where its parameters stand, in dialects in which accounts may declare what they understand (SPEC FWD-11).
    fn layout(&self) -> Option<&'static Layout> {
        None
    }

    /// What keeps a silent stream alive in a form that the clients of the dialect bear (SPEC FWD-8); `None`: nothing does.
    /// A comment, unless the answer is no event stream.
    fn keep_alive(&self) -> Option<&'static [u8]> {
        match self.form() {
            Form::Events => Some(KEEP_ALIVE),
            Form::Whole | Form::Array | Form::Bytes => None,
        }
    }

    /// The body for an upstream of the same dialect. Without a change the body itself comes back.
    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes;

    /// Collects what a model reads of the request, for counting tokens at settlement (SPEC BILL-6), and gives the tokens
    /// that need no counting. Slow for large bodies.
    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64;

    /// Reads and patches the body of an answer with a success status.
    ///
    /// # Errors
    /// When it is not what its dialect demands, or says that it failed.
    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>>;

    /// What carries a streamed answer.
    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream>;

    /// A whole answer (that [`read`](Self::read) accepted) as the events that the upstream would have streamed: a target
    /// that cannot stream may serve a streaming caller (SPEC FWD-7).
    fn as_events(&self, body: &[u8]) -> Bytes;
}
