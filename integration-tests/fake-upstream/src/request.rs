//! What the upstream takes from a request, whatever its endpoint.

use std::borrow::Cow;

use http::HeaderMap;
use serde::Deserialize;

use crate::directive::Directive;

/// The facts of a body that decide about the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) directive: Directive,
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl Asked {
    /// Bodies that are not JSON, or lack the fields, ask for nothing in particular.
    pub(crate) fn read(body: &[u8]) -> Self {
        let directive = Directive::find(body);
        let Ok(peek) = serde_json::from_slice::<Peek<'_>>(body) else {
            return Self {
                directive,
                ..Self::default()
            };
        };
        Self {
            model: peek.model.map(Cow::into_owned),
            stream: peek.stream.unwrap_or(false),
            include_usage: peek
                .stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or(false),
            directive,
        }
    }
}

/// The endpoint that a path names. Prefixes are free, so that base URLs of any form can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Embeddings,
    Models,
    /// Responses, and what is asked of one, messages, Gemini's calls on a model, legacy completions, images, audio,
    /// moderations, rerank: says what it is scripted to say.
    Scripted,
    Unknown,
}

const SCRIPTED: [&str; 11] = [
    "/responses",
    "/messages",
    "/messages/count_tokens",
    "/completions",
    "/images/generations",
    "/images/edits",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/moderations",
    "/rerank",
];

impl Endpoint {
    pub(crate) fn of(path: &str) -> Self {
        if path.ends_with("/chat/completions") {
            Self::Chat
        } else if path.ends_with("/embeddings") {
            Self::Embeddings
        } else if SCRIPTED.iter().any(|end| path.ends_with(end))
            || path.contains("/responses/")
            || path.rsplit('/').next().is_some_and(is_call_on_a_model)
        {
            Self::Scripted
        } else if path.ends_with("/models") || path.contains("/models/") {
            Self::Models
        } else {
            Self::Unknown
        }
    }
}

/// `{model}:{call}`, as Gemini has it.
fn is_call_on_a_model(part: &str) -> bool {
    let call = part.rsplit_once(':').map_or("", |(_, call)| call);
    call.ends_with("Content") || call.ends_with("Contents") || call == "countTokens"
}

/// The caller's credential.
pub(crate) fn key(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    bearer
        .or_else(|| text("api-key"))
        .or_else(|| text("x-api-key"))
        .map(str::to_owned)
}
