//! What is asked of a response that exists: `GET`, `DELETE`, `POST …/cancel`, `GET …/input_items` (PROTOCOLS §5.4).

use bytes::Bytes;

use super::answer::read_any;
use super::events::as_events;
use super::stream::{Mode, ResponseStream};
use crate::carry::{AnswerStream, StreamOptions};
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::text::TextBuffer;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredCall {
    /// The response itself.
    Retrieve,
    /// To forget it.
    Delete,
    /// To end one that is made in the background.
    Cancel,
    /// What it was made from.
    InputItems,
}

/// A call about a response that an account keeps. It is never billed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRequest {
    call: StoredCall,
    id: String,
    model: String,
    stream: bool,
}

impl StoredRequest {
    /// `model` is the public name under which the response was made; `query` decides whether the answer is streamed.
    #[must_use]
    pub fn new(call: StoredCall, id: &str, model: &str, query: &str) -> Self {
        let streams = |pair: &str| matches!(pair, "stream=true" | "stream=1");
        Self {
            call,
            id: id.to_owned(),
            model: model.to_owned(),
            stream: call == StoredCall::Retrieve && query.split('&').any(streams),
        }
    }
}

impl DialectRequest for StoredRequest {
    fn model(&self) -> &str {
        &self.model
    }

    fn form(&self) -> Form {
        if self.stream {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn text_bytes(&self) -> u64 {
        0
    }

    fn generates(&self) -> bool {
        false
    }

    fn free(&self) -> bool {
        true
    }

    fn operation(&self) -> &'static str {
        match self.call {
            StoredCall::Retrieve => "retrieve_response",
            StoredCall::Delete => "delete_response",
            StoredCall::Cancel => "cancel_response",
            StoredCall::InputItems => "list_input_items",
        }
    }

    fn previous_response(&self) -> Option<&str> {
        Some(&self.id)
    }

    fn prepare(&self, body: &Bytes, _: &Change<'_>) -> Bytes {
        body.clone()
    }

    fn input(&self, _: &[u8], _: &mut TextBuffer) -> u64 {
        0
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        if self.call == StoredCall::Delete && body.is_empty() {
            return Ok(WholeAnswer::default());
        }
        read_any(body, options)
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(ResponseStream::open(Mode::Replay, options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        as_events(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_retrieval_streams_and_only_when_asked_to() {
        let form = |call, query| StoredRequest::new(call, "r", "m", query).form();
        let streamed = "starting_after=3&stream=true";
        assert_eq!(form(StoredCall::Retrieve, streamed), Form::Events);
        assert_eq!(form(StoredCall::Retrieve, "stream=false"), Form::Whole);
        assert_eq!(form(StoredCall::InputItems, streamed), Form::Whole);
    }

    #[test]
    fn an_answer_passes_whatever_it_says_under_the_public_name() {
        let get = StoredRequest::new(StoredCall::Retrieve, "r", "m", "");
        let options = ReadOptions {
            public_model: Some("public"),
            ..ReadOptions::default()
        };
        let said = r#"{"id":"r","object":"response","status":"failed","model":"up","error":{"code":"server_error","message":"x"}}"#;
        let answer = get.read(&said.into(), &options).unwrap();
        assert_eq!(answer.body, said.replace("\"up\"", "\"public\""));
        assert_eq!(answer.finished, Some(crate::Finished::Failed));
        assert_eq!(answer.stored_id, None);
        let list = Bytes::from(r#"{"object":"list","data":[],"model":"up"}"#);
        assert_eq!(get.read(&list, &options).unwrap().body, list);
        assert!(get.read(&Bytes::new(), &options).is_err());
        let delete = StoredRequest::new(StoredCall::Delete, "r", "m", "");
        assert!(delete.read(&Bytes::new(), &options).is_ok());
    }
}
