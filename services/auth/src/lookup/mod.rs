//! From a presented key to its principal: form → remembered unknowns → state store → SQL (AUTH-5).
//!
//! Invariants: one look-up per key at a time; at most [`Config::lookups`] in the database at once and a bounded queue before
//! them; a failed look-up is never remembered as "unknown"; an entry older than the latest change of its tenant or group is
//! refused; while the database cannot be asked, entries stay good for [`Config::grace`] longer (AUTH-6). A look-up is its own
//! task, so that a caller that leaves does not take it from others who wait for the same key.

mod entry;
mod flight;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use secrecy::{ExposeSecret as _, SecretString};
use switchboard_common::{clock::SharedClock, lifecycle::Lifecycle};
use switchboard_proto::auth::v1::Principal;
use switchboard_state::cache::{Cache, CacheEntry};

pub(crate) use entry::Entry;
use flight::{Flights, Landing};

use crate::{
    config::Config,
    domain::{
        freshness::Floors,
        identity::Caller,
        key::{self, Form, KeyHash, KeyHasher},
    },
    error::Fault,
    metrics::{Meters, Outcome, Source},
};

/// Most often a look-up is made again because a change overtook it.
const ATTEMPTS: usize = 4;

/// What one reading found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// The change feed's head in the same snapshot.
    pub(crate) head: u64,
    /// The key's, if there is one.
    pub(crate) caller: Option<Caller>,
}

/// Where keys are looked up.
#[async_trait::async_trait]
pub(crate) trait KeyReader: Send + Sync + 'static {
    /// Reads a key and the feed's head in one snapshot. `now_ms` decides about replaced secrets.
    async fn find(&self, hash: &KeyHash, now_ms: i64) -> Result<Reading, Fault>;
}

/// Why there is no principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// There is no such key.
    Unknown,
    /// It could not be checked; try again after this.
    Unavailable(Duration),
}

/// What the authenticator works with.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) clock: SharedClock,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) hasher: KeyHasher,
    pub(crate) reader: Arc<dyn KeyReader>,
    pub(crate) cache: Arc<dyn Cache>,
    pub(crate) floors: Arc<Floors>,
    pub(crate) meters: Meters,
}

/// Checks keys. Clones share everything.
#[derive(Clone)]
pub(crate) struct Authenticator(Arc<Inner>);

struct Inner {
    parts: Parts,
    /// Unknown keys and the head at which they were; bounded, brief.
    unknown: moka::future::Cache<KeyHash, u64>,
    flights: Flights,
    /// When a look-up failed last, Unix milliseconds.
    failed_at_ms: AtomicI64,
}

impl Authenticator {
    pub(crate) fn new(parts: Parts) -> Self {
        let unknown = moka::future::Cache::builder()
            .max_capacity(parts.config.unknown_capacity)
            .time_to_live(parts.config.unknown_ttl)
            .build();
        let flights = Flights::new(parts.config.lookups, parts.config.lookup_queue);
        Self(Arc::new(Inner {
            parts,
            unknown,
            flights,
            failed_at_ms: AtomicI64::new(i64::MIN),
        }))
    }

    /// The principal of a key.
    pub(crate) async fn authenticate(&self, credential: &SecretString) -> Result<Principal, Miss> {
        let (source, answer) = self.answer(credential.expose_secret()).await;
        let outcome = match &answer {
            Ok(_) => Outcome::Known,
            Err(Miss::Unknown) => Outcome::Unknown,
            Err(Miss::Unavailable(_)) => Outcome::Unavailable,
        };
        self.0.parts.meters.answered(source, outcome);
        answer
    }

    async fn answer(&self, text: &str) -> (Source, Result<Principal, Miss>) {
        let inner = &self.0;
        if matches!(key::form(text), Form::Mistyped | Form::Impossible) {
            return (Source::Form, Err(Miss::Unknown));
        }
        let hash = inner.parts.hasher.key(text);
        if let Some(seq) = inner.unknown.get(&hash).await
            && inner.parts.floors.admit_unknown(seq)
        {
            return (Source::Memory, Err(Miss::Unknown));
        }
        let stale = match inner.cached(&hash).await {
            Cached::Fresh(entry) => return (Source::State, Ok(entry.principal)),
            Cached::Stale(entry) if inner.database_failed_lately() => {
                return (Source::Grace, Ok(entry.principal));
            }
            Cached::Stale(entry) => Some(entry),
            Cached::Nothing => None,
        };
        for _ in 0..ATTEMPTS {
            match inner
                .flights
                .board(hash, || self.clone().look_up(hash), &inner.parts.lifecycle)
                .await
            {
                Landing::Found(entry) if inner.admits(&entry) => {
                    return (Source::Database, Ok(entry.principal.clone()));
                }
                // A change overtook the look-up.
                Landing::Found(_) => {}
                Landing::Unknown(seq) if inner.parts.floors.admit_unknown(seq) => {
                    return (Source::Database, Err(Miss::Unknown));
                }
                Landing::Unknown(_) => {}
                Landing::Failed => break,
            }
        }
        match stale.filter(|entry| inner.admits(entry)) {
            Some(entry) => (Source::Grace, Ok(entry.principal)),
            None => (
                Source::Database,
                Err(Miss::Unavailable(inner.parts.config.retry_after)),
            ),
        }
    }

