//! The versions in use: the current one, and older ones that running requests are pinned to (ROUTE-1).

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use switchboard_common::{clock::SharedClock, feed::Feed};
use switchboard_proto::{common::v1::Actor, scheduler::v1::Sheet};
use tokio::sync::watch;

use crate::{
    domain::{
        compile::compile,
        document::{Document, Planned},
        known::Registry,
        supply::Supply,
    },
    error::Error,
    metrics::Counted,
    store::{Next, Stored, Version, Versions},
};

/// The versions in use.
pub struct Catalogue {
    versions: Versions,
    feed: Feed,
    clock: SharedClock,
    registry: Arc<Registry>,
    counted: Counted,
    kept: usize,
    current: ArcSwap<Supply>,
    older: Mutex<VecDeque<Arc<Supply>>>,
    /// Held by the request that reads a version from the database.
    reading: tokio::sync::Mutex<()>,
    announce: watch::Sender<u64>,
    loaded: AtomicBool,
}

impl Catalogue {
    /// An empty one; [`Catalogue::tail`] fills it. `kept` older versions stay compiled.
    #[must_use]
    pub fn new(
        versions: Versions,
        feed: Feed,
        clock: SharedClock,
        registry: Arc<Registry>,
        counted: Counted,
        kept: usize,
    ) -> Self {
        Self {
            versions,
            feed,
            clock,
            registry,
            counted,
            kept,
            current: ArcSwap::default(),
            older: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            announce: watch::channel(0).0,
            loaded: AtomicBool::new(false),
        }
    }

    /// Whether the database was read at least once.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// The version in use now.
    #[must_use]
    pub fn current(&self) -> Arc<Supply> {
        self.current.load_full()
    }

    /// The version that a request is pinned to; 0: the current one.
    ///
    /// # Errors
    /// There is no such version, or the database does not answer for an old one.
    pub async fn pinned(&self, version: u64) -> Result<Arc<Supply>, Error> {
        let current = self.current.load();
        if version == 0 || version == current.version {
            return Ok(Arc::clone(&current));
        }
        drop(current);
        if let Some(found) = self.kept(version) {
            return Ok(found);
        }
        // A forwarder may know a version before this process does. One request reads it for all that came with it.
        let _reading = self.reading.lock().await;
        let current = self.current.load_full();
        if version == current.version {
            return Ok(current);
        }
        if let Some(found) = self.kept(version) {
            return Ok(found);
        }
        let stored = self
            .versions
            .get(version)
            .await?
            .ok_or(Error::NoVersion(version))?;
        let supply = Arc::new(self.compiled(&stored)?);
        if version > self.current.load().version {
            self.install(Arc::clone(&supply));
        } else {
            self.keep(Arc::clone(&supply));
        }
        Ok(supply)
    }

    fn kept(&self, version: u64) -> Option<Arc<Supply>> {
        let mut older = self.older.lock();
        let place = older.iter().position(|supply| supply.version == version)?;
        let found = older.remove(place)?;
        older.push_front(Arc::clone(&found));
        Some(found)
    }

    fn keep(&self, supply: Arc<Supply>) {
        let mut older = self.older.lock();
        if !older.iter().any(|one| one.version == supply.version) {
            older.push_front(supply);
            older.truncate(self.kept);
        }
    }

    fn compiled(&self, stored: &Stored) -> Result<Supply, Error> {
        let document = read(stored)?;
        Ok(compile(
            stored.version,
            stored.created_at_ms,
            &document,
            &self.registry,
        ))
    }

    fn install(&self, supply: Arc<Supply>) {
        let version = supply.version;
        let mut before = None;
        self.current.rcu(|current| {
            if current.version < version {
                before = Some(Arc::clone(current));
                Arc::clone(&supply)
            } else {
                before = None;
                Arc::clone(current)
            }
        });
        let Some(before) = before else { return };
        if before.version > 0 {
            self.keep(before);
        }
        tracing::info!(
            version,
            models = supply.models.len(),
            "catalogue version in use"
        );
        self.counted
            .catalogue_version
            .set(i64::try_from(version).unwrap_or(i64::MAX));
        self.announce.send_replace(version);
    }

