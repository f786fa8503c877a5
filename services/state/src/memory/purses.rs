//! Open holds in this process's memory.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use foldhash::fast::RandomState;
use switchboard_common::{
    clock::SharedClock,
    ids::{RequestId, TenantName},
};

use super::{
    admission::micros,
    shards::{Idle, Shards},
    tombstones::Tombstones,
};
use crate::{
    error::Error,
    purses::{
        HoldGrant, HoldTake, PurseId, PurseKind, PurseTake, PurseValue, Purses, StaleHold,
        TouchItem, Unit,
    },
};

/// An ended window is forgotten this long after its end.
pub(crate) const WINDOW_GRACE_MS: i64 = 600_000;
/// Most that is held on one purse at one time: all sums then fit the 53 bits of the script's numbers.
pub(crate) const MAX_HELD: i64 = 9_000_000_000_000_000;

/// See [`Purses`].
pub(crate) struct MemoryPurses {
    clock: SharedClock,
    tenants: Shards<TenantName, Ledger>,
    tombstone_us: i64,
    /// Processes among which every value is divided.
    share: i64,
    draft_max_bytes: usize,
}

/// One tenant's purses and holds.
///
/// Invariant: a purse's `held` is the sum of the holds that name it.
#[derive(Default)]
struct Ledger {
    purses: HashMap<PurseId, Purse, RandomState>,
    holds: HashMap<RequestId, Hold, RandomState>,
    gone: Tombstones<RequestId>,
}

#[derive(Default)]
struct Purse {
    /// Absent: holds were made again before the value came.
    value: Option<(i64, u64)>,
    window_ends_ms: Option<i64>,
    held: i64,
}

struct Hold {
    nanos: i64,
    tokens: i64,
    purses: Vec<(PurseId, Unit)>,
    touched_us: i64,
    draft: Option<Bytes>,
}

impl Hold {
    fn amount(&self, unit: Unit) -> i64 {
        match unit {
            Unit::Nanos => self.nanos,
            Unit::Tokens => self.tokens,
        }
    }
}

impl Ledger {
    /// What a purse has left, and what is held of it.
    fn available(&self, take: &PurseTake, share: i64) -> Option<(i64, i64)> {
        let purse = self.purses.get(&take.purse)?;
        let (value, _) = purse.value?;
        let there = match take.kind {
            PurseKind::Balance => value,
            PurseKind::Budget { limit, .. } => limit.saturating_sub(value),
        };
        // A debt is not shared: it stands before every process.
        let part = if there > 0 { there / share } else { there };
        let left = part.min(MAX_HELD).saturating_sub(purse.held);
        Some((left, purse.held))
    }

    fn reserve(&mut self, take: &HoldTake, share: i64, now_us: i64) -> HoldGrant {
        self.gone.purge(now_us);
        if self.gone.contains(&take.request) {
            return HoldGrant::Gone;
        }
        if let Some(hold) = self.holds.get(&take.request) {
            return HoldGrant::Held {
                amount_nanos: hold.nanos,
                tokens: hold.tokens,
            };
        }
        let mut unknown = Vec::new();
        let mut least = [Least::default(), Least::default()];
        for (index, purse) in take.takes.iter().enumerate() {
            let Some(available) = self.available(purse, share) else {
                unknown.push(index);
                continue;
            };
            least[slot(purse.kind.unit())].meet(index, available, purse);
        }
        if !unknown.is_empty() {
            return HoldGrant::Unknown { indexes: unknown };
        }
        for least in &least {
            if least.any && least.available < least.min {
                return HoldGrant::Short {
                    index: least.index,
                    available: least.available,
                    held: least.held,
                };
            }
        }
        let nanos = least[slot(Unit::Nanos)].amount();
        let tokens = least[slot(Unit::Tokens)].amount();
        self.hold(take.request, &take.takes, nanos, tokens, now_us);
        HoldGrant::Held {
            amount_nanos: nanos,
            tokens,
        }
    }

