//! The leases, slot counts and buckets of one tenant or pool.
//!
//! Invariant: a slot's count is the number of leases that name it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use foldhash::fast::RandomState;
use switchboard_common::ids::RequestId;

use super::{shards::Idle, tombstones::Tombstones};
use crate::{
    admission::{BucketSpec, BucketState, BucketUnit, Correction, LimitKind, Scope},
    bucket::{Ask, Bucket, MAX_UNITS, MILLI},
};

/// Whose slot.
pub(crate) type SlotKey = (Scope, Arc<str>);
type BucketKey = (Scope, Arc<str>, BucketUnit);

/// Every attempt of a request, in a tombstone.
const ALL_ATTEMPTS: u32 = u32::MAX;

#[derive(Debug)]
struct Lease {
    attempt: u32,
    expires_us: i64,
    slots: Vec<SlotKey>,
    charges: Vec<Charge>,
}

#[derive(Debug)]
struct Charge {
    bucket: BucketKey,
    taken: i64,
    rate: i64,
}

/// One place's state.
#[derive(Debug, Default)]
pub(crate) struct Place {
    leases: HashMap<RequestId, Vec<Lease>, RandomState>,
    counts: HashMap<SlotKey, u64, RandomState>,
    buckets: HashMap<BucketKey, Stored, RandomState>,
    gone: Tombstones<(RequestId, u32)>,
    /// When to look at a lease again, the first first; renewals leave it, so it may be early.
    due: VecDeque<(i64, RequestId)>,
    waiters_until_us: i64,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    bucket: Bucket,
    rate: i64,
}

/// What a take came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Granted(Vec<BucketState>),
    Refused {
        index: usize,
        kind: LimitKind,
        retry_after_ms: u64,
        buckets: Vec<BucketState>,
    },
    Gone,
}

/// Whether a renewed lease was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Renewed,
    Restored,
    Gone,
}

fn states(asked: &[(Ask, Bucket)]) -> Vec<BucketState> {
    asked
        .iter()
        .map(|(ask, bucket)| bucket.state(ask))
        .collect()
}

/// Slots are let go within seconds as a rule; nobody knows when.
pub(crate) const SLOT_RETRY_MS: u64 = 1_000;

impl Place {
    /// Takes one of each slot and from all buckets, or nothing.
    pub(crate) fn take(
        &mut self,
        (request, attempt): (RequestId, u32),
        slots: &[(SlotKey, u64)],
        buckets: &[BucketSpec],
        share: u64,
        now_us: i64,
        ttl_us: i64,
    ) -> Taken {
        self.purge(now_us);
        if self.is_gone(request, attempt) {
            return Taken::Gone;
        }
        let current = self.asked(buckets, share, now_us);
        if self
            .leases
            .get(&request)
            .is_some_and(|leases| leases.iter().any(|lease| lease.attempt == attempt))
        {
            return Taken::Granted(states(&current));
        }
        for (index, (slot, limit)) in slots.iter().enumerate() {
            if self.used(slot) >= *limit {
                return Taken::Refused {
                    index,
                    kind: LimitKind::Slot,
                    retry_after_ms: SLOT_RETRY_MS,
                    buckets: states(&current),
                };
            }
        }
        for (index, (ask, bucket)) in current.iter().enumerate() {
            if let Err(retry_after_ms) = bucket.take(ask) {
                return Taken::Refused {
                    index,
                    kind: LimitKind::Bucket,
                    retry_after_ms,
                    buckets: states(&current),
                };
            }
        }
        let mut charges = Vec::with_capacity(buckets.len());
        let mut after = Vec::with_capacity(buckets.len());
        for (spec, (ask, mut bucket)) in buckets.iter().zip(current) {
            let taken = bucket.take(&ask).unwrap_or(0);
            bucket.charge(taken);
            after.push(bucket.state(&ask));
            let key = (spec.scope, Arc::clone(&spec.id), spec.unit);
            self.buckets.insert(
                key.clone(),
                Stored {
                    bucket,
                    rate: ask.rate,
                },
            );
            charges.push(Charge {
                bucket: key,
                taken,
                rate: ask.rate,
            });
        }
        let keys = slots.iter().map(|(slot, _)| slot.clone()).collect();
        self.hold(request, attempt, keys, charges, now_us + ttl_us);
        Taken::Granted(after)
    }

