//! Which readings are still good (AUTH-5): for each tenant and group the number of its latest change.
//!
//! A reading bears the feed's head at which it was made, taken in the same snapshot as the facts. It is good when no change of
//! its tenant or group has a higher number. So it does not matter who writes a cache last: a stale entry is refused by whoever
//! reads it. The floors are bounded: when there are too many, all are replaced by one floor for everything, which is stricter.

use std::collections::HashMap;

use parking_lot::RwLock;

/// The lowest acceptable change numbers.
#[derive(Debug)]
pub struct Floors {
    capacity: usize,
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    everything: u64,
    unknown: u64,
    tenants: HashMap<String, u64>,
    groups: HashMap<String, u64>,
}

impl Floors {
    /// Keeps at most `capacity` floors of tenants and groups together.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            inner: RwLock::default(),
        }
    }

    /// Learns of a change: `scope` `tenant` or `key` with a tenant's name, `group` with a group's.
    pub fn raise(&self, scope: &str, id: &str, seq: u64) {
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        // A new key may be what was unknown until now.
        inner.unknown = inner.unknown.max(seq);
        let floors = match scope {
            "tenant" | "key" => &mut inner.tenants,
            "group" => &mut inner.groups,
            // What this version does not know may concern anything.
            _ => {
                inner.everything = inner.everything.max(seq);
                return;
            }
        };
        match floors.get_mut(id) {
            Some(floor) => *floor = (*floor).max(seq),
            None => {
                floors.insert(id.to_owned(), seq);
            }
        }
        if inner.tenants.len() + inner.groups.len() > self.capacity {
            let highest = inner
                .tenants
                .values()
                .chain(inner.groups.values())
                .copied()
                .max();
            inner.everything = inner.everything.max(highest.unwrap_or(seq));
            inner.tenants.clear();
            inner.groups.clear();
        }
    }

    /// Refuses everything read before `seq`.
    pub fn raise_all(&self, seq: u64) {
        let mut inner = self.inner.write();
        inner.everything = inner.everything.max(seq);
        inner.unknown = inner.unknown.max(seq);
    }

    /// Whether a reading of `seq` of a key of this tenant and group is good.
    #[must_use]
    pub fn admit(&self, tenant: &str, group: &str, seq: u64) -> bool {
        let inner = self.inner.read();
        let floor = |floors: &HashMap<String, u64>, id| floors.get(id).copied().unwrap_or(0);
        seq >= inner.everything
            && seq >= floor(&inner.tenants, tenant)
            && seq >= floor(&inner.groups, group)
    }

    /// Whether "there is no such key", read at `seq`, is good.
    #[must_use]
    pub fn admit_unknown(&self, seq: u64) -> bool {
        let inner = self.inner.read();
        seq >= inner.unknown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};

    use super::*;

    #[test]
    fn a_reading_older_than_its_tenants_or_groups_latest_change_is_refused() {
        let floors = Floors::new(10);
        assert!(floors.admit("acme", "standard", 0));
        floors.raise("key", "acme", 5);
        assert!(!floors.admit("acme", "standard", 4));
        assert!(floors.admit("acme", "standard", 5));
        assert!(floors.admit("other", "standard", 4));
        floors.raise("group", "standard", 7);
        assert!(!floors.admit("acme", "standard", 6));
        assert!(floors.admit("acme", "gold", 6));
        floors.raise("tenant", "acme", 3);
        assert!(!floors.admit("acme", "gold", 4), "a floor never falls");
    }

    #[test]
    fn any_change_may_make_an_unknown_key_known() {
        let floors = Floors::new(10);
        assert!(floors.admit_unknown(0));
        floors.raise("key", "acme", 2);
        assert!(!floors.admit_unknown(1));
        assert!(floors.admit_unknown(2));
    }

    #[test]
    fn a_scope_of_a_newer_version_concerns_everything() {
        let floors = Floors::new(10);
        floors.raise("app", "acme", 9);
        assert!(!floors.admit("other", "other", 8));
    }

    proptest! {
        #[test]
        fn bounded_floors_admit_nothing_that_unbounded_ones_refuse(
            changes in prop::collection::vec((0_usize..3, 0_usize..20), 1..60),
        ) {
            let (small, large) = (Floors::new(3), Floors::new(1_000));
            for (seq, (scope, id)) in changes.iter().enumerate() {
                let (scope, id, seq) = (["tenant", "key", "group"][*scope], id.to_string(), seq as u64 + 1);
                small.raise(scope, &id, seq);
                large.raise(scope, &id, seq);
            }
            for id in 0..20 {
                for seq in 0..70 {
                    let (id, seq) = (id.to_string(), seq as u64);
                    assert!(large.admit(&id, &id, seq) || !small.admit(&id, &id, seq));
                }
            }
        }
    }
}
