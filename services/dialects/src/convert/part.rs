//! What an answer consists of, whatever the dialect: the parts that a [`Reader`] finds in the upstream's events and a
//! [`Writer`] says in the caller's.

use std::fmt::Debug;

use bytes::BytesMut;

use super::seal::Seal;
use crate::carry::Progress;
use crate::error::UpstreamError;
use crate::usage::Usage;

/// A piece of an answer. Pieces of one kind that follow each other belong together, until another kind comes or the end
/// of it is said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part<'a> {
    /// The answer begins. Comes once, before everything else, with choice 0.
    Begin {
        /// When it was made, Unix seconds; where the upstream told.
        created: Option<i64>,
    },
    /// Text. Never empty.
    Text(&'a str),
    /// Reasoning, or a summary of it, as text. Never empty.
    Reasoning(&'a str),
    /// The reasoning that came just before ends, sealed by its maker. Without text before it: it is the seal alone.
    Sealed(Seal<'a>),
    /// The model declines, in these words.
    Refusal(&'a str),
    /// A tool is called. Calls are told apart by `key`: they count from 0 within their choice, in the order in which they begin.
    Call {
        /// Which call.
        key: u32,
        /// The id by which its result will refer to it; empty where the upstream gave none.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// A tool of free text: its arguments are not JSON.
        custom: bool,
        /// A seal that must come back with it (Gemini).
        seal: Option<Seal<'a>>,
    },
    /// A piece of a call's arguments. The pieces of all calls may be mixed.
    Arguments {
        /// Which call.
        key: u32,
        /// The piece.
        piece: &'a str,
    },
    /// A call's arguments are complete; none at all means `{}`.
    CallEnd {
        /// Which call.
        key: u32,
    },
    /// Where a piece of the text before it comes from.
    Citation {
        /// What is cited: a URL, or empty.
        url: &'a str,
        /// Its title; may be empty.
        title: &'a str,
        /// The first and one past the last character of the answer's text that it concerns, counted in characters.
        span: Option<(u64, u64)>,
        /// The upstream's own words for it, JSON.
        raw: &'a str,
    },
    /// Log probabilities of the text before it: the items of chat's `logprobs.content` (Responses' `logprobs` are the
    /// same), JSON objects with commas between them.
    Logprobs(&'a str),
    /// An image or a sound that the model made.
    Media {
        /// Its type.
        mime: &'a str,
        /// Base64.
        data: &'a str,
    },
    /// The choice ends.
    Finish(Finish<'a>),
    /// What was used, in all. Comes once, last.
    Usage(Usage),
}

/// What stands in an answer for media that its dialect has no place for, so that the reader knows of them.
pub(crate) fn no_place(mime: &str) -> String {
    format!("[{mime} was made here, for which this API has no place in an answer]")
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finish<'a> {
    /// The reason.
    pub(crate) reason: Reason<'a>,
    /// The upstream's own word for it; empty where it had none. Told beside the caller's where the caller's
    /// says less (CASES C21).
    pub(crate) raw: &'a str,
}

/// The reasons (PROTOCOLS §11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason<'a> {
    /// It was all said.
    Stop,
    /// One of the caller's stop sequences was met.
    StopSequence(&'a str),
    /// The output limit was reached.
    Length,
    /// The context is full.
    ContextFull,
    /// Tools are called.
    ToolCalls,
    /// A filter stopped it, or its prompt.
    Filtered,
    /// The model declined.
    Refused,
    /// It was broken off, and nobody told why in words that are known.
    Cut,
    /// The provider paused a long turn.
    Paused,
    /// None of these; `raw` says which.
    Other,
}

/// Where a [`Reader`] puts the parts that it finds: the choice, and the part.
pub(crate) type Put<'p> = dyn FnMut(u32, Part<'_>) + 'p;

/// Finds the parts of an answer in the events of the upstream's dialect.
///
/// It reads what [`AnswerStream`](crate::AnswerStream) of that dialect gives out: whole, valid events of an answer that is not
/// a failure. It does not read usage, which the stream knows.
pub(crate) trait Reader: Debug + Send + Sync {
    /// Reads one event.
    ///
    /// # Errors
    /// It cannot mean what its dialect says.
    fn event(
        &mut self,
        name: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>>;

    /// The stream has ended as it should: gives what was kept back.
    fn end(&mut self, put: &mut Put<'_>);
}

/// Says an answer in the caller's dialect, as events or as one document.
///
/// Whatever the order of the parts, what it writes is valid in its dialect: it opens and closes blocks, counts indexes and
/// sequence numbers, and keeps back what cannot be said yet. In the whole form it keeps everything until [`end`](Self::end),
/// and says then what all the events together would have said.
pub(crate) trait Writer: Debug + Send + Sync {
    /// Says a part of a choice.
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut);

    /// All was said: writes what ends the answer.
    fn end(&mut self, out: &mut BytesMut);

    /// What of the answer cannot be said in this dialect, though some of it was said already: the answer has failed. `all`:
    /// nothing more comes but the end.
    fn failure(&self, all: bool) -> Option<&'static str> {
        let _ = all;
        None
    }

    /// Bytes that it keeps.
    fn kept(&self) -> usize;

    /// Where the stream stands, in dialects whose failure event must tell (Responses).
    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// What a [`Writer`] must know of the answer beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The form in which it goes out.
    pub(crate) form: crate::Form,
    /// The public name of the model.
    pub(crate) model: String,
    /// Distinguishes this answer from all others: what ids that must be made are made of.
    pub(crate) seed: String,
    /// When it is made, Unix seconds; where the upstream does not tell.
    pub(crate) created: i64,
}
