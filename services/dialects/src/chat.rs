//! Dialect `openai.chat`: POST /v1/chat/completions (PROTOCOLS §3).
//!
//! [`ChatRequest`] looks into a request and patches it for an upstream of the same dialect; its stream carries a streamed
//! answer, [`ChatAnswer`] is a whole one. None of them re-serialises what it passes on.

mod answer;
mod asked;
mod chunk;
mod edits;
mod fields;
mod patch;
mod pending;
mod request;
mod stream;

pub use answer::ChatAnswer;
pub(crate) use chunk::Payload;
pub(crate) use edits::PublicName;
pub use fields::Fields;
pub(crate) use fields::{MOST_ANSWERS, answers};
pub use patch::Patch;
pub(crate) use patch::quote;
pub use request::ChatRequest;
pub(crate) use stream::{Asked, ChatStream};
