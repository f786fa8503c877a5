//! Errors in the vendors' forms (PROTOCOLS §1.2, §3.3, §7.2, §8).

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use super::Saying;

/// OpenAI's `type` for an HTTP status (SPEC ERR-1).
#[must_use]
pub const fn error_type(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// Anthropic's `error.type` for an HTTP status.
const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// Google's canonical status name for an HTTP status.
const fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        402 | 412 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

#[derive(Serialize)]
struct OpenAi<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'a str,
}

pub(super) fn openai(saying: &Saying<'_>) -> Bytes {
    json(&OpenAi {
        error: OpenAiError {
            message: saying.message,
            kind: error_type(saying.status),
            param: saying.param,
            code: saying.code,
        },
    })
}

#[derive(Serialize)]
struct Anthropic<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: AnthropicError<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
    details: AnthropicDetails<'a>,
}

#[derive(Serialize)]
struct AnthropicDetails<'a> {
    error_code: &'a str,
}

pub(super) fn anthropic(saying: &Saying<'_>) -> Bytes {
    json(&Anthropic {
        kind: "error",
        error: AnthropicError {
            kind: anthropic_type(saying.status),
            message: saying.message,
            details: AnthropicDetails {
                error_code: saying.code,
            },
        },
        request_id: saying.request_id,
    })
}

#[derive(Serialize)]
struct Gemini<'a> {
    error: GeminiError<'a>,
}

#[derive(Serialize)]
struct GeminiError<'a> {
    code: u16,
    message: &'a str,
    status: &'static str,
    details: Vec<GeminiDetail<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "@type")]
enum GeminiDetail<'a> {
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    Info {
        reason: &'a str,
        domain: &'static str,
    },
    #[serde(
        rename = "type.googleapis.com/google.rpc.RetryInfo",
        rename_all = "camelCase"
    )]
    Retry { retry_delay: String },
}

pub(super) fn gemini(saying: &Saying<'_>) -> Bytes {
    let mut details = vec![GeminiDetail::Info {
        reason: saying.code,
        domain: "switchboard",
    }];
    // The dialect has no header for it.
    details.extend(saying.retry_after.map(|after| GeminiDetail::Retry {
        retry_delay: seconds(after),
    }));
    json(&Gemini {
        error: GeminiError {
            code: saying.status,
            message: saying.message,
            status: google_status(saying.status),
            details,
        },
    })
}

/// A `google.protobuf.Duration` in JSON: `46s`, `1.500s`.
fn seconds(after: Duration) -> String {
    match after.subsec_millis() {
        0 => format!("{}s", after.as_secs()),
        millis => format!("{}.{millis:03}s", after.as_secs()),
    }
}

fn json(value: &impl Serialize) -> Bytes {
    let mut out = BytesMut::with_capacity(256).writer();
    // strings into memory: this cannot fail
    let _written = serde_json::to_writer(&mut out, value);
    out.into_inner().freeze()
}