    /// Takes over the newest version of the database, if it is newer.
    async fn refresh(&self) -> Result<(), Error> {
        if self.versions.head().await? > self.current.load().version
            && let Some(stored) = self.versions.current().await?
        {
            let supply = self.compiled(&stored)?;
            self.install(Arc::new(supply));
        }
        if !self.loaded.swap(true, Ordering::AcqRel) {
            // Watchers of an empty installation wait for this word.
            self.announce.send_modify(|_| {});
        }
        Ok(())
    }

    /// Follows the database for ever. Other processes' versions are seen at the feed's next look.
    pub async fn tail(&self) {
        let mut heads = self.feed.heads();
        loop {
            if heads.borrow_and_update().is_some()
                && let Err(error) = self.refresh().await
            {
                tracing::warn!(%error, "the catalogue's newest version cannot be taken over; serving the one before");
                tokio::time::sleep(std::time::Duration::from_millis(250)).await;
                heads.mark_changed();
            }
            if heads.changed().await.is_err() {
                return;
            }
        }
    }

    /// Announces each version that comes into use.
    #[must_use]
    pub fn announced(&self) -> watch::Receiver<u64> {
        self.announce.subscribe()
    }

    /// What applying would change.
    ///
    /// # Errors
    /// The catalogue cannot be a version, or the database's.
    pub async fn plan(
        &self,
        incoming: switchboard_catalogue::Catalogue,
        sheets: &[Sheet],
    ) -> Result<(Vec<Planned>, u64), Error> {
        let stored = self.versions.current().await?;
        let version = stored.as_ref().map_or(0, |stored| stored.version);
        let current = stored.as_ref().map(read).transpose()?.unwrap_or_default();
        let next = current.apply(incoming, sheets)?;
        Ok((current.plan(&next), version))
    }

    /// Makes the version that follows, unless nothing changes. Answers what changed and the version that is current then.
    ///
    /// # Errors
    /// The catalogue cannot be a version, or the database's. Then nothing was changed.
    pub async fn apply(
        &self,
        actor: &Actor,
        incoming: switchboard_catalogue::Catalogue,
        sheets: &[Sheet],
    ) -> Result<(Vec<Planned>, u64), Error> {
        self.change(actor, "apply catalogue", |current, _| {
            current.apply(incoming, sheets).map_err(Error::from)
        })
        .await
    }

    /// Makes a version that equals an earlier one.
    ///
    /// # Errors
    /// There is no such version, or the database's. Then nothing was changed.
    pub async fn rollback(
        &self,
        actor: &Actor,
        version: u64,
    ) -> Result<(Vec<Planned>, u64), Error> {
        let stored = self
            .versions
            .get(version)
            .await?
            .ok_or(Error::NoVersion(version))?;
        let document = read(&stored)?;
        self.change(actor, "roll back catalogue", |_, _| Ok(document))
            .await
    }

    async fn change(
        &self,
        actor: &Actor,
        action: &str,
        make: impl FnOnce(&Document, u64) -> Result<Document, Error>,
    ) -> Result<(Vec<Planned>, u64), Error> {
        let mut planned = Vec::new();
        let mut before = 0;
        let stored = self
            .versions
            .append(self.clock.now_ms(), actor, action, |stored| {
                before = stored.map_or(0, |stored| stored.version);
                let current = stored.map(read).transpose()?.unwrap_or_default();
                let next = make(&current, before)?;
                if next == current {
                    return Ok::<_, Error>(None);
                }
                planned = current.plan(&next);
                let document =
                    serde_json::to_string(&next).map_err(|source| Error::Unreadable {
                        version: before + 1,
                        source,
                    })?;
                let diff: Vec<String> = planned.iter().map(Planned::to_string).collect();
                Ok(Some(Next {
                    document,
                    diff: diff.join("\n"),
                }))
            })
            .await?;
        let Some(stored) = stored else {
            return Ok((planned, before));
        };
        let supply = self.compiled(&stored)?;
        self.install(Arc::new(supply));
        self.feed.wake();
        Ok((planned, stored.version))
    }

    /// The newest versions.
    ///
    /// # Errors
    /// The database's.
    pub async fn list(&self, limit: u32) -> Result<Vec<Version>, Error> {
        Ok(self.versions.list(limit).await?)
    }

    /// The store, for audit rows.
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.versions
    }
}

fn read(stored: &Stored) -> Result<Document, Error> {
    serde_json::from_str(&stored.document).map_err(|source| Error::Unreadable {
        version: stored.version,
        source,
    })
}
