//! The bounded way from a request's task to the RPC that carries its answer.
//!
//! One writer (the task), one reader (the RPC's response stream). The writer waits while its own bytes or the whole
//! forwarder's are over their bounds, so a slow reader slows its own upstream and no one else's (SPEC FWD-2). Dropping the
//! reader never drops the task: it only tells it to stop.
//!
//! Invariants: at most `limit` bytes wait, or one message if that alone is larger; every byte that waits is counted in
//! the forwarder's [`Buffers`]; a reason to stop, once given, stays.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::{Stream, task::AtomicWaker};
use parking_lot::Mutex;
use switchboard_proto::inference::v1::RelayResponse;
use tonic::Status;

/// Why a request is not to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The caller went away, or takes nothing any more.
    Left,
    /// The request's total time is over.
    Deadline,
    /// The forwarder shuts down and its grace is over.
    Shutdown,
}

impl Stop {
    const fn code(self) -> u8 {
        match self {
            Self::Left => 1,
            Self::Deadline => 2,
            Self::Shutdown => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Left),
            2 => Some(Self::Deadline),
            3 => Some(Self::Shutdown),
            _ => None,
        }
    }
}

/// Bytes that wait in all pipes and holds of a forwarder together.
#[derive(Debug)]
pub(crate) struct Buffers {
    used: AtomicUsize,
    limit: usize,
}

impl Buffers {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
        })
    }

    /// Bytes that wait now.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether new streams are to be refused and reads to pause.
    pub(crate) fn full(&self) -> bool {
        self.used() >= self.limit
    }

    fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A counted share of [`Buffers`]; gives it back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    buffers: Arc<Buffers>,
    bytes: usize,
}

impl Share {
    pub(crate) fn none(buffers: &Arc<Buffers>) -> Self {
        Self {
            buffers: Arc::clone(buffers),
            bytes: 0,
        }
    }

    /// Counts `bytes` from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.buffers.add(bytes);
        self.buffers.sub(self.bytes);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.buffers.sub(self.bytes);
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    stop: AtomicU8,
    reader: AtomicWaker,
    writer: AtomicWaker,
    buffers: Arc<Buffers>,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Result<RelayResponse, Status>>,
    bytes: usize,
    /// The writer is done.
    ended: bool,
}

/// The task's end.
#[derive(Debug)]
pub(crate) struct Writer(Arc<Shared>);

/// The RPC's end.
#[derive(Debug)]
pub(crate) struct Reader(Arc<Shared>);

/// Lets others stop the writer.
#[derive(Clone, Debug)]
pub(crate) struct Stopper(Arc<Shared>);

/// A pipe in which `limit` bytes may wait.
pub(crate) fn pipe(limit: usize, buffers: &Arc<Buffers>) -> (Writer, Reader) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        stop: AtomicU8::new(0),
        reader: AtomicWaker::new(),
        writer: AtomicWaker::new(),
        buffers: Arc::clone(buffers),
        limit,
    });
    (Writer(Arc::clone(&shared)), Reader(shared))
}

impl Shared {
    fn stop(&self, why: Stop) {
        let first = self
            .stop
            .compare_exchange(0, why.code(), Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            self.writer.wake();
        }
    }
}

impl Stopper {
    /// Tells the writer to stop. The first reason stays.
    pub(crate) fn stop(&self, why: Stop) {
        self.0.stop(why);
    }
}

