//! Anthropic's Messages (`/v1/messages`, `/v1/messages/count_tokens`), from caller to upstream of the same dialect
//! (PROTOCOLS §7; SPEC SURF-2).
//!
//! Bytes pass as they came but for the model's name and the output cap; unknown fields, blocks, deltas and events survive.
//! This module prices nothing and knows no beta feature by name.

mod answer;
mod asked;
mod events;
mod patch;
mod replay;
mod request;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use events::{Fragment, Piece, fragment};
pub use request::{MessagesCall, MessagesRequest};
