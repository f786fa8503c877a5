//! The details of an answer that a script can choose: what usage it has and where, how events are framed, how bytes
//! are cut into writes.

use serde::{Deserialize, Serialize};

/// Tokens as a provider counts them. `cached` and `cache_write` are parts of `prompt`, `reasoning` of `completion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens of the prompt.
    pub prompt: u64,
    /// All generated tokens.
    pub completion: u64,
    /// Prompt tokens read from a cache; `None` leaves the detail out of the answer.
    pub cached: Option<u64>,
    /// Prompt tokens written to a cache; `None` leaves the detail out.
    pub cache_write: Option<u64>,
    /// Generated tokens that were reasoning; `None` leaves the detail out.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Usage without details.
    #[must_use]
    pub fn of(prompt: u64, completion: u64) -> Self {
        Self {
            prompt,
            completion,
            ..Self::default()
        }
    }
}

/// Where an answer carries its usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageShape {
    /// As OpenAI does: always in whole answers; in streams only when asked for, in a chunk of its own.
    #[default]
    AsAsked,
    /// Nowhere.
    Absent,
    /// In a chunk of its own with `choices: []`, also unasked.
    OwnChunk,
    /// On the chunk that carries the finish reason.
    FinishChunk,
    /// In a last chunk whose `choices` are not empty.
    OwnChunkWithChoice,
    /// Cumulative, in every chunk.
    EveryChunk,
}

/// How the body is cut into writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// One write an event (or whole body).
    #[default]
    Events,
    /// Writes of so many bytes (at least 1).
    Of(usize),
    /// New writes begin at these offsets of the body, ascending.
    At(Vec<usize>),
    /// As few writes as the actions allow.
    Glued,
}

/// Legal ways to write the same server-sent events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// `"\n"`, `"\r\n"` or `"\r"`.
    pub line_end: &'static str,
    /// `data: x`, else `data:x`.
    pub space: bool,
    /// A comment line before each event.
    pub comments: bool,
    /// A byte order mark at the start.
    pub bom: bool,
    /// `id`, `retry` and an unknown field before each `data`.
    pub extra_fields: bool,
    /// An empty line ends the last event.
    pub last_blank_line: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            line_end: "\n",
            space: true,
            comments: false,
            bom: false,
            extra_fields: false,
            last_blank_line: true,
        }
    }
}
