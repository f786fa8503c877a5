//! An answer's body, and the connection it comes over.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::{Error, lease::Lease};

/// Who has an answer's body.
pub(super) enum Source {
    /// Its connection: HTTP/1.1.
    Single,
    /// A stream of HTTP/2.
    Shared(hyper::body::Incoming),
}

/// See the module's page. Read to its end, it gives its connection back; dropped before, it ends it.
pub(crate) struct Incoming {
    source: Source,
    /// `None`: nothing more comes.
    lease: Option<Box<Lease>>,
}

impl Incoming {
    pub(super) fn new(source: Source, lease: Lease) -> Self {
        let mut incoming = Self {
            source,
            lease: Some(Box::new(lease)),
        };
        incoming.check();
        incoming
    }

    /// The next piece; `None` at the end, and after an error.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(lease) = &mut self.lease else {
            return Poll::Ready(None);
        };
        let next = ready!(match &mut self.source {
            Source::Single => lease.poll_body(cx),
            Source::Shared(body) => poll_data(body, cx),
        });
        match &next {
            Some(Err(_)) => self.lease = None,
            Some(Ok(_)) => self.check(),
            None => self.finish(),
        }
        Poll::Ready(next)
    }

    /// Gives the connection back when nothing more comes.
    fn check(&mut self) {
        let ended = match (&self.source, &self.lease) {
            (Source::Single, Some(lease)) => lease.is_read(),
            (Source::Shared(body), _) => body.is_end_stream(),
            (Source::Single, None) => true,
        };
        if ended {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.finish();
        }
    }
}

/// The next data of an HTTP/2 answer; its trailers mean nothing to us.
fn poll_data(
    body: &mut hyper::body::Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Error>>> {
    loop {
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx)?);
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => return Poll::Ready(Some(Ok(data))),
            Some(Err(_)) => {}
            None => return Poll::Ready(None),
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.poll_piece(cx).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.lease.is_none()
    }
}
