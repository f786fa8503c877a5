//! All of the hot state on one backend.

use std::sync::Arc;

use switchboard_common::{clock::SharedClock, lifecycle::Lifecycle};

use crate::{
    admission::Admission,
    cache::Cache,
    config::StateConfig,
    error::Error,
    guard::{
        admission::GuardedAdmission, backlog::Backlog, cache::GuardedCache, health::GuardedHealth,
        purses::GuardedPurses, recovery::Recovery,
    },
    health::Health,
    hints::Hints,
    memory::{
        admission::MemoryAdmission, cache::MemoryCache, health::MemoryHealth, hints::MemoryHints,
        purses::MemoryPurses,
    },
    purses::Purses,
    redis::{
        admission::RedisAdmission, cache::RedisCache, health::RedisHealth, hints::RedisHints,
        link::Link, purses::RedisPurses,
    },
};

/// Whether calls to the shared store are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// They are.
    Closed,
    /// They fail at once; a probe asks whether the store is back.
    Open,
}

/// How the backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether the state is shared between processes.
    pub shared: bool,
    /// Always closed in memory.
    pub breaker: Breaker,
    /// Whether policies stand in for the store (OPS-5).
    pub degraded: bool,
    /// Calls that failed or were not made since the start.
    pub failures: u64,
    /// How often the store was seen to have lost its memory.
    pub losses: u64,
    /// When it was last seen to be back or to have lost its memory, Unix milliseconds; 0: never.
    pub recovered_ms: i64,
    /// Releases, voids and settlements that wait for the store.
    pub backlog: u64,
}

/// What is held at all, over all tenants and accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// Leases alive: one per request in its tenant's place and one per attempt at an account.
    pub held_leases: u64,
    /// Open holds.
    pub open_holds: u64,
    /// How the backend is.
    pub status: Status,
}

/// The hot state. Each service takes the trait that it needs.
#[derive(Clone)]
pub struct State {
    /// Slots, leases, buckets.
    pub admission: Arc<dyn Admission>,
    /// Open holds.
    pub purses: Arc<dyn Purses>,
    /// Auth's second cache level.
    pub cache: Arc<dyn Cache>,
    /// Averages and cooldowns.
    pub health: Arc<dyn Health>,
    /// Wake-up hints.
    pub hints: Arc<dyn Hints>,
    pub(crate) watch: Option<Arc<dyn Watch>>,
}

/// Tells how a shared backend is.
pub(crate) trait Watch: Send + Sync {
    fn status(&self) -> Status;
}

impl State {
    /// The twin for one process, with the default settings.
    #[must_use]
    pub fn memory(clock: SharedClock) -> Self {
        Self::memory_with(&StateConfig::default(), clock)
    }

    /// The twin for one process.
    #[must_use]
    pub fn memory_with(config: &StateConfig, clock: SharedClock) -> Self {
        Self {
            admission: Arc::new(MemoryAdmission::new(
                Arc::clone(&clock),
                config.tombstone,
                1,
            )),
            purses: Arc::new(MemoryPurses::new(
                Arc::clone(&clock),
                config.tombstone,
                1,
                config.draft_max_bytes,
            )),
            cache: Arc::new(MemoryCache::new(Arc::clone(&clock), config.cache_max_bytes)),
            health: Arc::new(MemoryHealth::new(clock, config.health_half_life)),
            hints: Arc::new(MemoryHints::default()),
            watch: None,
        }
    }

    /// Redis where the settings name one, else memory.
    pub async fn open(
        config: &StateConfig,
        clock: SharedClock,
        lifecycle: &Lifecycle,
    ) -> Result<Self, Error> {
        if config.url.is_some() {
            Self::redis(config, clock, lifecycle).await
        } else {
            config.check()?;
            Ok(Self::memory_with(config, clock))
        }
    }

    /// Redis, with the policies for when it is away.
    ///
    /// Fails when the settings do not fit each other or the server (it must not evict keys). A server that is away is no
    /// failure: it is waited for, degraded.
    pub async fn redis(
        config: &StateConfig,
        clock: SharedClock,
        lifecycle: &Lifecycle,
    ) -> Result<Self, Error> {
        config.check()?;
        let link = Arc::new(Link::new(config)?);
        let backlog = Arc::new(Backlog::new(config.backlog));
        let policies = &config.on_failure;
        let admission = Arc::new(GuardedAdmission {
            store: RedisAdmission::new(Arc::clone(&link), config.tombstone),
            local: MemoryAdmission::new(
                Arc::clone(&clock),
                config.tombstone,
                u64::from(config.replicas),
            ),
            local_used: false.into(),
            policies: policies.clone(),
            backlog: Arc::clone(&backlog),
        });
        let purses = Arc::new(GuardedPurses {
            store: RedisPurses::new(Arc::clone(&link), config.tombstone, config.draft_max_bytes),
            local: MemoryPurses::new(
                Arc::clone(&clock),
                config.tombstone,
                config.replicas,
                config.draft_max_bytes,
            ),
            local_used: false.into(),
            policy: policies.holds,
            backlog: Arc::clone(&backlog),
        });
        let recovery = Arc::new(Recovery::new(
            config,
            Arc::clone(&link),
            Arc::clone(&clock),
            Arc::clone(&admission),
            Arc::clone(&purses),
            backlog,
        ));
        recovery.begin().await?;
        recovery.watch_over(lifecycle);
        Ok(Self {
            admission,
            purses,
            cache: Arc::new(GuardedCache {
                store: RedisCache::new(Arc::clone(&link)),
                local: MemoryCache::new(Arc::clone(&clock), config.cache_max_bytes),
                policy: policies.cache,
            }),
            health: Arc::new(GuardedHealth {
                store: RedisHealth::new(
                    Arc::clone(&link),
                    Arc::clone(&clock),
                    config.health_half_life,
                ),
                local: MemoryHealth::new(clock, config.health_half_life),
                policy: policies.health,
            }),
            hints: Arc::new(RedisHints::start(link, lifecycle)),
            watch: Some(recovery),
        })
    }

    /// How the backend is; costs nothing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.watch.as_ref().map_or(
            Status {
                shared: false,
                breaker: Breaker::Closed,
                degraded: false,
                failures: 0,
                losses: 0,
                recovered_ms: 0,
                backlog: 0,
            },
            |watch| watch.status(),
        )
    }

    /// What is held at all. Looks at every place: for a scrape or a test's "nothing left over".
    pub async fn gauges(&self) -> Result<Gauges, Error> {
        Ok(Gauges {
            held_leases: self.admission.held().await?,
            open_holds: self.purses.open_holds().await?,
            status: self.status(),
        })
    }
}
