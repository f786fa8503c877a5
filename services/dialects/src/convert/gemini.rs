//! Dialect `gemini.generate` in translation: its requests as values, its answers as parts, and what it demands of a request
//! that is written in it (PROTOCOLS §8).

mod code;
pub(super) mod compose;
mod ids;
mod members;
pub(super) mod reader;
pub(super) mod request;
mod schema;
pub(super) mod writer;

pub(super) use members::snake;
