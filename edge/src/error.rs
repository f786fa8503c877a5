//! Why the edge cannot start, and how failures look to callers, each in its own dialect's form (ERR-1, ERR-2).

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, header},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use switchboard_common::{
    error::{Failure, ReasonExt as _},
    rate_limit::is_limit_header,
};
use switchboard_dialects::{
    Progress,
    error::{Saying, Shape},
    responses::failed_event,
};
use switchboard_proto::{common::v1::Dialect, inference::v1::StreamProgress};

/// Why the edge cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener.
    #[error("{0}")]
    Listen(#[from] std::io::Error),
}

/// The form of errors in a dialect.
pub(crate) const fn shape(dialect: Dialect) -> Shape {
    match dialect {
        Dialect::AnthropicMessages => Shape::Anthropic,
        Dialect::GeminiGenerate => Shape::Gemini,
        _ => Shape::OpenAi,
    }
}

/// A failure's HTTP status in this form.
fn status(failure: &Failure, shape: Shape) -> u16 {
    shape.status(failure.reason.wire_code(), failure.reason.http_status())
}

pub(crate) fn saying<'a>(failure: &'a Failure, shape: Shape, request_id: &'a str) -> Saying<'a> {
    Saying {
        code: failure.reason.wire_code(),
        status: status(failure, shape),
        message: &failure.message,
        param: failure.param.as_deref(),
        request_id: Some(request_id),
        retry_after: failure.retry_after,
    }
}

/// A failure as an HTTP answer. The header with the request id is put on by the caller.
pub(crate) fn respond(failure: &Failure, shape: Shape, request_id: &str) -> Response<Body> {
    let status = status(failure, shape);
    let body = shape.body(&saying(failure, shape, request_id));
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
    // Exactly, for the clients that read it first.
    if let Some(after) = failure.retry_after
        && let Ok(millis @ 1..) = u64::try_from(after.as_millis())
    {
        headers.insert("retry-after-ms", HeaderValue::from(millis));
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

/// Tells failures inside an answer that has begun.
#[derive(Debug)]
pub(crate) struct Teller {
    dialect: Dialect,
    request_id: String,
    /// The stream is a JSON array, not events.
    array: bool,
    /// Bytes of the answer went out.
    begun: bool,
    /// Where the stream stands, in dialects whose failure has to say so.
    progress: StreamProgress,
}

impl Teller {
    /// `array`: a stream goes out as the elements of a JSON array.
    pub(crate) fn new(dialect: Dialect, request_id: &str, array: bool) -> Self {
        Self {
            dialect,
            request_id: request_id.to_owned(),
            array,
            begun: false,
            progress: StreamProgress::default(),
        }
    }

    /// The stream has come further. What never changes is told once.
    pub(crate) fn advance(&mut self, progress: StreamProgress) {
        if progress.response_id.is_empty() {
            self.progress.next_sequence = progress.next_sequence;
        } else {
            self.progress = progress;
        }
    }

    /// Bytes of the answer went out, in whole events or elements.
    pub(crate) const fn passed(&mut self) {
        self.begun = true;
    }

    /// Whether a stream can say that it failed though it is none of events.
    pub(crate) const fn array(&self) -> bool {
        self.array
    }

    /// A failure as the last event, or element, of a stream whose head went out.
    pub(crate) fn event(&self, failure: &Failure) -> Bytes {
        let saying = saying(failure, shape(self.dialect), &self.request_id);
        if self.array {
            let body = shape(self.dialect).body(&saying);
            let mut out = BytesMut::with_capacity(body.len() + 4);
            out.put_slice(if self.begun { b",\n" } else { b"[" });
            out.put_slice(&body);
            out.put_slice(b"\n]");
            return out.freeze();
        }
        if self.dialect != Dialect::OpenaiResponses {
            return shape(self.dialect).event(&saying);
        }
        let at = &self.progress;
        let at = Progress {
            response_id: at.response_id.clone(),
            created_at: at.created_at,
            model: at.model.clone(),
            next_sequence: at.next_sequence,
        };
        failed_event(&at, &saying)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use switchboard_common::error::Reason;

    use super::*;

    #[test]
    fn an_array_that_breaks_ends_with_the_error_and_stays_json() {
        let failure = Failure::new(Reason::UpstreamFailed, "gone");
        let mut teller = Teller::new(Dialect::GeminiGenerate, "r", true);
        let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
        let whole = json(&teller.event(&failure));
        assert_eq!(whole[0]["error"]["status"], "UNAVAILABLE");
        teller.passed();
        let broken = [b"[{\"a\":1}".as_slice(), &teller.event(&failure)].concat();
        let broken = json(&broken);
        assert_eq!(broken[0]["a"], 1);
        assert_eq!(broken[1]["error"]["message"], "gone");
        assert_eq!(broken[2], serde_json::Value::Null);
    }

    #[test]
    fn anthropics_clients_know_by_529_that_they_cannot_be_served_now() {
        for (reason, shape, status) in [
            (Reason::Unavailable, Shape::Anthropic, 529),
            (Reason::Unavailable, Shape::OpenAi, 503),
            (Reason::Unavailable, Shape::Gemini, 503),
            (Reason::UpstreamCredentialsExhausted, Shape::Anthropic, 503),
            (Reason::UpstreamFailed, Shape::Anthropic, 502),
        ] {
            let response = respond(&Failure::new(reason, "no"), shape, "r");
            assert_eq!(response.status(), status, "{reason:?} {shape:?}");
        }
        let failure = Failure::new(Reason::Unavailable, "no");
        let event = Teller::new(Dialect::AnthropicMessages, "r", false).event(&failure);
        let event = std::str::from_utf8(&event).unwrap();
        assert!(event.contains("overloaded_error"), "{event}");
    }

    #[test]
    fn when_to_come_back_is_told_in_whole_seconds_and_exactly() {
        let told = |after: Duration| {
            let failure = Failure::new(Reason::QueueFull, "full").retry_after(after);
            let response = respond(&failure, Shape::OpenAi, "r");
            let of = |name| {
                let value = response.headers().get(name)?;
                value.to_str().ok().map(str::to_owned)
            };
            (of("retry-after"), of("retry-after-ms"))
        };
        let both = |secs: &str, millis: &str| (Some(secs.to_owned()), Some(millis.to_owned()));
        assert_eq!(told(Duration::from_secs(60)), both("60", "60000"));
        assert_eq!(told(Duration::from_millis(1_200)), both("2", "1200"));
        // Nobody is told to come back at once.
        assert_eq!(told(Duration::ZERO), (Some("1".to_owned()), None));
    }

    #[test]
    fn a_failure_brings_the_callers_limits_along_and_no_other_header() {
        let failure = Failure::new(Reason::RateLimitExceeded, "full")
            .header("x-ratelimit-remaining-requests", "0")
            .header("x-ratelimit-reset-requests", "1.5s")
            .header("x-ratelimit-broken", "a\r\nb")
            .header("set-cookie", "a=b")
            .header("content-type", "text/html");
        let response = respond(&failure, Shape::OpenAi, "r");
        assert_eq!(response.status(), 429);
        let of = |name| response.headers().get(name).map(HeaderValue::as_bytes);
        assert_eq!(of("x-ratelimit-remaining-requests"), Some(&b"0"[..]));
        assert_eq!(of("x-ratelimit-reset-requests"), Some(&b"1.5s"[..]));
        assert_eq!(of("x-ratelimit-broken"), None);
        assert_eq!(of("set-cookie"), None);
        assert_eq!(of("content-type"), Some(&b"application/json"[..]));
    }
}
