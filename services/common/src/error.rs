//! The one error table (SPEC ERR-1): each reason's wire code, gRPC status, HTTP status and what an SDK should do.
//!
//! A service chooses a [`Reason`] and a message for people; nothing else maps errors. A [`Failure`] travels as a gRPC
//! status with `google.rpc.ErrorInfo` and `RetryInfo`, and comes back whole. Not here: how a dialect renders it (the
//! edge does that).

use std::{collections::HashMap, fmt, time::Duration};

pub use switchboard_proto::common::v1::Reason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The `domain` of every `ErrorInfo` that Switchboard writes.
pub const DOMAIN: &str = "switchboard";

/// What a header for the caller is called in an `ErrorInfo`'s metadata, before its own name.
const HEADER: &str = "header-";

/// What the table says of a reason.
pub trait ReasonExt {
    /// The code that callers see: the enum value's name in lower case.
    fn wire_code(&self) -> &'static str;
    /// HTTP status at the edge.
    fn http_status(&self) -> u16;
    /// gRPC status.
    fn grpc_code(&self) -> Code;
    /// `Some(false)`: an SDK's own retry cannot help and must be told so (ERR-2). `None`: the SDK decides by the status.
    fn sdk_should_retry(&self) -> Option<bool>;
}

impl ReasonExt for Reason {
    fn wire_code(&self) -> &'static str {
        row(*self).0
    }

    fn http_status(&self) -> u16 {
        row(*self).1
    }

    fn grpc_code(&self) -> Code {
        row(*self).2
    }

    fn sdk_should_retry(&self) -> Option<bool> {
        row(*self).3
    }
}

/// Every reason but the unspecified one.
pub fn reasons() -> impl Iterator<Item = Reason> {
    (1..)
        .map(Reason::try_from)
        .take_while(Result::is_ok)
        .flatten()
}

const NO: Option<bool> = Some(false);

const fn row(reason: Reason) -> (&'static str, u16, Code, Option<bool>) {
    match reason {
        Reason::InvalidRequest => ("invalid_request", 400, Code::InvalidArgument, NO),
        Reason::UnsupportedParameter => ("unsupported_parameter", 400, Code::InvalidArgument, NO),
        Reason::ContextLengthExceeded => {
            ("context_length_exceeded", 400, Code::InvalidArgument, NO)
        }
        Reason::PreviousResponseNotFound => (
            "previous_response_not_found",
            400,
            Code::InvalidArgument,
            NO,
        ),
        Reason::InvalidApiKey => ("invalid_api_key", 401, Code::Unauthenticated, NO),
        Reason::KeyExpired => ("key_expired", 401, Code::Unauthenticated, NO),
        Reason::KeyDisabled => ("key_disabled", 401, Code::Unauthenticated, NO),
        Reason::InsufficientQuota => ("insufficient_quota", 402, Code::FailedPrecondition, NO),
        Reason::IpNotAllowed => ("ip_not_allowed", 403, Code::PermissionDenied, NO),
        Reason::TenantDisabled => ("tenant_disabled", 403, Code::PermissionDenied, NO),
        Reason::GroupDisabled => ("group_disabled", 403, Code::PermissionDenied, NO),
        Reason::ModelNotAllowed => ("model_not_allowed", 403, Code::PermissionDenied, NO),
        Reason::ModelNotFound => ("model_not_found", 404, Code::NotFound, NO),
        Reason::NotFound => ("not_found", 404, Code::NotFound, NO),
        Reason::MethodNotAllowed => ("method_not_allowed", 405, Code::Unimplemented, NO),
        // SDKs repeat a 409 by themselves; the same change will conflict again.
        Reason::Conflict => ("conflict", 409, Code::Aborted, NO),
        Reason::BodyTooLarge => ("body_too_large", 413, Code::OutOfRange, NO),
        Reason::UnsupportedEncoding => ("unsupported_encoding", 415, Code::InvalidArgument, NO),
        Reason::IdempotencyMismatch => ("idempotency_mismatch", 422, Code::FailedPrecondition, NO),
        Reason::RateLimitExceeded => ("rate_limit_exceeded", 429, Code::ResourceExhausted, None),
        Reason::ConcurrencyFull => ("concurrency_full", 429, Code::ResourceExhausted, None),
        Reason::QueueFull => ("queue_full", 429, Code::ResourceExhausted, None),
        Reason::QuotaExceeded => ("quota_exceeded", 429, Code::ResourceExhausted, NO),
        Reason::CallerLeft => ("caller_left", 499, Code::Cancelled, NO),
        Reason::Unspecified | Reason::Internal => ("internal", 500, Code::Internal, None),
        Reason::UpstreamFailed => ("upstream_failed", 502, Code::Unavailable, None),
        Reason::Unavailable => ("unavailable", 503, Code::Unavailable, None),
        Reason::NoAccount => ("no_account", 503, Code::Unavailable, None),
        Reason::PreviousResponseUnavailable => {
            ("previous_response_unavailable", 503, Code::Unavailable, NO)
        }
        Reason::UpstreamCredentialsExhausted => (
            "upstream_credentials_exhausted",
            503,
            Code::Unavailable,
            None,
        ),
        Reason::UpstreamTimeout => ("upstream_timeout", 504, Code::DeadlineExceeded, None),
    }
}

