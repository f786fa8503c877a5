//! What went wrong at an upstream, and how errors look to a caller.
//!
//! Reading: an HTTP answer, an object inside a 200 or an event inside a stream becomes one [`UpstreamError`] with a
//! [`Class`], which alone decides on retry and blame (SPEC FWD-4, FWD-5, SCHED-9, SCHED-11). Status and code decide, never
//! the message; the exceptions are a context that is too long and a seal of another account, for which many upstreams have
//! nothing but words.
//!
//! Writing: a [`Shape`] gives an error of ours in the form of SPEC ERR-1 and of the caller's dialect.
//!
//! Upstream messages are bounded here but are not secrets-free: only errors of class "the request's own fault" may be
//! shown to a caller ([`UpstreamError::for_caller`] sees to it).

mod classify;
mod delay;
mod render;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

use bytes::Bytes;

pub use render::error_type;
pub use rules::{Rule, Rules, Wanted};
pub use shape::{Saying, Shape};

/// Longest message, code or type of an upstream that is kept, in bytes.
pub const MAX_FIELD: usize = 2048;

/// Longest error body that is passed to a caller as it came, in bytes.
pub const MAX_BODY: usize = 64 * 1024;

/// Longest delay taken from an upstream's headers.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(31 * 24 * 3600);

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// 401: the account's credential was refused.
    Unauthorized,
    /// 403 for the account (no permission, region), not for the content.
    Forbidden,
    /// 402, or a code that says that the account's money or plan is used up.
    Quota,
    /// 429 for a while.
    RateLimited,
    /// 503, 529 or a code that says overloaded.
    Overloaded,
    /// Another 5xx.
    Server,
    /// 408, 504.
    Timeout,
    /// The request does not fit into the model's context.
    ContextLength,
    /// The content was refused by policy.
    ContentPolicy,
    /// The upstream does not know the model or the path.
    NotFound,
    /// Any other 4xx: the request is at fault.
    Request,
    /// A success status, but the answer is not what its dialect demands.
    Malformed,
    /// A success status, but nothing in it.
    Empty,
    /// The answer ended before its end.
    Cut,
    /// The connection could not be made, or broke.
    Network,
    /// A redirect, or another status that makes no sense here.
    Unexpected,
}

/// Who is at fault (SPEC SCHED-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The account: its credential, its money.
    Account,
    /// This model on this account: its rate limit.
    AccountModel,
    /// The upstream host.
    Host,
    /// The caller's request: counts against no account.
    Request,
}

impl Class {
    /// Whether another candidate may do better (SPEC FWD-4); otherwise the answer belongs to the caller.
    #[must_use]
    pub const fn retryable(self) -> bool {
        !matches!(self.blame(), Blame::Request)
    }

    /// Who is at fault.
    #[must_use]
    pub const fn blame(self) -> Blame {
        match self {
            Self::Unauthorized | Self::Forbidden | Self::Quota => Blame::Account,
            Self::RateLimited => Blame::AccountModel,
            Self::Overloaded
            | Self::Server
            | Self::Timeout
            | Self::Malformed
            | Self::Empty
            | Self::Cut
            | Self::Network
            | Self::Unexpected => Blame::Host,
            Self::ContextLength | Self::ContentPolicy | Self::NotFound | Self::Request => {
                Blame::Request
            }
        }
    }

    /// What the caller gets when no candidate is left (SPEC FWD-4, ERR-1): HTTP status and wire code. For faults of
    /// the request these are only a fallback; [`UpstreamError::for_caller`] keeps the upstream's own.
    #[must_use]
    pub const fn wire(self) -> (u16, &'static str) {
        match self {
            Self::Unauthorized | Self::Forbidden | Self::Quota => {
                (503, "upstream_credentials_exhausted")
            }
            Self::RateLimited => (429, "rate_limit_exceeded"),
            Self::Timeout => (504, "upstream_timeout"),
            Self::Overloaded
            | Self::Server
            | Self::Malformed
            | Self::Empty
            | Self::Cut
            | Self::Network
            | Self::Unexpected => (502, "upstream_failed"),
            Self::ContextLength => (400, "context_length_exceeded"),
            Self::NotFound => (404, "not_found"),
            Self::ContentPolicy | Self::Request => (400, "invalid_request"),
        }
    }
}

