//! A map in shards with a lock each, which drops idle values as it goes.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

const SHARDS: usize = 64;
/// Accesses of a shard between two looks for idle values.
const SWEEP_EVERY: u32 = 1_024;

/// A value that can tell whether nothing is lost without it.
pub(crate) trait Idle {
    /// Drops what has expired by `now_us`; true when nothing is left.
    fn sweep(&mut self, now_us: i64) -> bool;
}

/// Values that live while they are used.
#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Shard<K, V> {
    values: HashMap<K, V, RandomState>,
    accesses: u32,
}

impl<K: Clone + Eq + Hash, V: Default + Idle> Shards<K, V> {
    pub(crate) fn new() -> Self {
        let shard = || {
            Mutex::new(Shard {
                values: HashMap::default(),
                accesses: 0,
            })
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::default(),
        }
    }

    /// Works on the value of `key`, which is made when it is not there.
    pub(crate) fn with<R>(&self, key: &K, now_us: i64, work: impl FnOnce(&mut V) -> R) -> R {
        // The low bits; the map's own hasher has another seed.
        let index = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        let mut shard = self.shards[index].lock();
        shard.accesses += 1;
        if shard.accesses >= SWEEP_EVERY {
            shard.accesses = 0;
            shard.values.retain(|_, value| !value.sweep(now_us));
        }
        if let Some(value) = shard.values.get_mut(key) {
            return work(value);
        }
        work(shard.values.entry(key.clone()).or_default())
    }

    /// Looks at every value, shard by shard, after dropping what has expired.
    pub(crate) fn each(&self, now_us: i64, mut look: impl FnMut(&K, &mut V)) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.values.retain(|_, value| !value.sweep(now_us));
            for (key, value) in &mut shard.values {
                look(key, value);
            }
        }
    }
}
