//! Settlements on their way into the books (BILL-4): gathered, priced, committed together, acknowledged, told to the state store.
//!
//! Invariants: a settlement is acknowledged after its commit and never before; while the database is away everything waits and
//! nothing is lost; an item that cannot be booked is put aside alone. A crash at any place leaves the hold to the reaper and the
//! settlement to its sender's journal, and the dedup row makes every repetition safe.

mod books;
mod pause;
mod trace;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use switchboard_common::lifecycle::Lifecycle;
use switchboard_proto::billing::v1::Settlement;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::Span;

use crate::{config::Config, reservation::Reservations};
use books::Books;

/// Who is to be told that a settlement is safe.
#[derive(Debug)]
pub(crate) enum Ack {
    /// A stream's place for one answer.
    Stream(mpsc::OwnedPermit<Acked>),
    /// Someone in this process.
    Waiter(oneshot::Sender<()>),
}

/// An answer of a stream.
#[derive(Debug)]
pub(crate) enum Acked {
    Settled(String),
    Touched(Vec<String>),
}

impl Ack {
    fn give(self, id: String) {
        match self {
            Self::Stream(permit) => {
                permit.send(Acked::Settled(id));
            }
            // Whoever waited may have left.
            Self::Waiter(waiter) => {
                let _ = waiter.send(());
            }
        }
    }
}

/// A settlement that waits.
#[derive(Debug)]
pub(crate) struct Job {
    settlement: Settlement,
    ack: Ack,
    came: Instant,
    span: Span,
}

/// Takes settlements in.
#[derive(Clone, Debug)]
pub(crate) struct Settler {
    queue: mpsc::Sender<Job>,
    /// When the database was last seen to be back, Unix milliseconds; 0: it was never away.
    recovered_ms: Arc<AtomicI64>,
}

/// The service is stopping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed;

impl Settler {
    /// Starts the one task that commits.
    pub(crate) fn start(
        config: &Config,
        reservations: Reservations,
        lifecycle: &Lifecycle,
    ) -> Self {
        let (queue, jobs) = mpsc::channel(config.queue);
        let recovered_ms = Arc::new(AtomicI64::new(0));
        let books = Books {
            reservations,
            lifecycle: lifecycle.clone(),
            recovered_ms: Arc::clone(&recovered_ms),
            commit_timeout: config.commit_timeout,
        };
        let (gather, batch) = (config.gather, config.batch);
        lifecycle.spawn("settlements", Box::pin(run(jobs, books, gather, batch)));
        Self {
            queue,
            recovered_ms,
        }
    }

    /// Waits for a place in the queue.
    pub(crate) async fn submit(&self, settlement: Settlement, ack: Ack) -> Result<(), Closed> {
        let job = Job {
            span: trace::settle_span(&settlement),
            settlement,
            ack,
            came: Instant::now(),
        };
        self.queue.send(job).await.map_err(|_| Closed)
    }

    /// When the database was last seen to be back.
    pub(crate) fn recovered_ms(&self) -> i64 {
        self.recovered_ms.load(Ordering::Relaxed)
    }
}

async fn run(mut jobs: mpsc::Receiver<Job>, books: Books, gather: Duration, most: usize) {
    let (stopping, killed) = (books.lifecycle.stopping(), books.lifecycle.killed());
    loop {
        let mut batch = Vec::with_capacity(most);
        tokio::select! {
            biased;
            () = killed.cancelled() => return,
            received = jobs.recv_many(&mut batch, most) => if received == 0 { return },
            () = stopping.cancelled() => {
                // Nothing new comes; what is here is finished.
                jobs.close();
                continue;
            }
        }
        if batch.len() < most && !stopping.is_cancelled() {
            tokio::time::sleep(gather).await;
        }
        while batch.len() < most
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
        books.observe_queue(jobs.len());
        tokio::select! {
            biased;
            () = books.settle(batch) => {}
            () = killed.cancelled() => return,
        }
    }
}