    /// How full buckets are.
    pub(crate) fn look(&self, buckets: &[BucketSpec], share: u64, now_us: i64) -> Vec<BucketState> {
        states(&self.asked(buckets, share, now_us))
    }

    /// Ends leases; what is ended stays ended for `tombstone_us`, if any.
    pub(crate) fn release(
        &mut self,
        request: RequestId,
        attempt: Option<u32>,
        correction: Correction,
        now_us: i64,
        tombstone_us: Option<i64>,
    ) {
        self.purge(now_us);
        if let Some(tombstone_us) = tombstone_us {
            self.gone.add(
                (request, attempt.unwrap_or(ALL_ATTEMPTS)),
                now_us + tombstone_us,
            );
        }
        let Some(leases) = self.leases.get_mut(&request) else {
            return;
        };
        let ended: Vec<Lease> = match attempt {
            None => std::mem::take(leases),
            Some(attempt) => leases
                .extract_if(.., |lease| lease.attempt == attempt)
                .collect(),
        };
        if leases.is_empty() {
            self.leases.remove(&request);
        }
        for lease in ended {
            self.free(&lease.slots);
            for charge in &lease.charges {
                self.correct(charge, correction, now_us);
            }
        }
    }

    /// Extends a lease, or puts it back.
    pub(crate) fn renew(
        &mut self,
        request: RequestId,
        attempt: u32,
        slots: impl FnOnce() -> Vec<SlotKey>,
        now_us: i64,
        ttl_us: i64,
    ) -> Kept {
        self.purge(now_us);
        if self.is_gone(request, attempt) {
            return Kept::Gone;
        }
        let expires_us = now_us + ttl_us;
        if let Some(lease) = self
            .leases
            .get_mut(&request)
            .and_then(|leases| leases.iter_mut().find(|lease| lease.attempt == attempt))
        {
            lease.expires_us = lease.expires_us.max(expires_us);
            return Kept::Renewed;
        }
        self.hold(request, attempt, slots(), Vec::new(), expires_us);
        Kept::Restored
    }

    /// Slots in use.
    pub(crate) fn used(&self, slot: &SlotKey) -> u64 {
        self.counts.get(slot).copied().unwrap_or(0)
    }

    /// Leases alive.
    pub(crate) fn held(&self) -> u64 {
        self.leases.values().map(|leases| leases.len() as u64).sum()
    }

