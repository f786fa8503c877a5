//! One look-up per key at a time, few at once, and a bounded queue before them.

use std::{collections::HashMap, sync::Arc};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use switchboard_common::lifecycle::Lifecycle;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::Entry;
use crate::domain::key::KeyHash;

/// How a look-up ended.
#[derive(Clone, Debug)]
pub(super) enum Landing {
    /// The key's.
    Found(Arc<Entry>),
    /// There is no such key, as of this head of the feed.
    Unknown(u64),
    /// It could not be checked.
    Failed,
}

type Running = HashMap<KeyHash, Shared<BoxFuture<'static, Landing>>>;

/// Look-ups that run or wait for their turn.
pub(super) struct Flights {
    turns: Arc<Semaphore>,
    queue: usize,
    running: Arc<Mutex<Running>>,
}

impl Flights {
    /// `at_once` in the database, `queue` in all.
    pub(super) fn new(at_once: usize, queue: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_once)),
            queue,
            running: Arc::default(),
        }
    }

    /// Waits for one's turn, first come first served.
    pub(super) async fn turn(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.turns).acquire_owned().await
    }

    /// Joins the look-up of this key, or starts it.
    pub(super) async fn board<F>(
        &self,
        hash: KeyHash,
        look_up: impl FnOnce() -> F,
        lifecycle: &Lifecycle,
    ) -> Landing
    where
        F: Future<Output = Landing> + Send + 'static,
    {
        let flight = {
            let mut running = self.running.lock();
            if let Some(flight) = running.get(&hash) {
                flight.clone()
            } else if running.len() >= self.queue {
                return Landing::Failed;
            } else {
                let landed = Landed {
                    running: Arc::clone(&self.running),
                    hash,
                };
                let look_up = look_up();
                let task = lifecycle.spawn("key look-up", async move {
                    // Removed at the end, also of a panic; the caches were written before.
                    let _landed = landed;
                    look_up.await
                });
                let flight = task
                    .map(|ended| ended.unwrap_or(Landing::Failed))
                    .boxed()
                    .shared();
                running.insert(hash, flight.clone());
                flight
            }
        };
        flight.await
    }
}

struct Landed {
    running: Arc<Mutex<Running>>,
    hash: KeyHash,
}

impl Drop for Landed {
    fn drop(&mut self) {
        self.running.lock().remove(&self.hash);
    }
}
