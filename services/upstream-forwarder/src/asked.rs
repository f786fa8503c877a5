//! A caller's request body in its dialect: what admission, money and routing need of it, and how it must change.

use bytes::Bytes;
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::{
    RequestError, TextBuffer,
    chat::{ChatRequest, Patch},
    embeddings::EmbeddingsRequest,
};
use switchboard_proto::common::v1::Dialect;

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    Chat(ChatRequest),
    Embeddings(EmbeddingsRequest),
}

impl Asked {
    /// Reads the body in one pass.
    ///
    /// # Errors
    /// `invalid_request`, naming the field.
    pub(crate) fn read(dialect: Dialect, body: &[u8]) -> Result<Self, Failure> {
        let refused = |error: RequestError| {
            let failure = Failure::new(Reason::InvalidRequest, error.to_string());
            match error.param() {
                Some(param) => failure.param(param),
                None => failure,
            }
        };
        match dialect {
            Dialect::OpenaiChat => ChatRequest::peek(body).map(Self::Chat).map_err(refused),
            Dialect::OpenaiEmbeddings => EmbeddingsRequest::peek(body)
                .map(Self::Embeddings)
                .map_err(refused),
            _ => Err(Failure::new(
                Reason::InvalidRequest,
                "this endpoint is not served here",
            )),
        }
    }

    pub(crate) fn model(&self) -> &str {
        match self {
            Self::Chat(chat) => &chat.model,
            Self::Embeddings(embeddings) => &embeddings.model,
        }
    }

    pub(crate) fn stream(&self) -> bool {
        matches!(self, Self::Chat(chat) if chat.stream)
    }

    /// Bytes from which input is estimated: media are not text.
    pub(crate) fn text_bytes(&self) -> u64 {
        match self {
            Self::Chat(chat) => chat.text_bytes,
            Self::Embeddings(embeddings) => embeddings.text_bytes,
        }
    }

    /// The output that the caller allows, for each answer.
    pub(crate) fn output_limit(&self) -> Option<u64> {
        match self {
            Self::Chat(chat) => chat.output_limit(),
            Self::Embeddings(_) => None,
        }
    }

    /// Answers per request.
    pub(crate) fn choices(&self) -> u32 {
        match self {
            Self::Chat(chat) => u32::try_from(chat.n).unwrap_or(u32::MAX),
            Self::Embeddings(_) => 1,
        }
    }

    /// Whether output is generated at all.
    pub(crate) fn generates(&self) -> bool {
        matches!(self, Self::Chat(_))
    }

    /// The operation's name in traces (GenAI conventions).
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            Self::Chat(_) => "chat",
            Self::Embeddings(_) => "embeddings",
        }
    }

    /// What the target must be able to do.
    pub(crate) fn capabilities(&self) -> Vec<String> {
        let Self::Chat(chat) = self else {
            return Vec::new();
        };
        [
            (chat.has_tools, "tools"),
            (chat.images > 0, "vision"),
            (chat.has_response_format, "json"),
            (chat.audios > 0, "audio"),
        ]
        .into_iter()
        .filter(|(needed, _)| *needed)
        .map(|(_, name)| name.to_owned())
        .collect()
    }

    /// The body for an upstream of the same dialect.
    pub(crate) fn patch(
        &self,
        body: &Bytes,
        upstream_model: &str,
        output_cap: Option<u64>,
    ) -> Bytes {
        match self {
            Self::Chat(chat) => chat.patch(
                body,
                &Patch {
                    model: Some(upstream_model),
                    include_usage: true,
                    output_cap,
                    ..Patch::default()
                },
            ),
            Self::Embeddings(embeddings) => embeddings.patch(body, Some(upstream_model)),
        }
    }

    /// The text that a model reads, up to `bound` bytes, and tokens that need no counting. Blocking for large bodies.
    pub(crate) fn input(dialect: Dialect, body: &[u8], bound: usize) -> (TextBuffer, u64) {
        let mut text = TextBuffer::new(bound);
        let mut tokens = 0;
        // The body was read before: what cannot be read now adds nothing.
        let _ = match dialect {
            Dialect::OpenaiEmbeddings => {
                tokens = EmbeddingsRequest::peek(body).map_or(0, |asked| asked.tokens);
                EmbeddingsRequest::input_text(body, &mut text)
            }
            _ => ChatRequest::input_text(body, &mut text),
        };
        (text, tokens)
    }
}
