//! Dialect `openai.completions`: POST /v1/completions, the older of OpenAI's two (PROTOCOLS §4).
//!
//! Its chunks and answers are chat's but for where a choice has its text, so that its stream and its answer are chat's.

mod asked;
mod request;
#[cfg(test)]
mod tests;

pub use request::CompletionsRequest;