    /// Every lease.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (RequestId, u32, &[SlotKey])> {
        self.leases.iter().flat_map(|(request, leases)| {
            leases
                .iter()
                .map(|lease| (*request, lease.attempt, lease.slots.as_slice()))
        })
    }

    /// Lets go of every lease.
    pub(crate) fn clear(&mut self) {
        self.leases.clear();
        self.counts.clear();
        self.due.clear();
    }

    pub(crate) fn mark_waiters(&mut self, until_us: i64) {
        self.waiters_until_us = self.waiters_until_us.max(until_us);
    }

    pub(crate) fn has_waiters(&self, now_us: i64) -> bool {
        self.waiters_until_us > now_us
    }

    /// Whether this attempt has a lease.
    pub(crate) fn holds(&self, request: RequestId, attempt: u32) -> bool {
        self.leases
            .get(&request)
            .is_some_and(|leases| leases.iter().any(|lease| lease.attempt == attempt))
    }

    pub(crate) fn is_gone(&self, request: RequestId, attempt: u32) -> bool {
        self.gone.contains(&(request, attempt)) || self.gone.contains(&(request, ALL_ATTEMPTS))
    }

    /// Drops expired leases and tombstones.
    pub(crate) fn purge(&mut self, now_us: i64) {
        self.gone.purge(now_us);
        while let Some((due_us, request)) = self.due.front().copied() {
            if due_us > now_us {
                return;
            }
            self.due.pop_front();
            let Some(leases) = self.leases.get_mut(&request) else {
                continue;
            };
            let ended: Vec<Lease> = leases
                .extract_if(.., |lease| lease.expires_us <= now_us)
                .collect();
            if leases.is_empty() {
                self.leases.remove(&request);
            } else if let Some(next) = leases.iter().map(|lease| lease.expires_us).min() {
                self.look_again(next, request);
            }
            for lease in ended {
                self.free(&lease.slots);
            }
        }
    }

    /// Leases live equally long as a rule, so that a new one comes last.
    fn look_again(&mut self, due_us: i64, request: RequestId) {
        let place = match self.due.back() {
            Some((last_us, _)) if *last_us > due_us => self
                .due
                .partition_point(|(other_us, _)| *other_us <= due_us),
            _ => self.due.len(),
        };
        self.due.insert(place, (due_us, request));
    }

    fn asked(&self, buckets: &[BucketSpec], share: u64, now_us: i64) -> Vec<(Ask, Bucket)> {
        let one = |spec| {
            let ask = Ask::new(spec, share);
            (ask, self.bucket(spec, ask.rate, now_us))
        };
        buckets.iter().map(one).collect()
    }

    fn bucket(&self, spec: &BucketSpec, rate: i64, now_us: i64) -> Bucket {
        let key = (spec.scope, Arc::clone(&spec.id), spec.unit);
        self.buckets.get(&key).map_or(
            Bucket {
                missing: 0,
                at_us: now_us,
            },
            |stored| stored.bucket.refilled(rate, now_us),
        )
    }

    fn hold(
        &mut self,
        request: RequestId,
        attempt: u32,
        slots: Vec<SlotKey>,
        charges: Vec<Charge>,
        expires_us: i64,
    ) {
        for slot in &slots {
            match self.counts.get_mut(slot) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(slot.clone(), 1);
                }
            }
        }
        self.look_again(expires_us, request);
        self.leases.entry(request).or_default().push(Lease {
            attempt,
            expires_us,
            slots,
            charges,
        });
    }

    fn free(&mut self, slots: &[SlotKey]) {
        for slot in slots {
            if let Some(count) = self.counts.get_mut(slot) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(slot);
                }
            }
        }
    }

    fn correct(&mut self, charge: &Charge, correction: Correction, now_us: i64) {
        let change = match correction {
            Correction::Keep => return,
            Correction::Refund => -charge.taken,
            Correction::Used(_) if charge.bucket.2 != BucketUnit::Tokens => return,
            Correction::Used(tokens) => {
                let used = i64::try_from(tokens.min(MAX_UNITS)).unwrap_or(0) * MILLI;
                used - charge.taken
            }
        };
        let stored = self.buckets.entry(charge.bucket.clone()).or_insert(Stored {
            bucket: Bucket {
                missing: 0,
                at_us: now_us,
            },
            rate: charge.rate,
        });
        stored.bucket = stored.bucket.refilled(stored.rate, now_us);
        stored.bucket.charge(change);
    }
}

impl Idle for Place {
    fn sweep(&mut self, now_us: i64) -> bool {
        self.purge(now_us);
        self.buckets
            .retain(|_, stored| stored.bucket.refilled(stored.rate, now_us).missing > 0);
        self.leases.is_empty()
            && self.buckets.is_empty()
            && self.gone.is_empty()
            && self.waiters_until_us <= now_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ends_earlier_is_let_go_first_whenever_it_came() {
        let mut place = Place::default();
        let slot = (Scope::Key, Arc::from("k"));
        let hold = |place: &mut Place, at_us, ttl_us| {
            let request = RequestId::generate(at_us / 1_000);
            let slots = [(slot.clone(), 9)];
            let taken = place.take((request, 0), &slots, &[], 1, at_us, ttl_us);
            assert_eq!(taken, Taken::Granted(Vec::new()));
            request
        };
        let long = hold(&mut place, 0, 30);
        let short = hold(&mut place, 1, 9);
        let last = hold(&mut place, 2, 30);
        place.purge(10);
        let held = [long, short, last].map(|request| place.holds(request, 0));
        assert_eq!(held, [true, false, true]);
        assert_eq!(place.used(&slot), 2);
        place.purge(32);
        assert_eq!((place.held(), place.used(&slot)), (0, 0));
    }
}
