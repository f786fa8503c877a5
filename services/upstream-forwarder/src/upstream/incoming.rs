//! An answer's body, and the connection it comes over.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::lease::Lease;

/// See the module's page. Read to its end, it gives its connection back; dropped before, it ends it.
pub(crate) struct Incoming {
    body: hyper::body::Incoming,
    lease: Option<Box<Lease>>,
}

impl Incoming {
    pub(super) fn new(body: hyper::body::Incoming, lease: Lease) -> Self {
        let mut incoming = Self {
            body,
            lease: Some(Box::new(lease)),
        };
        incoming.check();
        incoming
    }

    /// Gives the connection back when nothing more comes.
    fn check(&mut self) {
        if self.body.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.finish();
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.check();
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let frame = ready!(match &mut this.lease {
            Some(lease) => lease.poll_body(&mut this.body, cx),
            // Read to its end.
            None => Pin::new(&mut this.body).poll_frame(cx),
        });
        if frame.is_none() {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
