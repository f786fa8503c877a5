//! Dialect `openai.chat`: POST /v1/chat/completions (PROTOCOLS §3).
//!
//! [`ChatRequest`] looks into a request and patches it for an upstream of the same dialect; [`ChatStream`] carries a
//! streamed answer, [`ChatAnswer`] a whole one. None of them re-serialises what it passes on.

mod answer;
mod chunk;
mod edits;
mod patch;
mod pending;
mod request;
mod stream;
mod template;

pub use answer::{ChatAnswer, answer_as_stream};
pub use patch::Patch;
pub(crate) use patch::quote;
pub use request::ChatRequest;
pub use stream::{ChatStream, StreamOptions};
