//! Chat in translation: what its requests say, how its answers are read and said (PROTOCOLS §3, §11).

pub(super) mod compose;
mod message;
pub(super) mod reader;
mod request;
mod thought;
mod tools;
pub(super) mod writer;

pub(crate) use self::message::{Call, Content, FileSource, Message};
pub(crate) use self::request::{AnswerShape, EFFORTS, OutputFormat, Request};
pub(crate) use self::tools::{Choice, Named, Tool};
