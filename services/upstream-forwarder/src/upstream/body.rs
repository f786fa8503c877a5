//! A request's body that notes when the connection took it.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// What is known of a sending, by those who wait for its answer.
#[derive(Debug)]
pub(crate) struct Sent {
    began: Instant,
    /// Microseconds after `began` at which a connection was there, plus one; 0: not yet.
    connected: AtomicU64,
    all: AtomicBool,
}

impl Sent {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            connected: AtomicU64::new(0),
            all: AtomicBool::new(false),
        })
    }

    /// When a connection was there.
    pub(crate) fn connected(&self) -> Option<Instant> {
        let after = self.connected.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.began + std::time::Duration::from_micros(after))
    }

    /// The connection took the body's last byte.
    pub(crate) fn all(&self) -> bool {
        self.all.load(Ordering::Acquire)
    }
}

/// See the module's page.
pub(crate) struct Outgoing {
    bytes: Option<Bytes>,
    sent: Arc<Sent>,
    /// Runs when the connection took the last byte.
    then: Option<Box<dyn FnOnce() + Send>>,
}

impl Outgoing {
    pub(crate) fn new(bytes: Bytes, sent: Arc<Sent>, then: Box<dyn FnOnce() + Send>) -> Self {
        Self {
            bytes: Some(bytes),
            sent,
            then: Some(then),
        }
    }

    /// A connection is there and takes it next. It never asks for a body of no bytes: that counts as taken now.
    pub(super) fn begin(&mut self) {
        if self.bytes.as_ref().is_some_and(Bytes::is_empty) {
            self.note();
        }
    }

    fn note(&mut self) {
        let after = self.sent.began.elapsed().as_micros();
        let after = u64::try_from(after).unwrap_or(u64::MAX - 1);
        self.sent.connected.store(after + 1, Ordering::Release);
        self.sent.all.store(true, Ordering::Release);
        if let Some(then) = self.then.take() {
            then();
        }
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing")
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.bytes.take();
        if bytes.is_some() {
            self.note();
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(left as u64)
    }
}
