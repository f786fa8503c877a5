//! A bounded cache in this process's memory.

use std::{collections::HashMap, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use switchboard_common::clock::SharedClock;

use super::admission::micros;
use crate::{
    cache::{Cache, CacheEntry},
    error::Error,
};

/// See [`Cache`].
///
/// moka bounds it by bytes; lives are counted on the injected clock. Floors are one number per tenant and group.
pub(crate) struct MemoryCache {
    clock: SharedClock,
    entries: moka::future::Cache<Arc<str>, Arc<Kept>, RandomState>,
    floors: RwLock<HashMap<Arc<str>, u64, RandomState>>,
}

struct Kept {
    entry: CacheEntry,
    expires_us: i64,
}

impl MemoryCache {
    pub(crate) fn new(clock: SharedClock, max_bytes: u64) -> Self {
        let entries = moka::future::Cache::builder()
            .max_capacity(max_bytes)
            .weigher(|key: &Arc<str>, kept: &Arc<Kept>| {
                // What the map, the counters and the scopes' pointers take besides.
                let bytes = key.len() + kept.entry.value.len() + 200;
                u32::try_from(bytes).unwrap_or(u32::MAX)
            })
            .build_with_hasher(RandomState::default());
        Self {
            clock,
            entries,
            floors: RwLock::default(),
        }
    }

    fn is_old(&self, entry: &CacheEntry) -> bool {
        let floors = self.floors.read();
        entry
            .scopes
            .iter()
            .any(|scope| floors.get(scope).is_some_and(|floor| entry.seq < *floor))
    }
}

#[async_trait::async_trait]
impl Cache for MemoryCache {
    async fn get(&self, key: &str) -> Result<Option<CacheEntry>, Error> {
        let Some(kept) = self.entries.get(key).await else {
            return Ok(None);
        };
        if kept.expires_us <= self.clock.now_us() || self.is_old(&kept.entry) {
            self.entries.invalidate(key).await;
            return Ok(None);
        }
        Ok(Some(kept.entry.clone()))
    }

    async fn put(&self, key: &str, entry: &CacheEntry, ttl: Duration) -> Result<bool, Error> {
        if self.is_old(entry) {
            return Ok(false);
        }
        let kept = Kept {
            entry: entry.clone(),
            expires_us: self.clock.now_us() + micros(ttl),
        };
        self.entries.insert(Arc::from(key), Arc::new(kept)).await;
        Ok(true)
    }

    async fn remove(&self, key: &str) -> Result<(), Error> {
        self.entries.invalidate(key).await;
        Ok(())
    }

    async fn raise_floor(&self, scopes: &[Arc<str>], seq: u64) -> Result<(), Error> {
        let mut floors = self.floors.write();
        for scope in scopes {
            let floor = floors.entry(Arc::clone(scope)).or_default();
            *floor = seq.max(*floor);
        }
        Ok(())
    }
}
