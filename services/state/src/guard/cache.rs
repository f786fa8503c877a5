//! Auth's second cache level while the store is away: nothing is cached (`open`), or privately (`local_share`).

use std::{sync::Arc, time::Duration};

use crate::{
    cache::{Cache, CacheEntry},
    config::Policy,
    error::Error,
    memory::cache::MemoryCache,
    redis::cache::RedisCache,
};

/// See [`Cache`].
pub(crate) struct GuardedCache {
    pub(crate) store: RedisCache,
    pub(crate) local: MemoryCache,
    pub(crate) policy: Policy,
}

#[async_trait::async_trait]
impl Cache for GuardedCache {
    async fn get(&self, key: &str) -> Result<Option<CacheEntry>, Error> {
        match (self.store.get(key).await, self.policy) {
            (Ok(entry), _) => Ok(entry),
            (Err(error), Policy::Closed) => Err(error),
            (Err(_), Policy::Open) => Ok(None),
            (Err(_), Policy::LocalShare) => self.local.get(key).await,
        }
    }

    async fn put(&self, key: &str, entry: &CacheEntry, ttl: Duration) -> Result<bool, Error> {
        match (self.store.put(key, entry, ttl).await, self.policy) {
            (Ok(kept), _) => Ok(kept),
            (Err(error), Policy::Closed) => Err(error),
            (Err(_), Policy::Open) => Ok(false),
            (Err(_), Policy::LocalShare) => self.local.put(key, entry, ttl).await,
        }
    }

    async fn remove(&self, key: &str) -> Result<(), Error> {
        self.local.remove(key).await?;
        // An entry that stays is older than a floor, or ends with its life.
        passed(self.store.remove(key).await, self.policy)
    }

    async fn raise_floor(&self, scopes: &[Arc<str>], seq: u64) -> Result<(), Error> {
        self.local.raise_floor(scopes, seq).await?;
        // A floor that is lost must be raised again: unlike the rest this is never passed over.
        self.store.raise_floor(scopes, seq).await
    }
}

/// A failure that the policy passes over.
pub(crate) fn passed(done: Result<(), Error>, policy: Policy) -> Result<(), Error> {
    match done {
        Err(error) if policy == Policy::Closed => Err(error),
        _ => Ok(()),
    }
}
