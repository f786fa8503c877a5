//! The caller's side of a running request: what it gets, when it must get it, and whether it is still there.
//!
//! Everything the pipeline waits for, it waits for through [`Caller::attend`]: while it waits, the caller's departure
//! (FWD-6), the total deadline, and the clock of SPEC FWD-3 (headers and keep-alives at `commit_after`, then every 15 s of
//! silence) are watched. One timer serves all of them and is moved only when it has to ring earlier, so that a chunk
//! costs no timer operation.
//!
//! It knows nothing of upstreams, money or dialects but the one form of a keep-alive.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use pin_project_lite::pin_project;
use switchboard_common::error::Failure;
use switchboard_proto::inference::v1::{RelayResponse, ResponseHead, StreamProgress};
use tokio::{
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

use crate::pipe::{Stop, Stopper, Writer};

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Caller {
    pipe: Writer,
    turn: u32,
    timer: Option<Pin<Box<Sleep>>>,
    /// When the request's total time is over.
    deadline: Instant,
    write_timeout: Duration,
    stream: Option<Stream>,
    /// The head has been sent.
    opened: bool,
    /// A reason to stop that was found here; it stays.
    stopped: Option<Stop>,
    waited: Duration,
}

/// How an event stream is kept alive.
#[derive(Debug)]
struct Stream {
    /// What goes out first.
    head: Option<ResponseHead>,
    /// When the next keep-alive is due.
    due: Option<Instant>,
    /// Silence between keep-alives.
    every: Duration,
    /// What is written then; `None`: nothing can be, only the head goes out.
    keep_alive: Option<&'static [u8]>,
}

impl Stream {
    /// When the keep-alive after something written `now` is due.
    fn next(&self, now: Instant) -> Option<Instant> {
        self.keep_alive.map(|_| now + self.every)
    }
}

/// The inner work took longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

impl Caller {
    /// A caller whose request must end at `deadline`; each write may take `write_timeout`.
    pub(crate) fn new(pipe: Writer, turn: u32, deadline: Instant, write_timeout: Duration) -> Self {
        Self {
            pipe,
            turn,
            timer: None,
            deadline,
            write_timeout,
            stream: None,
            opened: false,
            stopped: None,
            waited: Duration::ZERO,
        }
    }

    /// The model's own times, once they are known.
    pub(crate) fn set_times(&mut self, deadline: Instant, write_timeout: Duration) {
        self.deadline = deadline;
        self.write_timeout = write_timeout;
        self.timer = None;
    }

    /// The answer will be an event stream: `head` goes out with its first bytes, or with the first keep-alive at
    /// `commit_at` (`None`: never), then a keep-alive after each silence of `every`. Without a keep-alive that the caller's
    /// client bears, the head goes out alone and silence stays silence.
    pub(crate) fn expect_stream(
        &mut self,
        head: ResponseHead,
        commit_at: Option<Instant>,
        every: Duration,
        keep_alive: Option<&'static [u8]>,
    ) {
        self.stream = Some(Stream {
            head: Some(head),
            due: commit_at,
            every,
            keep_alive,
        });
        self.timer = None;
    }

    /// Replaces the head while it has not gone out.
    pub(crate) fn set_head(&mut self, head: ResponseHead) {
        if let Some(stream) = &mut self.stream
            && stream.head.is_some()
        {
            stream.head = Some(head);
        }
    }

    /// The head has gone out: the answer's status is fixed.
    pub(crate) fn opened(&self) -> bool {
        self.opened
    }

    /// Until the request's total time is over.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// How long writes waited for the caller.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Lets others stop this request.
    pub(crate) fn stopper(&self) -> Stopper {
        self.pipe.stopper()
    }

    /// Waits for `work` while the caller is there.
    ///
    /// # Errors
    /// Why not to go on. `work` is dropped then.
    pub(crate) fn attend<F: Future>(
        &mut self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, Stop>> {
        let far = self.deadline + Duration::from_secs(3_600);
        // The deadline is checked first and is earlier.
        self.attend_until(far, work)
            .map(|done| done?.map_err(|Elapsed| Stop::Deadline))
    }

    /// Like [`Caller::attend`], for work that has its own limit.
    ///
    /// # Errors
    /// Why not to go on. `work` is dropped then.
    pub(crate) const fn attend_until<F: Future>(
        &mut self,
        limit: Instant,
        work: F,
    ) -> Attend<'_, F> {
        Attend {
            caller: self,
            limit,
            work,
        }
    }

    /// Waits for what the request can do without: so long at most, no longer than the request's total time, and for nobody who
    /// left. A time that is over is no reason to stop: what goes out after it is there already. It keeps no stream alive.
    pub(crate) async fn spare<F: Future>(
        &mut self,
        within: Duration,
        work: F,
    ) -> Option<F::Output> {
        let within = within.min(self.time_left());
        let mut work = pin!(work);
        let there = poll_fn(|cx| match self.poll_stopped(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        });
        tokio::time::timeout(within, there).await.ok().flatten()
    }

    /// Why not to go on, without waiting.
    fn poll_stopped(&mut self, cx: &Context<'_>) -> Poll<Stop> {
        if self.stopped.is_none() {
            match self.pipe.poll_stop(cx) {
                Poll::Ready(stop) => self.stopped = Some(stop),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.stopped.map_or(Poll::Pending, Poll::Ready)
    }

    /// Lets time pass: rings at the first of deadline, limit and keep-alive.
    fn poll_clock<T>(
        &mut self,
        limit: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<T, Elapsed>, Stop>> {
        loop {
            let due = self.stream.as_ref().and_then(|stream| stream.due);
            let next = due.unwrap_or(limit).min(limit).min(self.deadline);
            let timer = match &mut self.timer {
                Some(timer) if !timer.is_elapsed() && timer.deadline() <= next => timer,
                Some(timer) => {
                    timer.as_mut().reset(next);
                    timer
                }
                none => none.insert(Box::pin(sleep_until(next))),
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if now >= self.deadline {
                self.stopped = Some(Stop::Deadline);
                return Poll::Ready(Err(Stop::Deadline));
            }
            if now >= limit {
                return Poll::Ready(Ok(Err(Elapsed)));
            }
            if due.is_some_and(|due| now >= due) {
                self.keep_alive(now);
            }
        }
    }

    /// A sign of life; the head with the first one. Unnecessary while earlier bytes still wait to be taken.
    fn keep_alive(&mut self, now: Instant) {
        let room = self.pipe.has_room();
        let Some(stream) = &mut self.stream else {
            return;
        };
        let headless = stream.head.is_some();
        stream.due = stream.next(now);
        let frame = stream.keep_alive.unwrap_or_default();
        if room && (headless || !frame.is_empty()) {
            self.push(Bytes::from_static(frame), false, None);
        }
    }

    fn push(&mut self, frame: Bytes, end: bool, progress: Option<StreamProgress>) {
        let head = self.stream.as_mut().and_then(|stream| stream.head.take());
        self.opened |= head.is_some();
        self.pipe.push(RelayResponse {
            turn: self.turn,
            head,
            frame,
            end,
            progress,
        });
    }

    /// Passes bytes of an event stream on, as soon as the caller has room for them.
    ///
    /// # Errors
    /// Why not to go on.
    pub(crate) async fn pass(
        &mut self,
        frame: Bytes,
        end: bool,
        progress: Option<StreamProgress>,
    ) -> Result<(), Stop> {
        self.room().await?;
        self.push(frame, end, progress);
        if let Some(stream) = &mut self.stream {
            // The head is out: from now on silence is bridged, also where it may not go out early.
            stream.due = stream.next(Instant::now());
        }
        if end {
            self.pipe.close(None);
        }
        Ok(())
    }

    /// Gives a whole answer, in one message.
    pub(crate) fn answer(&mut self, head: ResponseHead, body: Bytes) {
        self.opened = true;
        self.pipe.push(RelayResponse {
            turn: self.turn,
            head: Some(head),
            frame: body,
            end: true,
            progress: None,
        });
        self.pipe.close(None);
    }

    /// Ends the request with an error: the RPC's status.
    pub(crate) fn fail(&self, failure: Failure) {
        self.pipe.close(Some(failure.into()));
    }

    /// Waits until something may be written. A caller that takes nothing for the write timeout is gone.
    async fn room(&mut self) -> Result<(), Stop> {
        if self.pipe.has_room() && self.stopped.is_none() {
            // Even a fast path must notice that the caller left.
            return poll_fn(|cx| match self.poll_stopped(cx) {
                Poll::Ready(stop) => Poll::Ready(Err(stop)),
                Poll::Pending => Poll::Ready(Ok(())),
            })
            .await;
        }
        let since = Instant::now();
        let limit = since + self.write_timeout;
        let due = self.stream.as_mut().and_then(|stream| stream.due.take());
        let waited = poll_fn(|cx| {
            if let Poll::Ready(stop) = self.poll_stopped(cx) {
                return Poll::Ready(Err(stop));
            }
            if self.pipe.has_room() {
                return Poll::Ready(Ok(Ok(())));
            }
            self.poll_clock(limit, cx)
        })
        .await;
        self.waited += since.elapsed();
        if let Some(stream) = &mut self.stream {
            stream.due = due;
        }
        match waited? {
            Ok(()) => Ok(()),
            Err(Elapsed) => {
                self.stopped = Some(Stop::Left);
                Err(Stop::Left)
            }
        }
    }
}

pin_project! {
    /// Work that is waited for while the caller is there. A future of its own: an `async fn` would keep the room of `work` twice,
    /// and a stream's task is as large as the largest it waits for.
    pub(crate) struct Attend<'a, F> {
        caller: &'a mut Caller,
        limit: Instant,
        #[pin]
        work: F,
    }
}

impl<F: Future> Future for Attend<'_, F> {
    type Output = Result<Result<F::Output, Elapsed>, Stop>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(stop) = this.caller.poll_stopped(cx) {
            return Poll::Ready(Err(stop));
        }
        if let Poll::Ready(done) = this.work.poll(cx) {
            return Poll::Ready(Ok(Ok(done)));
        }
        // A task that has used up its turn is told of no timer in it: work that is always there must not outlast the clock.
        let (caller, limit) = (this.caller, *this.limit);
        pin!(unconstrained(poll_fn(|cx| caller.poll_clock(limit, cx)))).poll(cx)
    }
}

#[cfg(test)]
mod tests;
