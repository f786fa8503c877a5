//! The second level of auth's cache (AUTH-5).
//!
//! An entry carries the change feed's `seq` at which it was read and the scopes (tenant, group) it depends on. A change raises
//! the floor of its scope; entries read before it are refused, at `put` as at `get`, so that no slow reader writes a stale one
//! back. Values are opaque; whoever puts secrets in seals them first.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::error::Error;

/// A value read at a point of the change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// The value.
    pub value: Bytes,
    /// The feed's position when it was read.
    pub seq: u64,
    /// What it depends on, at most 16, such as `tenant/acme`.
    pub scopes: Vec<Arc<str>>,
}

/// A shared, bounded cache with floors.
#[async_trait::async_trait]
pub trait Cache: Send + Sync {
    /// The entry, unless it expired or is older than the floor of one of its scopes.
    async fn get(&self, key: &str) -> Result<Option<CacheEntry>, Error>;

    /// Keeps an entry for `ttl`. Answers false, and keeps nothing, when it is older than a floor.
    async fn put(&self, key: &str, entry: &CacheEntry, ttl: Duration) -> Result<bool, Error>;

    /// Drops an entry.
    async fn remove(&self, key: &str) -> Result<(), Error>;

    /// From now on entries of these scopes must have been read at `seq` or later. Floors never fall.
    async fn raise_floor(&self, scopes: &[Arc<str>], seq: u64) -> Result<(), Error>;
}
