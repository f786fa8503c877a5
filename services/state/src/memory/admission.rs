//! Slots, leases and buckets in this process's memory.

use std::{sync::Arc, time::Duration};

use switchboard_common::{clock::SharedClock, ids::TenantName};

use super::{
    place::{Kept, Place as PlaceState, SLOT_RETRY_MS, SlotKey, Taken},
    shards::Shards,
};
use crate::{
    admission::{
        AccountGrant, AccountTake, Admission, BucketSpec, BucketState, LimitKind, Place, Pool,
        Release, Renewal, Renewed, Scope, TenantGrant, TenantTake,
    },
    config::MAX_LEASE_TTL,
    error::Error,
};

/// See [`Admission`].
pub(crate) struct MemoryAdmission {
    clock: SharedClock,
    tenants: Shards<TenantName, PlaceState>,
    pools: Shards<Pool, PlaceState>,
    tombstone_us: i64,
    /// Processes among which every limit is divided.
    share: u64,
    pool_slot: SlotKey,
}

impl MemoryAdmission {
    pub(crate) fn new(clock: SharedClock, tombstone: Duration, share: u64) -> Self {
        Self {
            clock,
            tenants: Shards::new(),
            pools: Shards::new(),
            tombstone_us: micros(tombstone),
            share: share.max(1),
            pool_slot: (Scope::Pool, Arc::from("")),
        }
    }

    /// This process's part of a limit: at least 1, unless the limit itself is 0.
    fn part(&self, limit: u64) -> u64 {
        (limit / self.share).max(limit.min(1))
    }

    pub(crate) fn take_tenant_now(&self, take: &TenantTake) -> TenantGrant {
        let now = self.clock.now_us();
        let slots: Vec<(SlotKey, u64)> = take
            .slots
            .iter()
            .map(|slot| ((slot.scope, Arc::clone(&slot.id)), self.part(slot.limit)))
            .collect();
        let taken = self.tenants.with(&take.tenant, now, |place| {
            place.take(
                (take.request, 0),
                &slots,
                &take.buckets,
                self.share,
                now,
                lease_micros(take.ttl),
            )
        });
        match taken {
            Taken::Granted(buckets) => TenantGrant::Granted { buckets },
            Taken::Refused {
                index,
                kind,
                retry_after_ms,
                buckets,
            } => TenantGrant::Refused {
                index,
                kind,
                retry_after_ms,
                buckets,
            },
            Taken::Gone => TenantGrant::Gone,
        }
    }

    pub(crate) fn take_account_now(&self, take: &AccountTake) -> AccountGrant {
        let now = self.clock.now_us();
        self.pools.with(&take.account, now, |place| {
            place.purge(now);
            if take.newcomer
                && place.has_waiters(now)
                && !place.holds(take.request, take.attempt)
                && !place.is_gone(take.request, take.attempt)
            {
                return AccountGrant::WaitersFirst;
            }
            let limit = take.limit.map_or(u64::MAX, |limit| self.part(limit));
            let taken = place.take(
                (take.request, take.attempt),
                &[(self.pool_slot.clone(), limit)],
                &take.buckets,
                self.share,
                now,
                lease_micros(take.ttl),
            );
            let used = place.used(&self.pool_slot);
            match taken {
                Taken::Granted(buckets) => AccountGrant::Granted { used, buckets },
                Taken::Refused {
                    kind: LimitKind::Slot,
                    buckets,
                    ..
                } => AccountGrant::Full {
                    used,
                    retry_after_ms: SLOT_RETRY_MS,
                    buckets,
                },
                Taken::Refused {
                    index,
                    retry_after_ms,
                    buckets,
                    ..
                } => AccountGrant::RateLimited {
                    index,
                    retry_after_ms,
                    buckets,
                },
                Taken::Gone => AccountGrant::Gone,
            }
        })
    }

    pub(crate) fn mark_waiters_now(&self, account: &Pool, ttl: Duration) {
        let now = self.clock.now_us();
        self.pools
            .with(account, now, |place| place.mark_waiters(now + micros(ttl)));
    }

    pub(crate) fn release_now(&self, releases: &[Release], for_good: bool) {
        let now = self.clock.now_us();
        let tombstone = for_good.then_some(self.tombstone_us);
        for release in releases {
            match release {
                Release::Tenant {
                    tenant,
                    request,
                    correction,
                } => self.tenants.with(tenant, now, |place| {
                    place.release(*request, None, *correction, now, tombstone);
                }),
                Release::Account {
                    account,
                    request,
                    attempt,
                    correction,
                } => self.pools.with(account, now, |place| {
                    place.release(*request, *attempt, *correction, now, tombstone);
                }),
            }
        }
    }

