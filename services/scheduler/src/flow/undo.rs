//! What a call took and has to give back when it is dropped: the caller hung up, the deadline passed, the handler failed.
//!
//! A `Drop` cannot wait for the store, so it leaves what is to be released with [`Returns`], which one task empties in batches.
//! Bounded by the calls in progress.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use switchboard_common::ids::RequestId;
use switchboard_state::admission::{Correction, Pool, Release};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::core::Core;

/// What is to be released.
#[derive(Default)]
pub struct Returns {
    waiting: Mutex<Vec<Release>>,
    notify: Notify,
    /// Calls that may still leave something.
    calls: AtomicUsize,
    /// The last of them is waited for.
    ending: AtomicBool,
}

/// Releases what was taken, unless it is disarmed.
pub struct Undo<'a> {
    core: &'a Core,
    /// What to release.
    pub releases: Vec<Release>,
}

impl<'a> Undo<'a> {
    /// Nothing is taken yet.
    #[must_use]
    pub fn new(core: &'a Core) -> Self {
        core.returns.calls.fetch_add(1, Ordering::AcqRel);
        Self {
            core,
            releases: Vec::new(),
        }
    }

    /// A pool is asked for a slot.
    pub fn pool(&mut self, pool: Pool, request: RequestId, attempt: u32) {
        self.releases.push(Release::Account {
            account: pool,
            request,
            attempt: Some(attempt),
            correction: Correction::Refund,
        });
    }

    /// The pool asked last gave nothing.
    pub fn pool_gave_nothing(&mut self) {
        self.releases.pop();
    }

    /// All of it stays.
    pub fn keep(mut self) {
        self.releases.clear();
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let returns = &self.core.returns;
        let something = !self.releases.is_empty();
        if something {
            returns.waiting.lock().append(&mut self.releases);
        }
        let last = returns.calls.fetch_sub(1, Ordering::SeqCst) == 1;
        if something || (last && returns.ending.load(Ordering::SeqCst)) {
            returns.notify.notify_one();
        }
    }
}

impl Core {
    /// Releases what dropped calls left, until the process stops and no call is left, or until it is killed.
    pub async fn give_returns(&self, stopping: &CancellationToken, killed: &CancellationToken) {
        let mut told = false;
        loop {
            let calls = self.returns.calls.load(Ordering::SeqCst);
            let releases = std::mem::take(&mut *self.returns.waiting.lock());
            if !releases.is_empty() {
                if let Err(error) = self.admission.release(&releases).await {
                    tracing::warn!(%error, "leases of dropped calls end by themselves");
                }
                self.freed(&releases).await;
                continue;
            }
            if told && calls == 0 {
                return;
            }
            tokio::select! {
                () = self.returns.notify.notified() => {}
                () = stopping.cancelled(), if !told => {
                    told = true;
                    self.returns.ending.store(true, Ordering::SeqCst);
                }
                () = killed.cancelled() => return,
            }
        }
    }

    /// Wakes who waits for what was released, here and elsewhere.
    pub async fn freed(&self, releases: &[Release]) {
        let mut hint = String::new();
        for release in releases {
            match release {
                Release::Tenant { tenant, .. } => {
                    self.room.wake_tenant(tenant);
                    hint.push_str("\nt");
                    hint.push_str(tenant.as_str());
                }
                Release::Account {
                    account: Pool::Account(account),
                    ..
                } => {
                    self.room.wake_account(account);
                    hint.push_str("\na");
                    hint.push_str(account.as_str());
                }
                Release::Account { .. } => {}
            }
        }
        let payload = format!("{}{hint}", self.instance.as_simple());
        // A lost hint costs a waiter elsewhere one poll.
        let _ = self.hints.publish(CHANNEL, payload.into()).await;
    }

    /// Hears what other processes released.
    pub async fn hear_hints(self: &Arc<Self>) {
        use futures_util::StreamExt as _;
        let own = self.instance.as_simple().to_string();
        loop {
            let mut hints = self.hints.subscribe(CHANNEL);
            while let Some(hint) = hints.next().await {
                let Ok(text) = std::str::from_utf8(&hint) else {
                    continue;
                };
                let mut lines = text.lines();
                match lines.next() {
                    None => self.room.wake_all(),
                    Some(from) if from == own => {}
                    Some(_) => lines.for_each(|line| match line.split_at_checked(1) {
                        Some(("t", tenant)) => self.room.wake_tenant(&tenant.into()),
                        Some(("a", account)) => self.room.wake_account(&account.into()),
                        _ => {}
                    }),
                }
            }
            tokio::time::sleep(self.config.queue_poll).await;
        }
    }
}

/// Where releases are told.
const CHANNEL: &str = "scheduler.freed";
