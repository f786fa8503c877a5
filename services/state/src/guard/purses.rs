//! Holds while the store is away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use switchboard_common::ids::{RequestId, TenantName};

use super::backlog::{Backlog, End};
use crate::{
    config::Policy,
    error::Error,
    memory::purses::{MemoryPurses, held_by},
    purses::{HoldGrant, HoldTake, PurseValue, Purses, StaleHold, TouchItem},
    redis::purses::RedisPurses,
};

/// See [`Purses`].
pub(crate) struct GuardedPurses {
    pub(crate) store: RedisPurses,
    /// Has the last values that this process loaded or settled, of which it may spend its share.
    pub(crate) local: MemoryPurses,
    /// Whether anything may be held in `local`.
    pub(crate) local_used: AtomicBool,
    pub(crate) policy: Policy,
    pub(crate) backlog: Arc<Backlog>,
}

impl GuardedPurses {
    fn use_local(&self) -> &MemoryPurses {
        self.local_used.store(true, Ordering::Release);
        &self.local
    }

    async fn end(&self, tenant: &TenantName, requests: &[RequestId], values: &[PurseValue]) {
        if self.local_used.load(Ordering::Acquire) {
            self.local.settle_now(tenant, requests, values);
        } else if self.policy == Policy::LocalShare && !values.is_empty() {
            self.local.load_now(tenant, values);
        }
        if self.store.settle(tenant, requests, values).await.is_err() {
            self.backlog.push(End::Settle {
                tenant: tenant.clone(),
                requests: requests.to_vec(),
                values: values.to_vec(),
            });
        }
    }
}

#[async_trait::async_trait]
impl Purses for GuardedPurses {
    async fn reserve(&self, take: &HoldTake) -> Result<HoldGrant, Error> {
        let error = match self.store.reserve(take).await {
            Ok(grant) => return Ok(grant),
            Err(error) => error,
        };
        match self.policy {
            Policy::Closed => Err(error),
            Policy::LocalShare => Ok(self.use_local().reserve_now(take)),
            Policy::Open => {
                let (amount_nanos, tokens) = held_by(&take.takes);
                Ok(HoldGrant::Held {
                    amount_nanos,
                    tokens,
                })
            }
        }
    }

    async fn load(&self, tenant: &TenantName, values: &[PurseValue]) -> Result<(), Error> {
        if self.policy == Policy::LocalShare {
            self.local.load_now(tenant, values);
        }
        let loaded = self.store.load(tenant, values).await;
        if self.policy == Policy::Closed {
            return loaded;
        }
        // Lost there, it answers `Unknown` again and the values are loaded then.
        Ok(())
    }

    async fn void(&self, tenant: &TenantName, request: RequestId) -> Result<(), Error> {
        self.end(tenant, &[request], &[]).await;
        Ok(())
    }

    async fn settle(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        self.end(tenant, requests, values).await;
        Ok(())
    }

    async fn touch(&self, touches: &[TouchItem]) -> Result<(), Error> {
        match self.store.touch(touches).await {
            Ok(()) => Ok(()),
            Err(error) if self.policy == Policy::Closed => Err(error),
            Err(_) => {
                self.use_local().touch_now(touches);
                Ok(())
            }
        }
    }

    async fn stale(&self, silent_for_ms: u64, limit: usize) -> Result<Vec<StaleHold>, Error> {
        // Nobody is called silent while nobody can be heard.
        self.store.stale(silent_for_ms, limit).await
    }

    async fn held(&self, tenant: &TenantName) -> Result<i64, Error> {
        match self.store.held(tenant).await {
            Ok(held) => Ok(held),
            Err(error) if self.policy == Policy::Closed => Err(error),
            Err(_) => Ok(self.local.held_now(tenant)),
        }
    }

    async fn open_holds(&self) -> Result<u64, Error> {
        self.store.open_holds().await
    }
}
