//! `POST /v1/responses/input_tokens`: how many tokens a request would read. Never billed.

use bytes::Bytes;

use super::answer::read_any;
use super::request::ResponsesRequest;
use crate::carry::{AnswerStream, RawStream, StreamOptions};
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::request::RequestError;
use crate::text::TextBuffer;

/// A request whose tokens are to be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRequest(ResponsesRequest);

impl CountRequest {
    /// Reads a body: that of a create.
    ///
    /// # Errors
    /// As [`ResponsesRequest::peek`].
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        ResponsesRequest::peek(body).map(Self)
    }
}

impl DialectRequest for CountRequest {
    fn model(&self) -> &str {
        &self.0.model
    }

    fn form(&self) -> Form {
        Form::Whole
    }

    fn text_bytes(&self) -> u64 {
        self.0.text_bytes
    }

    fn generates(&self) -> bool {
        false
    }

    fn free(&self) -> bool {
        true
    }

    fn operation(&self) -> &'static str {
        "count_tokens"
    }

    fn previous_response(&self) -> Option<&str> {
        self.0.previous_response()
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        self.0.patch(body, change.model, None)
    }

    fn input(&self, _: &[u8], _: &mut TextBuffer) -> u64 {
        0
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        read_any(body, options)
    }

    fn stream(&self, _: StreamOptions) -> Box<dyn AnswerStream> {
        // It is never streamed.
        Box::new(RawStream::default())
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        Bytes::copy_from_slice(body)
    }
}
