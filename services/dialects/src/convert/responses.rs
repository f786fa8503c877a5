//! The Responses API in translation: what its requests say, how its answers are read and said (PROTOCOLS §5, §11).
//!
//! No state is behind any of it: what continues a kept response, or is kept or made in the background, only an upstream of this
//! dialect can serve.

pub(super) mod compose;
mod input;
pub(super) mod reader;
mod request;
mod tools;
pub(super) mod writer;

pub(crate) use self::input::{Content, Item, Media, Role};
#[cfg(test)]
pub(crate) use self::request::ECHOED;
pub(crate) use self::request::{Request, TextFormat};
pub(crate) use self::tools::{Choice, Names, Tool};
pub(crate) use self::writer::Saying;
