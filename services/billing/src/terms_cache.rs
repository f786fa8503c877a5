//! Owners' budgets in memory, so that a hold asks SQL for nothing.
//!
//! The change feed makes them new within a second; without it they are read again every `terms_refresh`; without the database
//! they serve until they are `terms_grace` old. Settlements do not trust this cache: they compare its revision under a lock.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use moka::future::Cache;
use sea_orm::DbErr;
use switchboard_common::clock::SharedClock;

use crate::{
    config::Config,
    store::{Store, Terms},
};

/// After a failed reading the next one waits this long.
const RETRY_MS: i64 = 1_000;

#[derive(Debug)]
struct Entry {
    terms: Arc<Terms>,
    read_ms: i64,
    /// When they are to be read again. Whoever moves it on reads.
    due_ms: AtomicI64,
}

/// Terms by owner.
#[derive(Clone)]
pub(crate) struct TermsCache {
    store: Store,
    clock: SharedClock,
    entries: Cache<String, Arc<Entry>>,
    /// Raised with every told change, so that a reading that began before one is not believed for long.
    changes: Arc<AtomicU64>,
    refresh_ms: i64,
    grace_ms: i64,
}

impl TermsCache {
    pub(crate) fn new(store: Store, clock: SharedClock, config: &Config) -> Self {
        let millis =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self {
            store,
            clock,
            entries: Cache::new(config.cached_owners),
            changes: Arc::default(),
            refresh_ms: millis(config.terms_refresh),
            grace_ms: millis(config.terms_grace),
        }
    }

    /// The owner's terms; simultaneous readings of one owner are one.
    pub(crate) async fn get(&self, owner: &str) -> Result<Arc<Terms>, Arc<DbErr>> {
        if let Some(entry) = self.entries.get(owner).await {
            let now_ms = self.clock.now_ms();
            let due_ms = entry.due_ms.load(Ordering::Relaxed);
            let mine = now_ms >= due_ms
                && entry
                    .due_ms
                    .compare_exchange(
                        due_ms,
                        now_ms.saturating_add(RETRY_MS),
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    )
                    .is_ok();
            if !mine {
                return Ok(Arc::clone(&entry.terms));
            }
            return match self.read(owner).await {
                Ok(fresh) => {
                    let terms = Arc::clone(&fresh.terms);
                    self.entries.insert(owner.to_owned(), fresh).await;
                    Ok(terms)
                }
                Err(_) if now_ms.saturating_sub(entry.read_ms) < self.grace_ms => {
                    Ok(Arc::clone(&entry.terms))
                }
                Err(error) => {
                    self.entries.invalidate(owner).await;
                    Err(Arc::new(error))
                }
            };
        }
        let entry = self
            .entries
            .try_get_with_by_ref(owner, async { self.read(owner).await })
            .await?;
        Ok(Arc::clone(&entry.terms))
    }

    /// What is in memory, however old.
    pub(crate) async fn peek(&self, owner: &str) -> Option<Arc<Terms>> {
        self.entries
            .get(owner)
            .await
            .map(|entry| Arc::clone(&entry.terms))
    }

    /// The owner's terms changed.
    pub(crate) async fn forget(&self, owner: &str) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.entries.invalidate(owner).await;
    }

    /// Changes may have been missed: everything is read again when it is next asked for, and serves until then.
    pub(crate) fn doubt_all(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        for (_, entry) in &self.entries {
            entry.due_ms.store(0, Ordering::Relaxed);
        }
    }

    async fn read(&self, owner: &str) -> Result<Arc<Entry>, DbErr> {
        let before = self.changes.load(Ordering::SeqCst);
        let read_ms = self.clock.now_ms();
        let terms = Arc::new(self.store.terms(owner).await?);
        let unchanged = self.changes.load(Ordering::SeqCst) == before;
        let due_ms = if unchanged {
            read_ms.saturating_add(self.refresh_ms)
        } else {
            0
        };
        Ok(Arc::new(Entry {
            terms,
            read_ms,
            due_ms: AtomicI64::new(due_ms),
        }))
    }
}
