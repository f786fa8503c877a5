//! Errors to callers that none of our handlers wrote (ERR-1): tonic's own for messages that cannot be read, are too long or name
//! no method. Each gets the table's reason and a request id; what has them keeps them.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderValue, Response};
use http_body::{Frame, SizeHint};
use tonic::{Code, Status, body::Body, metadata::MetadataValue};
use tonic_types::StatusExt as _;

use crate::{
    clock::SharedClock,
    error::{DOMAIN, Failure, Reason},
    ids::RequestId,
};

const REQUEST_ID: &str = "x-request-id";

/// Completes the errors of an answer to a caller, at its head and at its end.
#[must_use]
pub fn complete_errors(response: Response<Body>, clock: &SharedClock) -> Response<Body> {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() == Code::Ok => response,
        Some(status) => {
            let (parts, body) = response.into_parts();
            let mut answer = complete(status, None, clock).into_http();
            *answer.extensions_mut() = parts.extensions;
            // An error at the head has no body; whatever there is stays.
            *answer.body_mut() = body;
            answer
        }
        None => {
            let id = response.headers().get(REQUEST_ID).cloned();
            let clock = clock.clone();
            response.map(|body| Body::new(Watched { body, id, clock }))
        }
    }
}

fn complete(status: Status, id: Option<&HeaderValue>, clock: &SharedClock) -> Status {
    let ours = status
        .get_error_details()
        .error_info()
        .is_some_and(|info| info.domain == DOMAIN);
    let mut status = if ours { status } else { by_the_table(&status) };
    if !status.metadata().contains_key(REQUEST_ID) {
        let fresh = || RequestId::generate(clock.now_ms()).to_string();
        let id = match id.and_then(|id| id.to_str().ok()) {
            Some(id) => id.to_owned(),
            None => fresh(),
        };
        if let Ok(value) = MetadataValue::try_from(id) {
            status.metadata_mut().insert(REQUEST_ID, value);
        }
    }
    status
}

/// The table's row for an error that the library wrote. All of ours carry their reason, so `Internal` is what the library says of
/// a message that it cannot read: the caller's fault.
fn by_the_table(status: &Status) -> Status {
    let reason = match status.code() {
        Code::Internal | Code::InvalidArgument | Code::FailedPrecondition => Reason::InvalidRequest,
        Code::OutOfRange => Reason::BodyTooLarge,
        Code::Unimplemented => Reason::MethodNotAllowed,
        Code::Unauthenticated => Reason::InvalidApiKey,
        Code::NotFound => Reason::NotFound,
        Code::Aborted | Code::AlreadyExists => Reason::Conflict,
        Code::Cancelled => Reason::CallerLeft,
        Code::DeadlineExceeded => Reason::UpstreamTimeout,
        Code::Unavailable | Code::ResourceExhausted => Reason::Unavailable,
        _ => Reason::Internal,
    };
    let message = match status.message() {
        "" if reason == Reason::MethodNotAllowed => {
            "there is no such method here; reflection lists those there are"
        }
        message => message,
    };
    let told = Status::from(Failure::new(reason, message));
    let code = match status.code() {
        Code::Internal => told.code(),
        code => code,
    };
    let details = told.details().to_vec().into();
    Status::with_details_and_metadata(code, message, details, status.metadata().clone())
}

/// A body whose trailers may hold an error.
struct Watched {
    body: Body,
    /// As the answer's head has it.
    id: Option<HeaderValue>,
    clock: SharedClock,
}

impl Watched {
    fn trailers(&self, trailers: HeaderMap) -> HeaderMap {
        match Status::from_header_map(&trailers) {
            Some(status) if status.code() != Code::Ok => {
                let mut completed = HeaderMap::new();
                match complete(status, self.id.as_ref(), &self.clock).add_header(&mut completed) {
                    Ok(()) => completed,
                    Err(_) => trailers,
                }
            }
            _ => trailers,
        }
    }
}

impl http_body::Body for Watched {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_trailers() {
                Ok(trailers) => Frame::trailers(self.trailers(trailers)),
                Err(data) => data,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::clock::ManualClock;

    fn completed(response: Response<Body>) -> Response<Body> {
        let clock: SharedClock = ManualClock::at_ms(1_796_000_000_000);
        complete_errors(response, &clock)
    }

    fn assert_told(headers: &HeaderMap, code: Code, reason: Reason) {
        let status = Status::from_header_map(headers).unwrap();
        assert_eq!(status.code(), code);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(
            (info.domain.as_str(), info.reason.as_str()),
            (DOMAIN, reason.as_str_name())
        );
        let id = status.metadata().get(REQUEST_ID).unwrap();
        assert_eq!(id.to_str().unwrap().len(), 36);
        assert!(!status.message().is_empty());
    }

    #[test]
    fn an_error_of_the_librarys_gets_a_reason_and_an_id() {
        for (status, code, reason) in [
            (
                Status::internal("failed to decode Protobuf message"),
                Code::InvalidArgument,
                Reason::InvalidRequest,
            ),
            (
                Status::out_of_range("decoded message length too large"),
                Code::OutOfRange,
                Reason::BodyTooLarge,
            ),
            (
                Status::unimplemented(""),
                Code::Unimplemented,
                Reason::MethodNotAllowed,
            ),
            (
                Status::unavailable("away"),
                Code::Unavailable,
                Reason::Unavailable,
            ),
        ] {
            let answer = completed(status.into_http());
            assert_told(answer.headers(), code, reason);
            assert_eq!(answer.headers()["content-type"], "application/grpc");
        }
    }

    #[test]
    fn what_has_a_reason_and_an_id_keeps_them() {
        let mut status = Status::from(Failure::new(Reason::ModelNotFound, "there is none"));
        let id = "0195b2c0-0000-7000-8000-000000000001";
        status
            .metadata_mut()
            .insert(REQUEST_ID, id.parse().unwrap());
        let answer = completed(status.into_http());
        assert_told(answer.headers(), Code::NotFound, Reason::ModelNotFound);
        assert_eq!(answer.headers()[REQUEST_ID], id);
    }

    #[tokio::test]
    async fn an_error_at_the_end_of_a_stream_has_the_id_of_its_head() {
        let mut trailers = HeaderMap::new();
        Status::internal("cannot be encoded")
            .add_header(&mut trailers)
            .unwrap();
        let stream = http_body_util::Full::new(bytes::Bytes::from_static(b"x"))
            .with_trailers(std::future::ready(Some(Ok(trailers))));
        let id = "0195b2c0-0000-7000-8000-000000000001";
        let mut response = Response::new(Body::new(stream));
        let head = response.headers_mut();
        head.insert(REQUEST_ID, HeaderValue::from_static(id));
        let body = completed(response).into_body().collect().await.unwrap();
        let trailers = body.trailers().unwrap();
        assert_told(trailers, Code::InvalidArgument, Reason::InvalidRequest);
        assert_eq!(trailers[REQUEST_ID], id);
    }
}
