//! The wire dialects that callers and upstreams speak: event streams, requests, answers, usage, errors, headers.
//!
//! Everything here is pure: no IO, no clock, no tasks, no runtime. Bytes come in, bytes and facts go out. What need not
//! change is passed on as the bytes that came (SPEC FWD-1): requests and answers are never re-serialised, only patched
//! at byte ranges that [`json`] finds in one validating pass.
//!
//! A dialect is a folder ([`chat`], [`embeddings`], [`gemini`]) with its request, its answer and its stream, behind
//! [`DialectRequest`] and [`AnswerStream`]; what they share ([`sse`], [`json`], [`usage`], [`error`], [`headers`], the carrier) lies
//! beside them and knows none of them.
//!
//! This crate does not choose accounts, does not count tokens, does not price anything and does not know SPEC ERR-1's
//! closed code set: it takes and gives wire codes as strings.
pub mod anthropic;
pub mod audio;
mod carry;
pub mod chat;
pub mod completions;
pub mod convert;
mod dialect;
pub mod embeddings;
pub mod error;
pub mod gemini;
pub mod headers;
pub mod images;
mod inputs;
pub mod json;
pub mod moderations;
mod multipart;
pub mod parameters;
mod request;
pub mod rerank;
pub mod responses;
pub mod sse;
mod text;
mod typed;
pub mod usage;
mod whole;

pub use carry::{AnswerStream, Progress, RawStream, StreamOptions};
pub use dialect::{Change, DialectRequest, Finished, Form, Needs, ReadOptions, WholeAnswer};
pub use error::{Class, UpstreamError};
pub use request::RequestError;
pub use text::TextBuffer;
pub use usage::{Usage, UsageReport, UsageSource};
