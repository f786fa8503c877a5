//! A gate at which the upstream waits until the test opens it. It replaces sleeps: the test knows that the upstream
//! has arrived ([`Gate::reached`]) and decides when it goes on.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

/// A gate in a script; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    passes: Semaphore,
    arrived: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner {
            passes: Semaphore::new(0),
            arrived: watch::Sender::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Opens the gate for good: all who wait and all who will come pass.
    pub fn open(&self) {
        self.inner.passes.close();
    }

    /// Lets the next `count` arrivals pass, those that already wait first.
    pub fn let_pass(&self, count: usize) {
        self.inner.passes.add_permits(count);
    }

    /// How many requests have come to the gate so far, passed or not.
    #[must_use]
    pub fn arrived(&self) -> usize {
        *self.inner.arrived.borrow()
    }

    /// Waits until at least `count` requests have come to the gate. It has no deadline of its own.
    pub async fn reached(&self, count: usize) {
        let mut arrived = self.inner.arrived.subscribe();
        // The sender lives in `self`, so this cannot fail while we wait.
        let _ = arrived.wait_for(|n| *n >= count).await;
    }

    pub(crate) async fn wait(&self) {
        self.inner.arrived.send_modify(|n| *n += 1);
        if let Ok(pass) = self.inner.passes.acquire().await {
            pass.forget();
        }
    }
}
