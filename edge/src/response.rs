//! The answer's bytes to the caller: whole ones with their length, streams as they come.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode},
};
use bytes::Bytes;
use http_body::Frame;
use switchboard_common::{error::Failure, grpc::Answers};
use switchboard_proto::inference::v1::{RelayResponse, ResponseHead};

use crate::{error::Teller, observed::InFlight, relay::Begun};

/// Turns a begun answer into an HTTP one.
pub(crate) fn respond(begun: Begun, mut teller: Teller, in_flight: InFlight) -> Response<Body> {
    let Begun { first, rest } = begun;
    if let Some(progress) = first.progress {
        teller.advance(progress);
    }
    if !first.frame.is_empty() {
        teller.passed();
    }
    let head = first.head.unwrap_or_default();
    // What failed before it began is a document, also where a stream was asked for.
    let tells = head.event_stream || (teller.array() && !first.end);
    // A stream has no length, however short it is: clients and proxies read it as one only then.
    let body = if first.end && !head.event_stream {
        Body::from(first.frame)
    } else {
        Body::new(Relayed {
            first: Some(first.frame).filter(|frame| !frame.is_empty()),
            rest,
            tells,
            ended: first.end,
            teller,
            _in_flight: in_flight,
        })
    };
    let mut response = Response::new(body);
    write_head(&head, &mut response);
    response
}

fn write_head(head: &ResponseHead, response: &mut Response<Body>) {
    *response.status_mut() = u16::try_from(head.status)
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    for header in &head.headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(header.name.as_bytes()),
            HeaderValue::from_maybe_shared(header.value.clone()),
        ) {
            headers.append(name, value);
        }
    }
    if head.event_stream {
        headers.insert("cache-control", HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
}

/// The rest of an answer. Dropping it tells the forwarder that the caller is gone.
struct Relayed {
    first: Option<Bytes>,
    rest: Answers<RelayResponse>,
    /// A failure can be told inside of it.
    tells: bool,
    ended: bool,
    teller: Teller,
    _in_flight: InFlight,
}

impl http_body::Body for Relayed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if this.ended {
            return Poll::Ready(None);
        }
        loop {
            let failure = match this.rest.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(message))) => {
                    this.ended = message.end;
                    if let Some(progress) = message.progress {
                        this.teller.advance(progress);
                    }
                    if !message.frame.is_empty() {
                        this.teller.passed();
                        return Poll::Ready(Some(Ok(Frame::data(message.frame))));
                    }
                    if this.ended {
                        return Poll::Ready(None);
                    }
                    continue;
                }
                Poll::Ready(Some(Err(status))) => Failure::from_status(&status),
                // The forwarder is gone without an end mark.
                Poll::Ready(None) => Failure::new(
                    switchboard_common::error::Reason::UpstreamFailed,
                    "the answer was cut off; what came before is incomplete",
                ),
            };
            this.ended = true;
            return Poll::Ready(Some(if this.tells {
                Ok(Frame::data(this.teller.event(&failure)))
            } else {
                // The status went out: only a broken connection can say that the body is not whole.
                Err(std::io::Error::other("the answer was cut off"))
            }));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.first.is_none()
    }
}
