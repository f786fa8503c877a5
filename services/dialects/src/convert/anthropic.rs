//! `anthropic.messages` in translation: its request as a caller sends it, what it demands of a request that is written in it,
//! and how its answers are read and said (PROTOCOLS §7).

pub(crate) mod block;
pub(crate) mod compose;
pub(crate) mod reader;
pub(crate) mod request;
pub(crate) mod writer;

#[cfg(test)]
mod tests;