/// When to come again where nobody knows better: soon for what passes by itself, later for what a person has to change.
const fn usual_wait(reason: Reason) -> Option<Duration> {
    match row(reason).1 {
        402 => Some(Duration::from_secs(60)),
        429 | 503 => Some(Duration::from_secs(1)),
        _ => None,
    }
}

/// A refusal or a failure on its way to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which row of the table.
    pub reason: Reason,
    /// For people: what is wrong and what to do. Never a secret, an SQL text or an internal address.
    pub message: String,
    /// The request field at fault, if one is.
    pub param: Option<String>,
    /// When trying again may help. Rendered as whole seconds, rounded up.
    pub retry_after: Option<Duration>,
    /// More headers for the caller's answer: names in lower case, each once, in no order. The edge lets through those it knows.
    pub headers: Vec<(String, String)>,
}

impl Failure {
    /// A failure of this reason. A refusal says when to come again from the start (FLOW-5); whoever knows better says so.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            param: None,
            retry_after: usual_wait(reason),
            headers: Vec::new(),
        }
    }

    /// Something that must not happen. The caller gets a fixed text: log the cause where it is known.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            Reason::Internal,
            "internal error; quote the request id when you report it",
        )
    }

    /// Names the field at fault.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds a header to the caller's answer; `name` is in lower case.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// `Retry-After` in whole seconds, rounded up, at least 1.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after.map(|after| {
            let whole = after.as_secs();
            (whole + u64::from(after.subsec_nanos() > 0)).max(1)
        })
    }

    /// Reads a failure back from a status. Total: what carries no reason of ours is judged by its code. A deadline shows as
    /// `Cancelled` over a socket and as `DeadlineExceeded` in process.
    #[must_use]
    pub fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        // A connection that broke under a call: whatever code the transport found for it, a peer is gone.
        let broken = info.is_none() && std::error::Error::source(status).is_some();
        let reason = info
            .and_then(|info| Reason::from_str_name(&info.reason))
            .unwrap_or(match status.code() {
                _ if broken => Reason::Unavailable,
                Code::InvalidArgument | Code::OutOfRange => Reason::InvalidRequest,
                Code::Unauthenticated => Reason::InvalidApiKey,
                Code::NotFound => Reason::NotFound,
                Code::Aborted | Code::AlreadyExists => Reason::Conflict,
                Code::Unavailable
                | Code::Cancelled
                | Code::DeadlineExceeded
                | Code::ResourceExhausted => Reason::Unavailable,
                _ => Reason::Internal,
            });
        // Texts of transports name addresses and types; only our own are for callers.
        let message = match (info, reason) {
            (Some(_), _) => status.message().to_owned(),
            (None, Reason::Unavailable) => {
                "a part of the gateway cannot be reached; try again shortly".to_owned()
            }
            (None, Reason::Internal) => Self::internal().message,
            (None, _) => status.message().to_owned(),
        };
        // A map has no order of its own.
        let mut headers: Vec<(String, String)> = info
            .into_iter()
            .flat_map(|info| &info.metadata)
            .filter_map(|(key, value)| {
                Some((key.strip_prefix(HEADER)?.to_owned(), value.to_owned()))
            })
            .collect();
        headers.sort_unstable();
        Self {
            reason,
            message,
            headers,
            param: info.and_then(|info| info.metadata.get("param").cloned()),
            retry_after: details
                .retry_info()
                .and_then(|retry| retry.retry_delay)
                .or_else(|| usual_wait(reason)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.wire_code(), self.message)
    }
}

