//! A request on its way out.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use super::super::Outgoing;

/// A head, and the body behind it. What of the body goes out is asked for when all before it is out.
pub(in crate::upstream) struct Output {
    head: Bytes,
    piece: Bytes,
    body: Outgoing,
}

impl Output {
    pub(in crate::upstream) fn new(head: Vec<u8>, body: Outgoing) -> Self {
        Self {
            head: head.into(),
            piece: Bytes::new(),
            body,
        }
    }

    /// Writes until all of it is out.
    pub(in crate::upstream) fn poll_write<S: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.piece.is_empty()
                && let Some(next) = self.body.next()
            {
                self.piece = next;
            }
            let stream = Pin::new(&mut *stream);
            let written = match (&*self.head, &*self.piece) {
                ([], []) => {
                    self.body.note_all();
                    return stream.poll_flush(cx);
                }
                ([], one) | (one, []) => stream.poll_write(cx, one),
                (head, piece) if stream.is_write_vectored() => {
                    let both = [IoSlice::new(head), IoSlice::new(piece)];
                    stream.poll_write_vectored(cx, &both)
                }
                (head, _) => stream.poll_write(cx, head),
            };
            let written = ready!(written)?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(self.head.len());
            self.head.advance(of_head);
            self.piece.advance(written - of_head);
        }
    }
}
