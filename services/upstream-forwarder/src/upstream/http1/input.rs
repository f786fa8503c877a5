//! What was read of a connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{BufMut as _, BytesMut};
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

use super::READ;

/// Room for the first read, bytes: enough for most answers that are one document, and for what a slow stream brings at once.
const FIRST: usize = 8 << 10;

/// Reads into room of its own, and pieces are cut out of it. A connection on which nothing comes has none: thousands of
/// slow streams may be open (PERF-3).
pub(in crate::upstream) struct Input {
    bytes: BytesMut,
    /// Room for the next read: more once one filled it.
    room: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            bytes: BytesMut::new(),
            room: FIRST,
        }
    }
}

impl Input {
    /// What was read and not taken out yet.
    pub(in crate::upstream) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    pub(in crate::upstream) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Gives unused room back.
    pub(in crate::upstream) fn release(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
    }

    /// Reads once; gives how much, 0 at the connection's end.
    pub(in crate::upstream) fn poll_fill<S: AsyncRead + Unpin + ?Sized>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        let room = (self.bytes.capacity() - self.bytes.len()).min(READ);
        let mut within = (&mut self.bytes).limit(room);
        let read = poll_read_buf(Pin::new(stream), cx, &mut within);
        match &read {
            Poll::Ready(Ok(read)) if *read == room => self.room = READ,
            Poll::Ready(Ok(read)) if *read < FIRST => self.room = FIRST,
            Poll::Ready(_) => {}
            Poll::Pending => self.release(),
        }
        read
    }

    /// A small rest of room would make for small reads.
    fn make_room(&mut self) {
        let spare = self.bytes.capacity() - self.bytes.len();
        if spare >= self.room / 4 || self.bytes.try_reclaim(self.room) {
            return;
        }
        if self.bytes.is_empty() {
            self.bytes = BytesMut::with_capacity(self.room);
        } else {
            self.bytes.reserve(self.room);
        }
    }
}