    fn hold(
        &mut self,
        request: RequestId,
        takes: &[PurseTake],
        nanos: i64,
        tokens: i64,
        now_us: i64,
    ) {
        let hold = Hold {
            nanos,
            tokens,
            purses: takes
                .iter()
                .map(|take| (take.purse.clone(), take.kind.unit()))
                .collect(),
            touched_us: now_us,
            draft: None,
        };
        for take in takes {
            let amount = hold.amount(take.kind.unit());
            match self.purses.get_mut(&take.purse) {
                Some(purse) => purse.held += amount,
                None => {
                    self.purses.insert(
                        take.purse.clone(),
                        Purse {
                            held: amount,
                            ..Purse::default()
                        },
                    );
                }
            }
        }
        self.holds.insert(request, hold);
    }

    fn end(&mut self, request: RequestId, until_us: i64) {
        self.gone.add(request, until_us);
        let Some(hold) = self.holds.remove(&request) else {
            return;
        };
        for (id, unit) in &hold.purses {
            if let Some(purse) = self.purses.get_mut(id) {
                purse.held -= hold.amount(*unit);
            }
        }
    }

    fn load(&mut self, value: &PurseValue) {
        let purse = self.purses.entry(value.purse.clone()).or_default();
        if purse
            .value
            .is_none_or(|(_, version)| version < value.version)
        {
            purse.value = Some((value.value, value.version));
            purse.window_ends_ms = value.window_ends_ms;
        }
    }

    fn touch(&mut self, item: &TouchItem, draft_max_bytes: usize, now_us: i64) {
        self.gone.purge(now_us);
        if self.gone.contains(&item.request) {
            return;
        }
        let tells = !item.takes.is_empty() || !item.draft.is_empty();
        if tells && !self.holds.contains_key(&item.request) {
            let (nanos, tokens) = held_by(&item.takes);
            self.hold(item.request, &item.takes, nanos, tokens, now_us);
        }
        if let Some(hold) = self.holds.get_mut(&item.request) {
            hold.touched_us = now_us;
            if !item.draft.is_empty() && item.draft.len() <= draft_max_bytes {
                hold.draft = Some(item.draft.clone());
            }
        }
    }
}

/// What a touch says is held: purses of one unit hold the same.
pub(crate) fn held_by(takes: &[PurseTake]) -> (i64, i64) {
    let of = |unit: Unit| {
        takes
            .iter()
            .filter(|take| take.kind.unit() == unit)
            .map(|take| take.want.clamp(0, MAX_HELD))
            .min()
            .unwrap_or(0)
    };
    (of(Unit::Nanos), of(Unit::Tokens))
}

impl Idle for Ledger {
    fn sweep(&mut self, now_us: i64) -> bool {
        self.gone.purge(now_us);
        let now_ms = now_us / 1_000;
        self.purses.retain(|_, purse| {
            let over = purse
                .window_ends_ms
                .is_some_and(|ends| ends.saturating_add(WINDOW_GRACE_MS) < now_ms);
            purse.held != 0 || (purse.value.is_some() && !over)
        });
        self.purses.is_empty() && self.holds.is_empty() && self.gone.is_empty()
    }
}

const fn slot(unit: Unit) -> usize {
    match unit {
        Unit::Nanos => 0,
        Unit::Tokens => 1,
    }
}

/// The tightest purse of one unit.
#[derive(Clone, Copy, Default)]
struct Least {
    any: bool,
    index: usize,
    available: i64,
    held: i64,
    want: i64,
    min: i64,
}

impl Least {
    fn meet(&mut self, index: usize, (available, held): (i64, i64), take: &PurseTake) {
        if !self.any || available < self.available {
            self.index = index;
            self.available = available;
            self.held = held;
        }
        let want = take.want.clamp(0, MAX_HELD);
        self.want = if self.any { self.want.min(want) } else { want };
        self.min = if self.any {
            self.min.max(take.min)
        } else {
            take.min
        };
        self.any = true;
    }

    fn amount(&self) -> i64 {
        self.want.min(self.available).max(0)
    }
}

impl MemoryPurses {
    pub(crate) fn new(
        clock: SharedClock,
        tombstone: Duration,
        share: u32,
        draft_max_bytes: usize,
    ) -> Self {
        Self {
            clock,
            tenants: Shards::new(),
            tombstone_us: micros(tombstone),
            share: i64::from(share.max(1)),
            draft_max_bytes,
        }
    }

    pub(crate) fn reserve_now(&self, take: &HoldTake) -> HoldGrant {
        let now = self.clock.now_us();
        self.tenants.with(&take.tenant, now, |ledger| {
            ledger.reserve(take, self.share, now)
        })
    }

