//! Dialect `openai.images`: POST /v1/images/generations and /v1/images/edits (PROTOCOLS §9).
//!
//! Each image that comes back counts (`per_image`), beside the tokens that the upstream reports.

mod answer;
mod request;
#[cfg(test)]
mod tests;

pub use request::ImagesRequest;
