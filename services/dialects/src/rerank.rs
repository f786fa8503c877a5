//! Dialect `rerank`: POST /v1/rerank, as Cohere made it and Jina, vLLM and others speak it [their API references].

mod answer;
mod request;
#[cfg(test)]
mod tests;

pub use request::RerankRequest;