/// A failure of an upstream, wherever it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// What kind it is: decides everything else.
    pub class: Class,
    /// The status that counts: the one inside a 200's error object, else the answer's. `None` when nothing was said.
    pub status: Option<u16>,
    /// The upstream's own code, or what we found wrong.
    pub code: Option<String>,
    /// The upstream's own error type.
    pub kind: Option<String>,
    /// The upstream's message, at most [`MAX_FIELD`] bytes. For logs and admins.
    pub message: Option<String>,
    /// The field at fault, as the upstream names it.
    pub param: Option<String>,
    /// When to come back, from `retry-after-ms`, `retry-after` or an exhausted limit's reset.
    pub retry_after: Option<Duration>,
    /// The upstream's `x-should-retry`.
    pub should_retry: Option<bool>,
    /// The upstream's body, when it is an error object in a vendor's form of at most [`MAX_BODY`] bytes.
    pub body: Option<(Shape, Bytes)>,
}

/// An upstream's error as its caller gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// HTTP status.
    pub status: u16,
    /// Wire code of SPEC ERR-1, for rows and metrics.
    pub code: &'static str,
    /// What it says.
    pub message: String,
    /// The field at fault.
    pub param: Option<String>,
    /// The upstream's own body, where it is in the caller's form already.
    pub as_it_is: Option<Bytes>,
}

impl Rendered {
    /// The JSON body in the caller's form.
    #[must_use]
    pub fn body(&self, shape: Shape, request_id: &str) -> Bytes {
        if let Some(body) = &self.as_it_is {
            return body.clone();
        }
        shape.body(&Saying {
            code: self.code,
            status: self.status,
            message: &self.message,
            param: self.param.as_deref(),
            request_id: Some(request_id),
            retry_after: None,
        })
    }
}

impl UpstreamError {
    /// A failure that the upstream did not name itself.
    #[must_use]
    pub fn found(class: Class, message: &str) -> Self {
        Self {
            class,
            status: None,
            code: None,
            kind: None,
            message: Some(bounded(message)),
            param: None,
            retry_after: None,
            should_retry: None,
            body: None,
        }
    }

    /// Whether an account refuses a seal in the conversation (encrypted reasoning, a signature) that another account was given: its
    /// own it would take (CASES C19). OpenAI has a code for it, others nothing but words.
    #[must_use]
    pub fn refuses_seals(&self) -> bool {
        let has = |said: &Option<String>, words: &[&str]| {
            let said = said.as_deref().unwrap_or("").to_ascii_lowercase();
            words.iter().any(|word| said.contains(word))
        };
        let encrypted = ["encrypted_content", "encrypted content"];
        let signed = ["signature"];
        let thought = ["thinking", "thought"];
        self.class == Class::Request
            && (has(&self.code, &encrypted)
                || has(&self.param, &encrypted)
                || has(&self.message, &encrypted)
                || (has(&self.message, &signed) && has(&self.message, &thought)))
    }

    /// The answer for a caller whose dialect has errors of this `shape`, when the request itself is at fault (SPEC FWD-4: returned as it
    /// is): the upstream's status and, where it is an error object in that form, its body; a context that is too long always as
    /// 400 `context_length_exceeded`. `None` for faults that are not the caller's: their words stay inside.
    #[must_use]
    pub fn for_caller(&self, shape: Shape) -> Option<Rendered> {
        if self.class.retryable() {
            return None;
        }
        let (fallback, code) = self.class.wire();
        let status = match (self.class, self.status) {
            (Class::ContextLength, _) => 400,
            (_, Some(status @ 400..=499)) => status,
            _ => fallback,
        };
        let code = match (self.class, status) {
            (Class::NotFound, _) if self.code.as_deref() == Some("model_not_found") => {
                "model_not_found"
            }
            (Class::Request, 413) => "body_too_large",
            _ => code,
        };
        let told = self.class != Class::ContextLength
            || (self.status == Some(400)
                && (shape != Shape::OpenAi
                    || (self.code.as_deref() == Some("context_length_exceeded")
                        && self.kind.as_deref() == Some("invalid_request_error"))));
        let as_it_is = self
            .body
            .as_ref()
            .filter(|(said, _)| told && *said == shape);
        let message = self.message.as_deref();
        Some(Rendered {
            status,
            code,
            message: message
                .unwrap_or("the upstream refused the request")
                .to_owned(),
            param: self.param.clone(),
            as_it_is: as_it_is.map(|(_, body)| body.clone()),
        })
    }
}

/// At most [`MAX_FIELD`] bytes of `text`.
fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_FIELD);
    text.get(..end).unwrap_or("").to_owned()
}