    pub(crate) fn renew_now(&self, renewals: &[Renewal], ttl: Duration) -> Renewed {
        let now = self.clock.now_us();
        let ttl = lease_micros(ttl);
        let mut renewed = Renewed::default();
        for renewal in renewals {
            let kept = match renewal {
                Renewal::Tenant {
                    tenant,
                    request,
                    slots,
                } => self.tenants.with(tenant, now, |place| {
                    place.renew(*request, 0, || slots.clone(), now, ttl)
                }),
                Renewal::Account {
                    account,
                    request,
                    attempt,
                } => self.pools.with(account, now, |place| {
                    place.renew(
                        *request,
                        *attempt,
                        || vec![self.pool_slot.clone()],
                        now,
                        ttl,
                    )
                }),
            };
            match kept {
                Kept::Renewed => {}
                Kept::Restored => renewed.restored += 1,
                Kept::Gone => renewed.gone += 1,
            }
        }
        renewed
    }

    pub(crate) fn buckets_now(&self, place: Place<'_>, specs: &[BucketSpec]) -> Vec<BucketState> {
        let now = self.clock.now_us();
        let look = |place: &mut PlaceState| place.look(specs, self.share, now);
        match place {
            Place::Tenant(tenant) => self.tenants.with(tenant, now, look),
            Place::Pool(pool) => self.pools.with(pool, now, look),
        }
    }

    pub(crate) fn usage_now(&self, accounts: &[Pool]) -> Vec<u64> {
        let now = self.clock.now_us();
        accounts
            .iter()
            .map(|account| {
                self.pools.with(account, now, |place| {
                    place.purge(now);
                    place.used(&self.pool_slot)
                })
            })
            .collect()
    }

    pub(crate) fn held_now(&self) -> u64 {
        let now = self.clock.now_us();
        let mut held = 0;
        self.tenants.each(now, |_, place| held += place.held());
        self.pools.each(now, |_, place| held += place.held());
        held
    }

    /// Takes out every lease, as renewals. Buckets and tombstones stay.
    pub(crate) fn drain(&self) -> Vec<Renewal> {
        let now = self.clock.now_us();
        let mut leases = Vec::new();
        self.tenants.each(now, |tenant, place| {
            leases.extend(place.leases().map(|(request, _, slots)| Renewal::Tenant {
                tenant: tenant.clone(),
                request,
                slots: slots.to_vec(),
            }));
            place.clear();
        });
        self.pools.each(now, |account, place| {
            leases.extend(
                place
                    .leases()
                    .map(|(request, attempt, _)| Renewal::Account {
                        account: account.clone(),
                        request,
                        attempt,
                    }),
            );
        });
        leases
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

fn lease_micros(ttl: Duration) -> i64 {
    micros(ttl.min(MAX_LEASE_TTL))
}

#[async_trait::async_trait]
impl Admission for MemoryAdmission {
    async fn take_tenant(&self, take: &TenantTake) -> Result<TenantGrant, Error> {
        Ok(self.take_tenant_now(take))
    }

    async fn take_account(&self, take: &AccountTake) -> Result<AccountGrant, Error> {
        Ok(self.take_account_now(take))
    }

    async fn mark_waiters(&self, account: &Pool, ttl: Duration) -> Result<(), Error> {
        self.mark_waiters_now(account, ttl);
        Ok(())
    }

    async fn release(&self, releases: &[Release]) -> Result<(), Error> {
        self.release_now(releases, true);
        Ok(())
    }

    async fn give_back(&self, releases: &[Release]) -> Result<(), Error> {
        self.release_now(releases, false);
        Ok(())
    }

    async fn renew(&self, renewals: &[Renewal], ttl: Duration) -> Result<Renewed, Error> {
        Ok(self.renew_now(renewals, ttl))
    }

    async fn buckets(
        &self,
        place: Place<'_>,
        specs: &[BucketSpec],
    ) -> Result<Vec<BucketState>, Error> {
        Ok(self.buckets_now(place, specs))
    }

    async fn usage(&self, accounts: &[Pool]) -> Result<Vec<u64>, Error> {
        Ok(self.usage_now(accounts))
    }

    async fn held(&self) -> Result<u64, Error> {
        Ok(self.held_now())
    }
}