    pub(crate) fn load_now(&self, tenant: &TenantName, values: &[PurseValue]) {
        let now = self.clock.now_us();
        self.tenants.with(tenant, now, |ledger| {
            for value in values {
                ledger.load(value);
            }
        });
    }

    pub(crate) fn settle_now(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) {
        let now = self.clock.now_us();
        self.tenants.with(tenant, now, |ledger| {
            ledger.gone.purge(now);
            for request in requests {
                ledger.end(*request, now + self.tombstone_us);
            }
            for value in values {
                ledger.load(value);
            }
        });
    }

    pub(crate) fn touch_now(&self, touches: &[TouchItem]) {
        let now = self.clock.now_us();
        for item in touches {
            self.tenants.with(&item.tenant, now, |ledger| {
                ledger.touch(item, self.draft_max_bytes, now);
            });
        }
    }

    pub(crate) fn stale_now(&self, silent_for_ms: u64, limit: usize) -> Vec<StaleHold> {
        let now = self.clock.now_us();
        let mut stale = Vec::new();
        self.tenants.each(now, |tenant, ledger| {
            for (request, hold) in &ledger.holds {
                let silent_ms = u64::try_from((now - hold.touched_us) / 1_000).unwrap_or(0);
                if silent_ms > silent_for_ms && stale.len() < limit {
                    stale.push(StaleHold {
                        tenant: tenant.clone(),
                        request: *request,
                        draft: hold.draft.clone(),
                        silent_ms,
                        amount_nanos: hold.nanos,
                        tokens: hold.tokens,
                    });
                }
            }
        });
        stale
    }

    pub(crate) fn held_now(&self, tenant: &TenantName) -> i64 {
        let now = self.clock.now_us();
        self.tenants.with(tenant, now, |ledger| {
            ledger.holds.values().map(|hold| hold.nanos).sum()
        })
    }

    pub(crate) fn open_holds_now(&self) -> u64 {
        let mut open = 0;
        self.tenants.each(self.clock.now_us(), |_, ledger| {
            open += ledger.holds.len() as u64;
        });
        open
    }

    /// Takes out all holds, as touches. The values stay.
    pub(crate) fn drain(&self) -> Vec<TouchItem> {
        let mut drained = Vec::new();
        self.tenants.each(self.clock.now_us(), |tenant, ledger| {
            for (request, hold) in ledger.holds.drain() {
                drained.push(TouchItem {
                    tenant: tenant.clone(),
                    request,
                    takes: hold
                        .purses
                        .iter()
                        .map(|(purse, unit)| PurseTake {
                            purse: purse.clone(),
                            kind: match unit {
                                Unit::Nanos => PurseKind::Balance,
                                Unit::Tokens => PurseKind::Budget {
                                    limit: 0,
                                    window_ends_ms: 0,
                                    unit: Unit::Tokens,
                                },
                            },
                            want: hold.amount(*unit),
                            min: 0,
                        })
                        .collect(),
                    draft: hold.draft.unwrap_or_default(),
                });
            }
            for purse in ledger.purses.values_mut() {
                purse.held = 0;
            }
        });
        drained
    }
}

#[async_trait::async_trait]
impl Purses for MemoryPurses {
    async fn reserve(&self, take: &HoldTake) -> Result<HoldGrant, Error> {
        Ok(self.reserve_now(take))
    }

    async fn load(&self, tenant: &TenantName, values: &[PurseValue]) -> Result<(), Error> {
        self.load_now(tenant, values);
        Ok(())
    }

    async fn void(&self, tenant: &TenantName, request: RequestId) -> Result<(), Error> {
        self.settle_now(tenant, &[request], &[]);
        Ok(())
    }

    async fn settle(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        self.settle_now(tenant, requests, values);
        Ok(())
    }

    async fn touch(&self, touches: &[TouchItem]) -> Result<(), Error> {
        self.touch_now(touches);
        Ok(())
    }

    async fn stale(&self, silent_for_ms: u64, limit: usize) -> Result<Vec<StaleHold>, Error> {
        Ok(self.stale_now(silent_for_ms, limit))
    }

    async fn held(&self, tenant: &TenantName) -> Result<i64, Error> {
        Ok(self.held_now(tenant))
    }

    async fn open_holds(&self) -> Result<u64, Error> {
        Ok(self.open_holds_now())
    }
}
