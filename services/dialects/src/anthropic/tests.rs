//! The whole dialect through the seam that the pipeline uses.

mod answer;
mod request;
mod stream;

use bytes::Bytes;

use super::{MessagesCall, MessagesRequest};
use crate::dialect::DialectRequest;

fn create(body: &str) -> MessagesRequest {
    MessagesRequest::peek(body.as_bytes(), MessagesCall::Create).unwrap()
}

fn streamed() -> Box<dyn DialectRequest> {
    Box::new(create(
        r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    ))
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
