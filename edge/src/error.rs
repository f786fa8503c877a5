//! Why the edge cannot start, and how failures look to callers of OpenAI's dialects (ERR-1, ERR-2).

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, header},
};
use bytes::Bytes;
use switchboard_common::{
    error::{Failure, ReasonExt as _},
    rate_limit::is_limit_header,
};
use switchboard_dialects::error::{render_openai, render_openai_event};

/// Why the edge cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener.
    #[error("{0}")]
    Listen(#[from] std::io::Error),
}

/// A failure as an HTTP answer. The request id is put on by the caller.
pub(crate) fn respond(failure: &Failure) -> Response<Body> {
    let status = failure.reason.http_status();
    let body = render_openai(
        failure.reason.wire_code(),
        status,
        &failure.message,
        failure.param.as_deref(),
    );
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = axum::http::StatusCode::from_u16(status)
        .unwrap_or(axum::http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(secs) = failure.retry_after_secs() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    if failure.reason.sdk_should_retry() == Some(false) && status != 404 {
        headers.insert("x-should-retry", HeaderValue::from_static("false"));
    }
    for (name, value) in &failure.headers {
        // Those of a caller's own limits alone (FLOW-5).
        if is_limit_header(name)
            && let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(value),
            )
        {
            headers.insert(name, value);
        }
    }
    response
}

/// A failure as the last event of a stream whose head went out.
pub(crate) fn event(failure: &Failure) -> Bytes {
    render_openai_event(
        failure.reason.wire_code(),
        failure.reason.http_status(),
        &failure.message,
    )
}

#[cfg(test)]
mod tests {
    use switchboard_common::error::Reason;

    use super::*;

    #[test]
    fn a_failure_brings_the_callers_limits_along_and_no_other_header() {
        let failure = Failure::new(Reason::RateLimitExceeded, "full")
            .header("x-ratelimit-remaining-requests", "0")
            .header("x-ratelimit-reset-requests", "1.5s")
            .header("x-ratelimit-broken", "a\r\nb")
            .header("set-cookie", "a=b")
            .header("content-type", "text/html");
        let response = respond(&failure);
        assert_eq!(response.status(), 429);
        let of = |name| response.headers().get(name).map(HeaderValue::as_bytes);
        assert_eq!(of("x-ratelimit-remaining-requests"), Some(&b"0"[..]));
        assert_eq!(of("x-ratelimit-reset-requests"), Some(&b"1.5s"[..]));
        assert_eq!(of("x-ratelimit-broken"), None);
        assert_eq!(of("set-cookie"), None);
        assert_eq!(of("content-type"), Some(&b"application/json"[..]));
    }
}
