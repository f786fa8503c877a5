//! Seeing that the store is gone, is back, or lost its memory; and bringing in what waited meanwhile.
//!
//! While calls work, every tick looks whether the store is still the one it was: another `run_id`, or a marker that was
//! emptied away, means that its memory is lost. While they do not, every tick connects anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use switchboard_common::{
    clock::SharedClock,
    ids::{RequestId, TenantName},
    lifecycle::Lifecycle,
};

use super::{
    admission::GuardedAdmission,
    backlog::{Backlog, End},
    purses::GuardedPurses,
};
use crate::{
    config::StateConfig,
    error::Error,
    purses::PurseValue,
    redis::link::{Arguments, Link},
    state::{Breaker, Status, Watch},
};

/// Ends that are brought in at one time.
const BATCH: usize = 1_024;

/// Watches over the store.
pub(crate) struct Recovery {
    link: Arc<Link>,
    clock: SharedClock,
    admission: Arc<GuardedAdmission>,
    purses: Arc<GuardedPurses>,
    backlog: Arc<Backlog>,
    interval: Duration,
    lease_ttl: Duration,
    /// What the store was when it was last seen.
    identity: Mutex<Option<Identity>>,
    losses: AtomicU64,
    recovered_ms: AtomicI64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    run_ids: Vec<String>,
    marker: String,
}

impl Recovery {
    pub(crate) fn new(
        config: &StateConfig,
        link: Arc<Link>,
        clock: SharedClock,
        admission: Arc<GuardedAdmission>,
        purses: Arc<GuardedPurses>,
        backlog: Arc<Backlog>,
    ) -> Self {
        Self {
            link,
            clock,
            admission,
            purses,
            backlog,
            interval: config.probe_interval,
            lease_ttl: config.lease_ttl,
            identity: Mutex::new(None),
            losses: AtomicU64::new(0),
            recovered_ms: AtomicI64::new(0),
        }
    }

    /// The first connection. A store that is away is waited for; one that is unfit is an error.
    pub(crate) async fn begin(&self) -> Result<(), Error> {
        match self.come_back().await {
            Ok(()) | Err(Error::Unavailable(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Looks after the store until the process stops taking work.
    pub(crate) fn watch_over(self: &Arc<Self>, lifecycle: &Lifecycle) {
        let this = Arc::clone(self);
        let stopping = lifecycle.stopping();
        lifecycle.spawn("state probe", async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(this.interval) => {}
                    () = stopping.cancelled() => return,
                }
                this.tick().await;
            }
        });
    }

    async fn tick(&self) {
        let looked = if self.link.is_open() {
            self.come_back().await
        } else {
            self.look().await
        };
        if let Err(error @ Error::Config(_)) = looked {
            tracing::error!(%error, "state store is not used");
        }
    }

    /// Whether the store is still the same, and what waits for it.
    async fn look(&self) -> Result<(), Error> {
        let server = self.link.look().await?;
        server.check()?;
        self.identify(server.run_ids).await?;
        self.bring_in().await?;
        self.hand_over().await
    }

    /// Connects anew, brings in what waited, then lets calls through.
    async fn come_back(&self) -> Result<(), Error> {
        let server = self.link.reconnect().await?;
        server.check()?;
        self.identify(server.run_ids).await?;
        self.bring_in().await?;
        self.hand_over().await?;
        self.recovered_ms
            .store(self.clock.now_ms(), Ordering::Release);
        self.link.close_breaker();
        // What came in between.
        self.bring_in().await?;
        self.hand_over().await
    }

    async fn identify(&self, run_ids: Vec<String>) -> Result<(), Error> {
        let key = format!("{}{{i}}:marker", self.link.prefix);
        let mut arguments = Arguments::default();
        arguments.add(RequestId::generate(self.clock.now_ms()).to_string());
        let marker: String = self
            .link
            .call_anyway(&self.link.scripts.marker, &[&key], &arguments)
            .await?;
        let now = Identity { run_ids, marker };
        let before = self.identity.lock().replace(now.clone());
        if before.is_some_and(|before| before != now) {
            self.losses.fetch_add(1, Ordering::Relaxed);
            self.recovered_ms
                .store(self.clock.now_ms(), Ordering::Release);
            tracing::warn!("state store lost its memory, renewals and touches put it back");
        }
        Ok(())
    }

    /// Brings in the backlog, oldest first.
    async fn bring_in(&self) -> Result<(), Error> {
        loop {
            let mut ends = self.backlog.take(BATCH);
            if ends.is_empty() {
                return Ok(());
            }
            while let Some(end) = ends.first() {
                let (brought, count) = self.bring_in_some(end, &ends).await;
                if let Err(error) = brought {
                    self.backlog.put_back(ends);
                    return Err(error);
                }
                ends.drain(..count);
            }
        }
    }

    /// Brings in the first end, with those after it that go in the same call.
    async fn bring_in_some(&self, first: &End, ends: &[End]) -> (Result<(), Error>, usize) {
        match first {
            End::Release { for_good, .. } => {
                let releases: Vec<_> = ends
                    .iter()
                    .map_while(|end| match end {
                        End::Release {
                            release,
                            for_good: other,
                        } if other == for_good => Some(release.clone()),
                        _ => None,
                    })
                    .collect();
                let ended = self.admission.store.end(&releases, *for_good).await;
                (ended, releases.len())
            }
            End::Settle {
                tenant,
                requests,
                values,
            } => (self.settle(tenant, requests, values).await, 1),
        }
    }

    async fn settle(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        self.purses.store.end(tenant, requests, values).await
    }

    /// Gives the store what was held here meanwhile.
    async fn hand_over(&self) -> Result<(), Error> {
        // Lowered first: whatever comes to be held here from now on raises it again.
        if self.admission.local_used.swap(false, Ordering::AcqRel) {
            let leases = self.admission.local.drain();
            if let Err(error) = self.admission.store.keep(&leases, self.lease_ttl).await {
                self.admission.local_used.store(true, Ordering::Release);
                self.admission.local.renew_now(&leases, self.lease_ttl);
                return Err(error);
            }
        }
        if self.purses.local_used.swap(false, Ordering::AcqRel) {
            let holds = self.purses.local.drain();
            if let Err(error) = self.purses.store.keep(&holds).await {
                self.purses.local_used.store(true, Ordering::Release);
                self.purses.local.touch_now(&holds);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Watch for Recovery {
    fn status(&self) -> Status {
        let open = self.link.is_open();
        Status {
            shared: true,
            breaker: if open { Breaker::Open } else { Breaker::Closed },
            degraded: open,
            failures: self.link.failures(),
            losses: self.losses.load(Ordering::Relaxed),
            recovered_ms: self.recovered_ms.load(Ordering::Acquire),
            backlog: self.backlog.len() as u64,
        }
    }
}
