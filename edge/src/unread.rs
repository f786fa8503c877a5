//! What a caller gets whose request cannot be read as HTTP (ERR-1).
//!
//! hyper answers such a request itself, before any service runs: a status, `content-length: 0`, and the connection's end; there is
//! no hook for it. So the connection looks at what hyper writes: a write that is exactly such a head, and nothing else, is
//! replaced by an error object with a request id. None of our own answers looks like it: an error of ours has a body, and a
//! body never goes out in front of its head. Where the head shares a write with the end of an answer before it (a caller that sends
//! on without waiting), it stays as hyper wrote it.
//!
//! After it the rest of what the caller sends is read for a while, so that a reset does not overtake the answer.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, Version},
};
use bytes::{Buf as _, Bytes};
use switchboard_common::{
    clock::SharedClock,
    error::{Failure, Reason, ReasonExt as _},
    ids::RequestId,
};
use switchboard_dialects::error::Shape;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

use crate::{
    Config,
    error::{respond, saying},
    observed::Observed,
};

/// hyper's heads for requests that it cannot read are shorter, bytes.
const LONGEST: usize = 256;

/// What every connection knows.
#[derive(Clone)]
pub(crate) struct Manners {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: SharedClock,
    pub(crate) observed: Observed,
}

impl Manners {
    /// The answer to a request over HTTP/2 whose headers are beyond the bounds that HTTP/1.1 keeps while it reads: names, values
    /// and 32 bytes each, as RFC 9113 §6.5.2 counts.
    pub(crate) fn too_many_headers<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if request.version() != Version::HTTP_2 {
            return None;
        }
        let headers = request.headers();
        let bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum();
        if bytes <= self.config.header_bytes && headers.len() <= self.config.header_count {
            return None;
        }
        let failure = Failure::new(Reason::InvalidRequest, self.headers_too_large());
        let id = RequestId::generate(self.clock.now_ms()).to_string();
        // What the path would say of the dialect is not looked at.
        let mut response = respond(&failure, Shape::OpenAi, &id);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("x-request-id", id);
        }
        self.observed.answered("other", response.status().as_u16());
        Some(response)
    }

    fn headers_too_large(&self) -> String {
        let (bytes, count) = (self.config.header_bytes, self.config.header_count);
        format!("the request's headers are larger than {bytes} bytes, or more than {count}")
    }
}

/// A connection that never ends in a bare status.
pub(crate) struct Polite {
    stream: TcpStream,
    manners: Manners,
    /// What is left to write of an answer of ours.
    answer: Bytes,
    /// An answer of ours was given: nothing of hyper's follows it.
    answered: bool,
    lingering: Option<Lingering>,
}

/// Reads on after an answer of ours.
struct Lingering {
    left: u64,
    end: Pin<Box<Sleep>>,
}

impl Polite {
    pub(crate) fn new(stream: TcpStream, manners: Manners) -> Self {
        Self {
            stream,
            manners,
            answer: Bytes::new(),
            answered: false,
            lingering: None,
        }
    }

    fn replace(&mut self, status: StatusCode) {
        let text = match status {
            StatusCode::URI_TOO_LONG => "the request's address is too long".to_owned(),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => self.manners.headers_too_large(),
            _ => "the request's first line or headers are no valid HTTP".to_owned(),
        };
        let failure = Failure::new(Reason::InvalidRequest, text);
        let status = failure.reason.http_status();
        let id = RequestId::generate(self.manners.clock.now_ms()).to_string();
        // Nobody knows in which dialect.
        let body = Shape::OpenAi.body(&saying(&failure, Shape::OpenAi, &id));
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
             x-should-retry: false\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.answer = [head.as_bytes(), &body].concat().into();
        self.answered = true;
        self.manners.observed.answered("other", status);
    }

    /// Writes what is left of an answer of ours.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.answer.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.answer);
            let written = ready!(written)?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.answer.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads on until the caller has ended too, or it was enough.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let config = &self.manners.config;
        let lingering = self.lingering.get_or_insert_with(|| Lingering {
            left: config.refused_bytes,
            end: Box::pin(tokio::time::sleep_until(
                Instant::now() + config.refused_timeout.min(Duration::from_secs(60)),
            )),
        });
        let mut thrown = [0; 4_096];
        while lingering.left > 0 && lingering.end.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut thrown);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    let read = buffer.filled().len() as u64;
                    lingering.left = lingering.left.saturating_sub(read);
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

/// The status of a head that hyper writes for a request that it cannot read; `None`: it is something else.
fn bare(written: &[u8]) -> Option<StatusCode> {
    if written.len() > LONGEST || !written.starts_with(b"HTTP/1.1 4") {
        return None;
    }
    let head = std::str::from_utf8(written)
        .ok()?
        .strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?;
    let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
    let unread = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    );
    let mut empty = false;
    for line in lines {
        match line.split_once(": ")? {
            ("content-length", "0") => empty = true,
            ("connection" | "date", _) => {}
            _ => return None,
        }
    }
    (unread && empty).then_some(status)
}

impl AsyncRead for Polite {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Polite {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(status) = bare(bytes) {
            self.replace(status);
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [alone] = slices {
            return self.poll_write(context, alone);
        }
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(context))?;
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        if self.answered {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_head_of_hypers_is_one() {
        let date = "date: Mon, 30 Nov 2026 00:00:00 GMT\r\n";
        let head = |rest: &str| format!("HTTP/1.1 {rest}");
        for (text, status) in [
            (
                head(&format!(
                    "400 Bad Request\r\ncontent-length: 0\r\n{date}\r\n"
                )),
                Some(400),
            ),
            (
                head(&format!(
                    "431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n{date}\r\n"
                )),
                Some(431),
            ),
            (head("400 Bad Request\r\ncontent-length: 2\r\n\r\n{}"), None),
            (
                head("400 Bad Request\r\nx-request-id: a\r\ncontent-length: 0\r\n\r\n"),
                None,
            ),
            (head("404 Not Found\r\ncontent-length: 0\r\n\r\n"), None),
            (head("400 Bad Request\r\n\r\n"), None),
            (head("200 OK\r\ncontent-length: 0\r\n\r\n"), None),
            (
                "data: HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
                None,
            ),
        ] {
            let found = bare(text.as_bytes()).map(|status| status.as_u16());
            assert_eq!(found, status, "{text}");
        }
    }
}
