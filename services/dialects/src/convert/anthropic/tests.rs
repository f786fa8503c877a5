//! The dialect's own side of translation.

mod reader;
mod request;
mod writer;
