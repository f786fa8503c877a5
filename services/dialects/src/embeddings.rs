//! Dialect `openai.embeddings`: POST /v1/embeddings (PROTOCOLS §9, CASES D10).

mod answer;
mod asked;
mod request;
#[cfg(test)]
mod tests;

pub use answer::EmbeddingsAnswer;
pub use request::{EmbeddingsRequest, Encoding};
