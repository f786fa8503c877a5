//! A caller's request body, read in its dialect.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::responses::{CountRequest, ResponsesRequest, StoredCall, StoredRequest};
use switchboard_dialects::{
    DialectRequest, Needs, RequestError,
    anthropic::{MessagesCall, MessagesRequest},
    audio::{SpeechRequest, TranscriptionRequest},
    chat::ChatRequest,
    completions::CompletionsRequest,
    convert::Format,
    embeddings::EmbeddingsRequest,
    error::Shape,
    gemini::{self, GeminiRequest},
    images::ImagesRequest,
    moderations::ModerationsRequest,
    rerank::RerankRequest,
};
use switchboard_proto::common::v1::{Dialect, Endpoint};

use crate::tokens::Prompt;

/// What the body does not say of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) endpoint: Endpoint,
    /// What the path names.
    pub(crate) resource: &'a str,
    /// The body's type.
    pub(crate) content_type: &'a str,
    /// The query, without the key.
    pub(crate) query: &'a str,
    /// The public name of the model that made the response in question; empty: there is none.
    pub(crate) made_by: &'a str,
}

/// What a request asks a model, whole, so that another process can read it again. Nothing prints it.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Question {
    #[prost(enumeration = "Dialect", tag = "1")]
    pub(crate) dialect: i32,
    #[prost(enumeration = "Endpoint", tag = "2")]
    pub(crate) endpoint: i32,
    /// As in [`Asking`].
    #[prost(string, tag = "3")]
    pub(crate) resource: String,
    #[prost(string, tag = "4")]
    pub(crate) content_type: String,
    #[prost(string, tag = "5")]
    pub(crate) query: String,
    #[prost(bytes = "bytes", tag = "6")]
    pub(crate) body: Bytes,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Question({} bytes)", self.body.len())
    }
}

impl Question {
    /// What the model is asked; `None`: that cannot be read any more.
    pub(crate) fn prompt(self) -> Option<Prompt> {
        let asking = Asking {
            dialect: self.dialect(),
            endpoint: self.endpoint(),
            resource: &self.resource,
            content_type: &self.content_type,
            query: &self.query,
            // Whatever asks for a response that exists asks no model.
            made_by: "",
        };
        let asked = read(&asking, &self.body).ok()?;
        Some(Prompt {
            asked,
            body: self.body,
        })
    }
}

/// Reads the body in one pass.
///
/// # Errors
/// `invalid_request`, naming the field.
pub(crate) fn read(asking: &Asking<'_>, body: &[u8]) -> Result<Arc<dyn DialectRequest>, Failure> {
    let kind = asking.content_type;
    let read = match asking.dialect {
        Dialect::OpenaiChat => ChatRequest::peek(body).map(shared),
        Dialect::OpenaiEmbeddings => EmbeddingsRequest::peek(body).map(shared),
        Dialect::OpenaiCompletions => CompletionsRequest::peek(body).map(shared),
        Dialect::OpenaiImages => {
            let edits = asking.endpoint == Endpoint::ImageEdit;
            ImagesRequest::peek(kind, body, edits).map(shared)
        }
        Dialect::AnthropicMessages => {
            let call = match asking.endpoint {
                Endpoint::CountTokens => MessagesCall::CountTokens,
                _ => MessagesCall::Create,
            };
            MessagesRequest::peek(body, call).map(shared)
        }
        Dialect::GeminiGenerate => {
            let call = gemini_call(asking.endpoint, asking.query);
            GeminiRequest::peek(call, asking.resource, body).map(shared)
        }
        Dialect::OpenaiAudio => match asking.endpoint {
            Endpoint::Transcription | Endpoint::Translation => {
                TranscriptionRequest::peek(kind, body).map(shared)
            }
            _ => SpeechRequest::peek(body).map(shared),
        },
        Dialect::OpenaiModerations => ModerationsRequest::peek(body).map(shared),
        Dialect::Rerank => RerankRequest::peek(body).map(shared),
        Dialect::OpenaiResponses => match stored_call(asking.endpoint) {
            Some(call) => {
                let (id, model) = (asking.resource, asking.made_by);
                Ok(shared(StoredRequest::new(call, id, model, asking.query)))
            }
            None if asking.endpoint == Endpoint::CountTokens => {
                CountRequest::peek(body).map(shared)
            }
            None => ResponsesRequest::peek(body).map(shared),
        },
        _ => {
            let text = "this endpoint is not served here";
            return Err(Failure::new(Reason::InvalidRequest, text));
        }
    };
    read.map_err(|error: RequestError| {
        let failure = Failure::new(Reason::InvalidRequest, error.to_string());
        match error.param() {
            Some(param) => failure.param(param),
            None => failure,
        }
    })
}

/// What a path of Gemini's asks for.
fn gemini_call(endpoint: Endpoint, query: &str) -> gemini::Call {
    match endpoint {
        Endpoint::Stream if gemini::asks_for_events(query) => gemini::Call::StreamEvents,
        Endpoint::Stream => gemini::Call::StreamArray,
        Endpoint::CountTokens => gemini::Call::CountTokens,
        Endpoint::Embed => gemini::Call::Embed,
        Endpoint::EmbedBatch => gemini::Call::EmbedBatch,
        _ => gemini::Call::Generate,
    }
}

fn shared(asked: impl DialectRequest + 'static) -> Arc<dyn DialectRequest> {
    Arc::new(asked)
}

/// What is asked of a response that exists, if that is what an endpoint is about.
pub(crate) const fn stored_call(endpoint: Endpoint) -> Option<StoredCall> {
    match endpoint {
        Endpoint::Retrieve => Some(StoredCall::Retrieve),
        Endpoint::Delete => Some(StoredCall::Delete),
        Endpoint::Cancel => Some(StoredCall::Cancel),
        Endpoint::InputItems => Some(StoredCall::InputItems),
        _ => None,
    }
}

/// The format of a dialect in which text is generated: these are translated into each other (SPEC DIAL-1).
pub(crate) const fn format(dialect: Dialect) -> Option<Format> {
    match dialect {
        Dialect::OpenaiChat => Some(Format::Chat),
        Dialect::OpenaiResponses => Some(Format::Responses),
        Dialect::AnthropicMessages => Some(Format::Anthropic),
        Dialect::GeminiGenerate => Some(Format::Gemini),
        _ => None,
    }
}

/// The form of errors in a dialect.
pub(crate) const fn shape(dialect: Dialect) -> Shape {
    match dialect {
        Dialect::AnthropicMessages => Shape::Anthropic,
        Dialect::GeminiGenerate => Shape::Gemini,
        _ => Shape::OpenAi,
    }
}

/// The catalogue's names of what is needed.
pub(crate) fn capabilities(needs: Needs) -> Vec<String> {
    [
        (needs.tools, "tools"),
        (needs.vision, "vision"),
        (needs.json, "json"),
        (needs.audio, "audio"),
    ]
    .into_iter()
    .filter(|(needed, _)| *needed)
    .map(|(_, name)| name.to_owned())
    .collect()
}
