//! What a provider wants that its dialect does not say (SPEC DIAL-3): one file a provider.
//!
//! An [`Adapter`] finishes an attempt's request (credential or a signature over the body, CRED-2; headers of its own; another
//! codec than JSON) and reads framings that are no event streams. Everything else is the dialect's and the pipeline's. Which
//! adapter serves an account is the account's `provider`.
//!
//! Adapters hold no state, do no IO and know no account: what differs between accounts is in the [`Draft`].

mod anthropic;
mod gemini;
mod openai;

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use secrecy::SecretString;
use switchboard_dialects::{
    UpstreamError,
    sse::{Codec, Framing, ObjectSplitter},
};

/// A request before it is sent.
#[derive(Debug)]
pub struct Draft<'a> {
    /// Where it goes.
    pub url: &'a Uri,
    /// All of its headers but the credential.
    pub headers: &'a mut HeaderMap,
    /// Its body, as the dialect has it.
    pub body: &'a mut Bytes,
    /// The account's credential, if it needs one.
    pub credential: Option<Credential<'a>>,
    /// Now, Unix seconds.
    pub now: i64,
}

/// An account's credential.
#[derive(Debug)]
pub struct Credential<'a> {
    /// The header that carries it.
    pub header: &'a str,
    /// The header's value, `{secret}` standing for the secret.
    pub format: &'a str,
    /// The secret itself. Never to be logged, never in an error.
    pub secret: &'a SecretString,
}

/// The credential cannot be used as the account declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the account's credential cannot be used")]
pub struct Unusable;

/// How a success is to be read when a stream was asked for.
#[derive(Debug)]
pub enum Reading {
    /// As server-sent events.
    Events,
    /// Through this, which makes events of it.
    Coded(Box<dyn Codec>),
    /// As one document: the upstream did not stream.
    Whole,
    /// As one document if it is an object; an array through this, piece by piece.
    WholeOrArray(Box<dyn Codec>),
}

/// See the module's page.
pub trait Adapter: Debug + Send + Sync {
    /// Finishes a request.
    ///
    /// # Errors
    /// The credential cannot be used.
    fn dress(&self, draft: &mut Draft<'_>) -> Result<(), Unusable> {
        carry_credential(draft)
    }

    /// How the answer to a streamed request is framed, by its content type. One piece has at most `max_event` bytes.
    fn reading(&self, content_type: Option<&str>, max_event: usize) -> Reading {
        match Framing::of(content_type) {
            Framing::Events => Reading::Events,
            Framing::Objects => Reading::Coded(Box::new(ObjectSplitter::new(max_event))),
            Framing::Whole => Reading::Whole,
        }
    }

    /// A whole answer, or an error, as its dialect's own document.
    ///
    /// # Errors
    /// It is not in the provider's codec.
    fn document(&self, body: Bytes) -> Result<Bytes, Box<UpstreamError>> {
        Ok(body)
    }
}

/// Puts the credential into the header that the account declares.
///
/// # Errors
/// It cannot stand in a header.
pub fn carry_credential(draft: &mut Draft<'_>) -> Result<(), Unusable> {
    use secrecy::ExposeSecret as _;
    let Some(credential) = &draft.credential else {
        return Ok(());
    };
    let name = HeaderName::from_bytes(credential.header.as_bytes()).map_err(|_| Unusable)?;
    let text = credential
        .format
        .replace("{secret}", credential.secret.expose_secret());
    let mut value = HeaderValue::try_from(text).map_err(|_| Unusable)?;
    value.set_sensitive(true);
    draft.headers.insert(name, value);
    Ok(())
}

/// The adapters by provider.
#[derive(Clone, Debug)]
pub struct Adapters {
    by_provider: HashMap<&'static str, Arc<dyn Adapter>>,
    other: Arc<dyn Adapter>,
}

impl Default for Adapters {
    /// Those of the catalogue's providers.
    fn default() -> Self {
        Self {
            by_provider: HashMap::new(),
            other: Arc::new(openai::OpenAi),
        }
        .with("anthropic", Arc::new(anthropic::Anthropic))
        .with("gemini", Arc::new(gemini::Gemini))
    }
}

impl Adapters {
    /// With an adapter for one more provider, or another one for it.
    #[must_use]
    pub fn with(mut self, provider: &'static str, adapter: Arc<dyn Adapter>) -> Self {
        self.by_provider.insert(provider, adapter);
        self
    }

    /// The adapter of a provider; one that has none of its own speaks as OpenAI does.
    pub(crate) fn of(&self, provider: &str) -> &Arc<dyn Adapter> {
        self.by_provider.get(provider).unwrap_or(&self.other)
    }
}