impl Writer {
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.0))
    }

    /// Ready when there is a reason to stop.
    pub(crate) fn poll_stop(&self, cx: &Context<'_>) -> Poll<Stop> {
        let read = || Stop::from_code(self.0.stop.load(Ordering::Acquire));
        if let Some(stop) = read() {
            return Poll::Ready(stop);
        }
        self.0.writer.register(cx.waker());
        read().map_or(Poll::Pending, Poll::Ready)
    }

    /// Ready when a message may be pushed. Register through [`Writer::poll_stop`] first: both wake the same task.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.0.state.lock();
        state.queue.is_empty() || (state.bytes < self.0.limit && !self.0.buffers.full())
    }

    /// Adds a message; whether there is room is the caller's to ask.
    pub(crate) fn push(&self, message: RelayResponse) {
        let bytes = message.frame.len();
        self.0.buffers.add(bytes);
        let mut state = self.0.state.lock();
        state.bytes += bytes;
        state.queue.push_back(Ok(message));
        drop(state);
        self.0.reader.wake();
    }

    /// Ends the answer, with a status if it failed.
    pub(crate) fn close(&self, failure: Option<Status>) {
        let mut state = self.0.state.lock();
        if !state.ended {
            state.ended = true;
            state.queue.extend(failure.map(Err));
        }
        drop(state);
        self.0.reader.wake();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close(Some(Status::internal(
            "the request ended without an answer",
        )));
    }
}

impl Stream for Reader {
    type Item = Result<RelayResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.reader.register(cx.waker());
        let mut state = self.0.state.lock();
        match state.queue.pop_front() {
            Some(item) => {
                let bytes = item.as_ref().map_or(0, |message| message.frame.len());
                state.bytes -= bytes;
                drop(state);
                self.0.buffers.sub(bytes);
                self.0.writer.wake();
                Poll::Ready(Some(item))
            }
            None if state.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.stop(Stop::Left);
        let mut state = self.0.state.lock();
        state.queue.clear();
        self.0.buffers.sub(std::mem::take(&mut state.bytes));
        // Whatever the writer still pushes is dropped with the pipe; `stop` keeps it short.
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.buffers.sub(self.state.get_mut().bytes);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    fn frame(len: usize) -> RelayResponse {
        RelayResponse {
            frame: Bytes::from(vec![b'x'; len]),
            ..RelayResponse::default()
        }
    }

    #[tokio::test]
    async fn the_writer_waits_when_its_bytes_are_over_the_bound_and_one_large_message_passes() {
        let buffers = Buffers::new(1_000);
        let (writer, mut reader) = pipe(10, &buffers);
        assert!(writer.has_room());
        writer.push(frame(500));
        assert!(!writer.has_room());
        assert_eq!(buffers.used(), 500);
        assert_eq!(reader.next().await.unwrap().unwrap().frame.len(), 500);
        assert!(writer.has_room());
        assert_eq!(buffers.used(), 0);
    }

    #[tokio::test]
    async fn over_the_forwarders_bound_each_pipe_still_carries_one_message() {
        let buffers = Buffers::new(100);
        let (one, _one) = pipe(1_000, &buffers);
        let (two, _two) = pipe(1_000, &buffers);
        one.push(frame(100));
        assert!(!one.has_room());
        assert!(two.has_room());
        two.push(frame(1));
        assert!(!two.has_room());
    }

    #[tokio::test]
    async fn a_reader_that_goes_stops_the_writer_and_gives_its_bytes_back() {
        let buffers = Buffers::new(100);
        let (writer, reader) = pipe(10, &buffers);
        writer.push(frame(7));
        let stopped = std::future::poll_fn(|cx| writer.poll_stop(cx));
        let mut stopped = std::pin::pin!(stopped);
        assert!(stopped.as_mut().now_or_never().is_none());
        drop(reader);
        assert_eq!(stopped.await, Stop::Left);
        assert_eq!(buffers.used(), 0);
        writer.push(frame(5));
        writer.stopper().stop(Stop::Shutdown);
        drop(writer);
        assert_eq!(buffers.used(), 0);
    }

    #[tokio::test]
    async fn a_writer_that_vanishes_is_an_error_and_one_that_closes_is_an_end() {
        let buffers = Buffers::new(100);
        let (writer, mut reader) = pipe(10, &buffers);
        writer.push(frame(1));
        drop(writer);
        assert!(reader.next().await.unwrap().is_ok());
        assert!(reader.next().await.unwrap().is_err());
        let (writer, mut reader) = pipe(10, &buffers);
        writer.close(None);
        drop(writer);
        assert!(reader.next().await.is_none());
    }
}
