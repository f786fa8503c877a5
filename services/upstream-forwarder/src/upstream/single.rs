//! An HTTP/1.1 connection: one request at a time.
//!
//! It has no task. Whoever sends over it or reads its answer drives it from their own poll, so that a piece of a stream wakes
//! one task instead of two, and all pieces that one read brought come without a turn of the scheduler between them. Nobody
//! drives an idle one: whether it still lives is looked at before it is used, and now and then ([`Single::is_usable`]).

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use hyper_util::rt::TokioIo;
use tokio::task::coop::has_budget_remaining;

use super::{Outgoing, dial::Stream, pool::Open};

/// One read of an HTTP/1.1 upstream brings this much at most, bytes: a stream's bound holds but for one read.
const READ: usize = 32 * 1024;

/// What speaks over the wire; moves on when it is polled.
type Connection = http1::Connection<TokioIo<Box<dyn Stream>>, Outgoing>;

/// See the module's page. Dropped, it is closed.
pub(super) struct Single {
    sender: http1::SendRequest<Outgoing>,
    /// `None`: it ended.
    connection: Option<Box<Connection>>,
    _open: Open,
}

impl Single {
    /// Begins to speak HTTP/1.1.
    ///
    /// # Errors
    /// hyper's, which has none today.
    pub(super) async fn open(stream: Box<dyn Stream>, open: Open) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(READ)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            connection: Some(Box::new(connection)),
            _open: open,
        })
    }

    /// Lets the connection go on.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(ended) = Pin::new(connection).poll(cx)
        {
            self.connection = None;
            if let Err(error) = ended {
                tracing::debug!(%error, "an upstream connection broke");
            }
        }
    }

    /// Drives it until `work`, which only the connection moves on, is done. `work` is polled without a waker: it is looked at
    /// after each turn of the connection, and the connection has the task's.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut work: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut unheard = Context::from_waker(Waker::noop());
        // What is at hand already needs no turn; what one turn without a waker brings needs no waking.
        for turn in 0..3 {
            // A task that has used up its turn is told of nothing in it, not even of what is there: it must be woken for the next.
            let done = match self.connection {
                Some(_) if turn < 2 || has_budget_remaining() => work(self, &mut unheard),
                _ => return work(self, cx),
            };
            if done.is_ready() {
                return done;
            }
            match turn {
                0 => self.drive(&mut unheard),
                1 => self.drive(cx),
                _ => {}
            }
        }
        Poll::Pending
    }

    /// Waits until a request may be sent.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        poll_fn(|cx| self.poll_with(cx, |this, cx| this.sender.poll_ready(cx))).await
    }

    /// Sends a request; gives its answer's head.
    ///
    /// # Errors
    /// There is no answer; the request itself where nothing of it went out.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Outgoing>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| self.poll_with(cx, |_, cx| answer.as_mut().poll(cx))).await
    }

    /// The next piece of the answer's body.
    pub(super) fn poll_body(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.poll_with(cx, |_, cx| Pin::new(&mut *body).poll_frame(cx))
    }

    /// Whether it can carry a request now.
    pub(super) fn is_usable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}
