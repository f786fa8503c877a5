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

    fn note_connected(&self) {
        let after = self.began.elapsed().as_micros();
        let after = u64::try_from(after).unwrap_or(u64::MAX - 1) + 1;
        let first = self.connected.load(Ordering::Acquire) == 0;
        if first {
            self.connected.store(after, Ordering::Release);
        }
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

/// So much is given at once at most, bytes: each piece is a write of its own.
const PIECE: usize = 256 << 10;
/// So much is kept for the last piece, bytes. What a connection cannot pass on it does not ask more for: where it does not tell
/// when the last byte is out, that of a large body counts as taken only when nearly all of it is.
const LAST: usize = 64 << 10;

/// See the module's page.
pub(crate) struct Outgoing {
    /// What is left; `None`: nothing.
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
            self.sent.note_connected();
            self.note_all();
        }
    }

    /// What the connection takes next; `None`: it has all. When the last piece is out, [`Outgoing::note_all`].
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let mut bytes = self.bytes.take()?;
        self.sent.note_connected();
        let piece = match bytes.len().checked_sub(LAST) {
            Some(before @ 1..) => bytes.split_to(before.min(PIECE)),
            _ => bytes.split_to(bytes.len()),
        };
        if !bytes.is_empty() {
            self.bytes = Some(bytes);
        }
        Some(piece)
    }

    /// The connection took the last byte. What is written down then is off the way of the request itself.
    pub(super) fn note_all(&mut self) {
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
        let piece = self.next();
        if self.bytes.is_none() {
            self.note_all();
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(left as u64)
    }
}
