//! Dialect `openai.moderations`: POST /v1/moderations (PROTOCOLS §9).

mod answer;
mod request;
#[cfg(test)]
mod tests;

pub use request::ModerationsRequest;
