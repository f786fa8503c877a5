//! Slots and rates while the store is away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::backlog::{Backlog, End};
use crate::{
    admission::{
        AccountGrant, AccountTake, Admission, BucketSpec, BucketState, Place, Pool, Release,
        Renewal, Renewed, TenantGrant, TenantTake,
    },
    bucket::{Ask, Bucket},
    config::{Policies, Policy},
    error::Error,
    memory::admission::MemoryAdmission,
    redis::admission::RedisAdmission,
};

/// See [`Admission`].
pub(crate) struct GuardedAdmission {
    pub(crate) store: RedisAdmission,
    pub(crate) local: MemoryAdmission,
    /// Whether anything may be held in `local`.
    pub(crate) local_used: AtomicBool,
    pub(crate) policies: Policies,
    pub(crate) backlog: Arc<Backlog>,
}

fn full(specs: &[BucketSpec]) -> Vec<BucketState> {
    specs
        .iter()
        .map(|spec| Bucket::default().state(&Ask::new(spec, 1)))
        .collect()
}

impl GuardedAdmission {
    /// Which of slots and rates are to be counted here; an error where one is closed.
    fn counted(&self, slots: bool, rates: bool, error: Error) -> Result<(bool, bool), Error> {
        let closed = |asked: bool, policy: Policy| asked && policy == Policy::Closed;
        if closed(slots, self.policies.slots) || closed(rates, self.policies.rates) {
            return Err(error);
        }
        Ok((
            self.policies.slots == Policy::LocalShare,
            self.policies.rates == Policy::LocalShare,
        ))
    }

    fn use_local(&self) -> &MemoryAdmission {
        self.local_used.store(true, Ordering::Release);
        &self.local
    }

    async fn end(&self, releases: &[Release], for_good: bool) {
        if self.local_used.load(Ordering::Acquire) {
            self.local.release_now(releases, for_good);
        }
        let ended = if for_good {
            self.store.release(releases).await
        } else {
            self.store.give_back(releases).await
        };
        if ended.is_err() {
            for release in releases {
                self.backlog.push(End::Release {
                    release: release.clone(),
                    for_good,
                });
            }
        }
    }
}

#[async_trait::async_trait]
impl Admission for GuardedAdmission {
    async fn take_tenant(&self, take: &TenantTake) -> Result<TenantGrant, Error> {
        let error = match self.store.take_tenant(take).await {
            Ok(grant) => return Ok(grant),
            Err(error) => error,
        };
        let (slots, rates) =
            self.counted(!take.slots.is_empty(), !take.buckets.is_empty(), error)?;
        let local = TenantTake {
            slots: if slots {
                take.slots.clone()
            } else {
                Vec::new()
            },
            buckets: if rates {
                take.buckets.clone()
            } else {
                Vec::new()
            },
            ..take.clone()
        };
        let mut grant = self.use_local().take_tenant_now(&local);
        if !rates
            && let TenantGrant::Granted { buckets } | TenantGrant::Refused { buckets, .. } =
                &mut grant
        {
            *buckets = full(&take.buckets);
        }
        Ok(grant)
    }

    async fn take_account(&self, take: &AccountTake) -> Result<AccountGrant, Error> {
        let error = match self.store.take_account(take).await {
            Ok(grant) => return Ok(grant),
            Err(error) => error,
        };
        let (slots, rates) = self.counted(take.limit.is_some(), !take.buckets.is_empty(), error)?;
        let local = AccountTake {
            limit: if slots { take.limit } else { None },
            buckets: if rates {
                take.buckets.clone()
            } else {
                Vec::new()
            },
            ..take.clone()
        };
        let mut grant = self.use_local().take_account_now(&local);
        if !rates
            && let AccountGrant::Granted { buckets, .. } | AccountGrant::Full { buckets, .. } =
                &mut grant
        {
            *buckets = full(&take.buckets);
        }
        Ok(grant)
    }

    async fn mark_waiters(&self, account: &Pool, ttl: Duration) -> Result<(), Error> {
        if self.store.mark_waiters(account, ttl).await.is_err() {
            self.use_local().mark_waiters_now(account, ttl);
        }
        Ok(())
    }

    async fn release(&self, releases: &[Release]) -> Result<(), Error> {
        self.end(releases, true).await;
        Ok(())
    }

    async fn give_back(&self, releases: &[Release]) -> Result<(), Error> {
        self.end(releases, false).await;
        Ok(())
    }

    async fn renew(&self, renewals: &[Renewal], ttl: Duration) -> Result<Renewed, Error> {
        match self.store.renew(renewals, ttl).await {
            Ok(renewed) => Ok(renewed),
            // They count against the local share, so that what runs leaves less room for what comes.
            Err(_) => Ok(self.use_local().renew_now(renewals, ttl)),
        }
    }

    async fn buckets(
        &self,
        place: Place<'_>,
        specs: &[BucketSpec],
    ) -> Result<Vec<BucketState>, Error> {
        let error = match self.store.buckets(place, specs).await {
            Ok(states) => return Ok(states),
            Err(error) => error,
        };
        match self.policies.rates {
            Policy::Closed => Err(error),
            Policy::LocalShare => Ok(self.local.buckets_now(place, specs)),
            Policy::Open => Ok(full(specs)),
        }
    }

    async fn usage(&self, accounts: &[Pool]) -> Result<Vec<u64>, Error> {
        match self.store.usage(accounts).await {
            Ok(used) => Ok(used),
            Err(error) if self.policies.slots == Policy::Closed => Err(error),
            Err(_) => Ok(self.local.usage_now(accounts)),
        }
    }

    async fn held(&self) -> Result<u64, Error> {
        self.store.held().await
    }
}
