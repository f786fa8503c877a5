//! The socket under one connection, shared by the protocol (which reads and writes it) and the script (which must
//! know when bytes have left, and may reset it or write raw bytes).
//!
//! Over HTTP/2 several requests share a connection: the flush count then also moves for the others' frames, so
//! separate writes are a best effort there, and a reset takes the whole connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What the script can do to the connection of its request.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    flushes: AtomicU64,
    flushed: Notify,
    raw: Mutex<Option<Bytes>>,
    dropped: CancellationToken,
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Arc<Self> {
        Arc::new(Self {
            stream,
            flushes: AtomicU64::new(0),
            flushed: Notify::new(),
            raw: Mutex::new(None),
            dropped: CancellationToken::new(),
        })
    }

    /// The number of times that the protocol had handed everything to the kernel.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Waits until what was written after `mark` was taken has been handed to the kernel.
    pub(crate) async fn flushed_since(&self, mark: u64) {
        loop {
            let mut flushed = std::pin::pin!(self.flushed.notified());
            flushed.as_mut().enable();
            if self.flushes() > mark {
                return;
            }
            flushed.await;
        }
    }

    /// Drops the connection: with a TCP reset, or with a clean end of the byte stream.
    pub(crate) fn drop_connection(&self, reset: bool) {
        if reset {
            // The only failure is a socket that is gone already.
            let _ = self.stream.set_zero_linger();
        }
        self.dropped.cancel();
    }

    /// Replaces the answer by raw bytes, after which the connection is closed.
    pub(crate) fn answer_raw(&self, bytes: Bytes) {
        *self.raw.lock() = Some(bytes);
        self.dropped.cancel();
    }

    pub(crate) async fn dropped(&self) {
        self.dropped.cancelled().await;
    }

    pub(crate) async fn write_raw(&self) -> io::Result<()> {
        let Some(mut raw) = self.raw.lock().take() else {
            return Ok(());
        };
        while !raw.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(&raw) {
                Ok(n) => drop(raw.split_to(n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// The protocol's end of a [`Line`].
pub(crate) struct Wire(pub(crate) Arc<Line>);

impl Wire {
    fn write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.stream.poll_write_ready(cx))?;
            match write(&self.0.stream) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.stream.poll_read_ready(cx))?;
            match self.0.stream.try_read_buf(buf) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.flushes.fetch_add(1, Ordering::AcqRel);
        self.0.flushed.notify_waiters();
        Poll::Ready(Ok(()))
    }

    /// The end of the byte stream is sent when the last owner of the line drops it, right after this.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