    /// One look-up, in its own task.
    async fn look_up(self, hash: KeyHash) -> Landing {
        let inner = &self.0;
        let parts = &inner.parts;
        let Ok(Ok(turn)) =
            tokio::time::timeout(parts.config.lookup_wait, inner.flights.turn()).await
        else {
            return Landing::Failed;
        };
        let read_at_ms = parts.clock.now_ms();
        let began = tokio::time::Instant::now();
        parts.meters.lookups.inc();
        let reading = parts.reader.find(&hash, read_at_ms).await;
        parts.meters.lookups.dec();
        parts.meters.lookup_seconds.observe(began.elapsed());
        drop(turn);
        match reading {
            Ok(Reading {
                head,
                caller: Some(caller),
            }) => {
                inner.failed_at_ms.store(i64::MIN, Ordering::Relaxed);
                let entry = Entry::new(&caller, head, read_at_ms);
                inner.keep(&hash, &entry).await;
                Landing::Found(Arc::new(entry))
            }
            Ok(Reading { head, caller: None }) => {
                inner.failed_at_ms.store(i64::MIN, Ordering::Relaxed);
                inner.unknown.insert(hash, head).await;
                Landing::Unknown(head)
            }
            Err(fault) => {
                let before = inner
                    .failed_at_ms
                    .swap(parts.clock.now_ms(), Ordering::Relaxed);
                if before == i64::MIN {
                    tracing::warn!(error = %fault, "keys cannot be looked up; cached ones go on");
                }
                Landing::Failed
            }
        }
    }
}

/// What the state store has.
enum Cached {
    Fresh(Entry),
    /// Past its life, within its grace.
    Stale(Entry),
    Nothing,
}

impl Inner {
    async fn cached(&self, hash: &KeyHash) -> Cached {
        let found = match self.parts.cache.get(&cache_key(hash)).await {
            Ok(found) => found,
            Err(error) => {
                self.parts.meters.cache_failures.inc();
                tracing::debug!(%error, "state store cannot be read");
                None
            }
        };
        // An entry of another layout is as good as none.
        let Some(entry) = found.and_then(|found| Entry::decode(&found.value)) else {
            return Cached::Nothing;
        };
        if !self.admits(&entry) {
            return Cached::Nothing;
        }
        let age = self.parts.clock.now_ms().saturating_sub(entry.read_at_ms);
        let (ttl, grace) = (
            millis(self.parts.config.cache_ttl),
            millis(self.parts.config.grace),
        );
        if age < ttl {
            Cached::Fresh(entry)
        } else if age < ttl.saturating_add(grace) {
            Cached::Stale(entry)
        } else {
            Cached::Nothing
        }
    }

    async fn keep(&self, hash: &KeyHash, entry: &Entry) {
        if !self.admits(entry) {
            return;
        }
        let cached = CacheEntry {
            value: entry.encode(),
            seq: entry.principal.change_seq,
            scopes: vec![
                scope("tenant", &entry.principal.tenant),
                scope("group", &entry.principal.group),
            ],
        };
        let life = self.parts.config.cache_ttl + self.parts.config.grace;
        if let Err(error) = self.parts.cache.put(&cache_key(hash), &cached, life).await {
            self.parts.meters.cache_failures.inc();
            tracing::debug!(%error, "state store cannot be written");
        }
    }

    fn admits(&self, entry: &Entry) -> bool {
        let principal = &entry.principal;
        self.parts
            .floors
            .admit(&principal.tenant, &principal.group, principal.change_seq)
    }

    /// Whether trying the database again would most likely only cost its time-out.
    fn database_failed_lately(&self) -> bool {
        let failed = self.failed_at_ms.load(Ordering::Relaxed);
        failed != i64::MIN
            && self.parts.clock.now_ms().saturating_sub(failed)
                < millis(self.parts.config.retry_after)
    }
}

/// Makes changes known: to this process's floors, and to the state store's.
#[derive(Clone)]
pub(crate) struct Invalidation {
    pub(crate) floors: Arc<Floors>,
    pub(crate) cache: Arc<dyn Cache>,
}

impl Invalidation {
    /// From now on nothing older than these changes is taken.
    pub(crate) async fn raise(&self, changes: &[(&str, &str, u64)]) {
        for (kind, id, seq) in changes {
            self.floors.raise(kind, id, *seq);
        }
        for (kind, id, seq) in changes {
            let kind = if *kind == "group" { "group" } else { "tenant" };
            if let Err(error) = self.cache.raise_floor(&[scope(kind, id)], *seq).await {
                // Every process keeps its own floors; this one only spares it old entries.
                tracing::debug!(%error, "state store does not take a floor");
            }
        }
    }
}

/// The name under which the state store keeps what depends on a tenant or a group.
fn scope(kind: &str, id: &str) -> Arc<str> {
    format!("{kind}/{id}").into()
}

/// The keyed hash, never the key.
fn cache_key(hash: &KeyHash) -> String {
    format!("key/{}", hex::encode(hash.as_bytes()))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