impl std::error::Error for Failure {}

/// Longest message, bytes. A status travels in headers, with its message in them twice, and clients refuse headers of more than
/// 16 KiB (hyper's default; some of gRPC's take 8): they would be told of a broken connection instead.
const MOST_MESSAGE: usize = 2_048;
/// Longest name of a field and longest value of a header, bytes.
const MOST_NAME: usize = 256;

/// At most so many bytes of a text, with a mark where more was said.
fn brief(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// What is too long for headers, the words of callers and upstreams among it, is cut, for a neighbour in the same process too.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let mut metadata = HashMap::new();
        if let Some(param) = failure.param {
            metadata.insert("param".to_owned(), brief(param, MOST_NAME));
        }
        for (name, value) in failure.headers {
            // A part of a number would be another one.
            if value.len() <= MOST_NAME {
                metadata.insert(format!("{HEADER}{name}"), value);
            }
        }
        let mut details =
            ErrorDetails::with_error_info(failure.reason.as_str_name(), DOMAIN, metadata);
        if let Some(after) = failure.retry_after {
            details.set_retry_info(Some(after));
        }
        let message = brief(failure.message, MOST_MESSAGE);
        Self::with_error_details(failure.reason.grpc_code(), message, details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_failure_says_its_status_fits_into_a_clients_headers() {
        for word in ["x".repeat(100_000), "\u{d55c}".repeat(30_000)] {
            let failure = Failure::new(Reason::UnsupportedParameter, word.clone())
                .param(word.clone())
                .header("x-ratelimit-reset-requests", word.clone())
                .header("x-ratelimit-limit-requests", "60");
            let status = Status::from(failure);
            let back = Failure::from_status(&status);
            let param = back.param.unwrap();
            for (said, most) in [(&back.message, MOST_MESSAGE), (&param, MOST_NAME)] {
                assert!(most - 3 < said.len() + 3 && said.len() <= most, "{said}");
                assert!(word.starts_with(said.strip_suffix('…').unwrap()));
            }
            let limit = ("x-ratelimit-limit-requests".to_owned(), "60".to_owned());
            assert_eq!(back.headers, [limit]);
            // As HTTP/2 counts them (RFC 9113, 6.5.2).
            let headers = status.into_http::<()>().headers().clone();
            let sizes = headers
                .iter()
                .map(|(name, value)| name.as_str().len() + value.len() + 32);
            let size: usize = sizes.sum();
            assert!(size < 12 * 1_024, "{size}");
        }
    }

    #[test]
    fn every_reason_has_its_name_as_wire_code_and_survives_the_wire() {
        let mut seen = 0;
        for reason in reasons() {
            seen += 1;
            let name = reason.as_str_name();
            let expected = name.trim_start_matches("REASON_").to_lowercase();
            assert_eq!(reason.wire_code(), expected);
            let failure = Failure::new(reason, "because")
                .param("model")
                .retry_after(Duration::from_millis(1_500))
                .header("x-ratelimit-limit-requests", "60")
                .header("x-ratelimit-remaining-requests", "0");
            let back = Failure::from_status(&Status::from(failure.clone()));
            assert_eq!(back, failure);
            assert_eq!(back.retry_after_secs(), Some(2));
            let refusal = matches!(reason.http_status(), 402 | 429 | 503);
            let waits = Failure::new(reason, "because").retry_after_secs();
            assert_eq!(waits.is_some(), refusal, "{reason:?}");
        }
        assert_eq!(seen, 31);
    }

    #[test]
    fn a_connection_that_broke_is_a_part_that_is_gone() {
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let failure = Failure::from_status(&Status::from_error(Box::new(reset)));
        assert_eq!(failure.reason, Reason::Unavailable);
        let said = Failure::from_status(&Status::internal("by a peer that lives"));
        assert_eq!(said.reason, Reason::Internal);
    }

    #[test]
    fn a_foreign_status_never_shows_its_text_when_it_is_about_transport() {
        let status = Status::unavailable("tcp connect error to 10.1.2.3:443");
        let failure = Failure::from_status(&status);
        assert_eq!(failure.reason, Reason::Unavailable);
        assert!(!failure.message.contains("10.1.2.3"));
        assert_eq!(failure.retry_after_secs(), Some(1));
    }
}
