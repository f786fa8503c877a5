//! An HTTP/1.1 connection: one request at a time.
//!
//! It has no task. Whoever sends over it or reads its answer drives it from their own poll, so that a piece of a stream wakes
//! one task instead of two. While the request is written the answer is looked for, and while the answer is read the request is
//! still written: an upstream may answer before it has read all, and then that is its answer, whatever becomes of the rest.
//! Nobody drives an idle one: whether it still lives is looked at before it is used, and now and then ([`Single::is_usable`]).
//!
//! Invariants: a request is given back only when nothing of it went out; the connection can be used again only when the answer
//! was read to its end, all of the request is out, both sides keep it, and nothing came that was not asked for.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::{Method, Request, Response, Version, header::CONNECTION};
use http_body::Body as _;
use tokio::{
    io::{AsyncRead as _, ReadBuf},
    task::coop::has_budget_remaining,
};

use super::{
    Outgoing,
    dial::Stream,
    http1::{
        Error,
        answer::{self, Body, Progress, names},
        input::Input,
        output::Output,
        request,
    },
    lease::Unsent,
    pool::Open,
};

/// See the module's page. Dropped, it is closed.
pub(super) struct Single {
    stream: Box<dyn Stream>,
    input: Input,
    reading: Reading,
    writing: Writing,
    /// Nothing speaks against another request after this one.
    stays: bool,
    /// The other side's last answer was HTTP/1.0.
    old: bool,
    _open: Open,
}

/// What comes next of the answer.
enum Reading {
    /// Its head, of which so much came; whether its body is left out.
    Head(Progress, bool),
    /// Its body. Read, it is the state between requests.
    Body(Body),
}

/// How far the request is.
enum Writing {
    /// All of it is out.
    Done,
    Going(Output),
    /// The rest of it stays here.
    Failed(io::Error),
}

impl Single {
    /// Begins to speak HTTP/1.1.
    pub(super) fn open(stream: Box<dyn Stream>, open: Open) -> Box<Self> {
        Box::new(Self {
            stream,
            input: Input::default(),
            reading: Reading::Body(Body::Sized(0)),
            writing: Writing::Done,
            stays: true,
            old: false,
            _open: open,
        })
    }

    /// Sends a request; gives its answer's head.
    ///
    /// # Errors
    /// There is no answer; the request itself where nothing of it went out.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<()>, Unsent> {
        if let Err(error) = poll_fn(|cx| self.poll_ready(cx)).await {
            return Err(Unsent::Back(Box::new(request), error.into()));
        }
        let (parts, mut body) = request.into_parts();
        body.begin();
        let length = body.size_hint().exact().unwrap_or_default();
        let head = request::encode(&parts, length, self.old);
        self.stays = !names(&parts.headers, &CONNECTION, "close");
        self.writing = Writing::Going(Output::new(head, body));
        self.reading = Reading::Head(Progress::default(), parts.method == Method::HEAD);
        let answer = poll_fn(|cx| self.poll_head(cx)).await;
        answer.map_err(|error| Unsent::Lost(error.into()))
    }

    /// Waits until it is known whether a request may be sent.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.is_idle() {
            return Poll::Ready(Err(Error::Closed));
        }
        // A task that has used up its turn is told of nothing in it, not even of what is there, and woken for the next.
        let told = has_budget_remaining();
        match self.poll_unasked(cx) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending if told => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Error>> {
        self.write(cx);
        while let Reading::Head(progress, bodiless) = &mut self.reading {
            if let Some(answer) = answer::read(self.input.bytes(), progress, *bodiless)? {
                self.stays &= answer.stays;
                self.old = answer.head.version() == Version::HTTP_10;
                self.reading = Reading::Body(answer.body);
                return Poll::Ready(Ok(answer.head));
            }
            let read = ready!(self.input.poll_fill(&mut *self.stream, cx));
            if matches!(read, Ok(1..)) {
                continue;
            }
            if !progress.is_none() {
                return Poll::Ready(Err(Error::HeadCut));
            }
            // Why the request could not be written says more than that nothing came after it.
            return Poll::Ready(Err(
                match std::mem::replace(&mut self.writing, Writing::Done) {
                    Writing::Failed(error) => error.into(),
                    _ => read.err().map_or(Error::Incomplete, Error::Io),
                },
            ));
        }
        Poll::Ready(Err(Error::Incomplete))
    }

    /// The next piece of the answer's body: all that one read brought.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.write(cx);
        while let Reading::Body(body) = &mut self.reading {
            match body.take(self.input.bytes()) {
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(None) if body.is_read() => break,
                Ok(None) => {}
                Err(error) => return self.fail(error),
            }
            match ready!(self.input.poll_fill(&mut *self.stream, cx)) {
                Ok(1..) => {}
                Ok(0) => {
                    if let Err(error) = body.close() {
                        return self.fail(error);
                    }
                }
                Err(error) => return self.fail(error.into()),
            }
        }
        Poll::Ready(None)
    }

    fn fail<T>(&mut self, error: Error) -> Poll<Option<Result<T, Error>>> {
        self.stays = false;
        Poll::Ready(Some(Err(error)))
    }

    /// Lets the request go on.
    fn write(&mut self, cx: &mut Context<'_>) {
        if let Writing::Going(output) = &mut self.writing
            && let Poll::Ready(written) = output.poll_write(&mut *self.stream, cx)
        {
            self.writing = match written {
                Ok(()) => Writing::Done,
                Err(error) => Writing::Failed(error),
            };
        }
    }

    /// The answer was read to its end.
    pub(super) fn is_read(&self) -> bool {
        matches!(&self.reading, Reading::Body(body) if body.is_read())
    }

    fn is_idle(&self) -> bool {
        let written = matches!(self.writing, Writing::Done);
        self.stays && written && self.is_read() && self.input.is_empty()
    }

    /// Whether it can carry a request now.
    pub(super) fn is_usable(&mut self) -> bool {
        if !self.is_idle() {
            return false;
        }
        self.input.release();
        match self.poll_unasked(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => true,
            Poll::Ready(Error::Closed) => false,
            Poll::Ready(error) => {
                tracing::debug!(%error, "an upstream connection broke");
                false
            }
        }
    }

    /// Waits for what ends an idle connection.
    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room));
        self.stays = false;
        Poll::Ready(match read {
            Ok(()) if room.filled().is_empty() => Error::Closed,
            Ok(()) => Error::Unasked,
            Err(error) => error.into(),
        })
    }
}
