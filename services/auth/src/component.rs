//! Puts auth together; the only file that knows all layers.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use sea_orm::{ConnectionTrait as _, Statement};
use secrecy::SecretString;
use switchboard_common::{
    clock::SharedClock,
    db::Database,
    feed::{self, Feed},
    grpc::MAX_MESSAGE,
    lifecycle::Lifecycle,
    metrics::Metrics,
    secret::SubKey,
};
use switchboard_proto::{
    auth::v1::{auth_admin_server::AuthAdminServer, auth_server::AuthServer},
    common::v1::Change,
};
use switchboard_state::cache::Cache;

use crate::{
    admin::Administration,
    config::Config,
    domain::{freshness::Floors, key::KeyHasher},
    error::{Error, Fault},
    grpc::{admin::AdminService, auth::AuthService},
    lookup::{self, Authenticator, Invalidation},
    metrics::Meters,
    store,
};

/// Longest time by which another process's clock may be behind ours, milliseconds.
const CLOCK_SKEW_MS: i64 = 300_000;

/// What auth is given.
pub struct Deps {
    /// Time of day.
    pub clock: SharedClock,
    /// Life of its tasks.
    pub lifecycle: Lifecycle,
    /// Where it counts.
    pub metrics: Metrics,
    /// Auth's own facts.
    pub database: Database,
    /// Second level of the cache.
    pub cache: Arc<dyn Cache>,
    /// Sub-key of purpose `ApiKeyHash`.
    pub key_hash: SubKey,
    /// The bootstrap admin's token, whose hash is stored at start. `None`: whoever is stored stays.
    pub admin_token: Option<SecretString>,
    /// Where new keys come from; seeded by the system.
    pub random: StdRng,
}

impl fmt::Debug for Deps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Deps").finish_non_exhaustive()
    }
}

/// Auth, running. Clones share it.
#[derive(Clone)]
pub struct Component {
    auth: AuthService,
    admin: AdminService,
}

impl fmt::Debug for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Component")
            .field("ready", &self.ready())
            .finish_non_exhaustive()
    }
}

impl Component {
    /// Starts auth. With its schema in reach it is ready when this returns; else it becomes ready as soon as the schema appears.
    ///
    /// # Errors
    /// A setting that cannot be right.
    pub async fn start(config: Config, deps: Deps) -> Result<Self, Error> {
        config.check()?;
        let feed = Feed::start(deps.database.clone(), config.feed.clone(), &deps.lifecycle);
        let floors = Arc::new(Floors::new(config.floors));
        let hasher = KeyHasher::new(&deps.key_hash);
        let authenticator = Authenticator::new(lookup::Parts {
            config: config.clone(),
            clock: Arc::clone(&deps.clock),
            lifecycle: deps.lifecycle.clone(),
            hasher: hasher.clone(),
            reader: Arc::new(store::SqlReader::new(
                deps.database.clone(),
                config.query_timeout,
            )),
            cache: Arc::clone(&deps.cache),
            floors: Arc::clone(&floors),
            meters: Meters::new(&deps.metrics),
        });
        let invalidation = Invalidation {
            floors,
            cache: deps.cache,
        };
        let administration = Administration {
            invalidation: invalidation.clone(),
            config: config.clone(),
            database: deps.database.clone(),
            feed: feed.clone(),
            clock: Arc::clone(&deps.clock),
            hasher,
            random: Arc::new(Mutex::new(deps.random)),
        };
        let ready = Arc::new(AtomicBool::new(false));
        let opening = Opening {
            config: config.clone(),
            database: deps.database,
            clock: deps.clock,
            administration: administration.clone(),
            admin_token: deps.admin_token,
            invalidation,
            feed: feed.clone(),
            ready: Arc::clone(&ready),
        };
        let first = opening.open().await;
        if let Err(fault) = &first {
            tracing::warn!(error = %fault, "identity database is not usable yet; waiting for it");
        }
        let stopping = deps.lifecycle.stopping();
        deps.lifecycle.spawn("identity changes", async move {
            tokio::select! {
                () = opening.follow(first.ok()) => {}
                () = stopping.cancelled() => {}
            }
        });
        Ok(Self {
            auth: AuthService {
                authenticator,
                feed,
                ready,
                config,
            },
            admin: AdminService(administration),
        })
    }

    /// Whether keys can be checked.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.auth.ready.load(Ordering::Acquire)
    }

    /// `switchboard.auth.v1.Auth`.
    pub fn server(
        &self,
    ) -> AuthServer<impl switchboard_proto::auth::v1::auth_server::Auth + Clone + use<>> {
        AuthServer::new(self.auth.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// `switchboard.auth.v1.AuthAdmin`.
    pub fn admin_server(
        &self,
    ) -> AuthAdminServer<
        impl switchboard_proto::auth::v1::auth_admin_server::AuthAdmin + Clone + use<>,
    > {
        AuthAdminServer::new(self.admin.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }
}

/// From "there is a database, perhaps" to "every change is known".
struct Opening {
    config: Config,
    database: Database,
    clock: SharedClock,
    administration: Administration,
    admin_token: Option<SecretString>,
    invalidation: Invalidation,
    feed: Feed,
    ready: Arc<AtomicBool>,
}

impl Opening {
    /// Stores the admin's token and learns of the changes that cached entries may have missed. Tells the feed's head.
    async fn open(&self) -> Result<u64, Fault> {
        store::present(self.database.reader()).await?;
        if let Some(token) = &self.admin_token {
            self.administration.set_bootstrap_token(token).await?;
        }
        let head = self.recent_changes().await?;
        self.ready.store(true, Ordering::Release);
        Ok(head)
    }

    /// Entries in the state store may be older than a change that nobody was there to see.
    async fn recent_changes(&self) -> Result<u64, Fault> {
        let db = self.database.reader();
        let head = feed::head(db).await?;
        let life = self.config.cache_ttl + self.config.grace;
        let since_ms = self
            .clock
            .now_ms()
            .saturating_sub(i64::try_from(life.as_millis()).unwrap_or(i64::MAX))
            .saturating_sub(CLOCK_SKEW_MS);
        let limit = i64::try_from(self.config.floors).unwrap_or(i64::MAX);
        let rows = db
            .query_all_raw(Statement::from_sql_and_values(
                self.database.backend(),
                "SELECT scope, id, MAX(seq) AS seq FROM change WHERE at_ms >= $1 GROUP BY scope, id LIMIT $2",
                [since_ms.into(), limit.into()],
            ))
            .await?;
        if rows.len() >= self.config.floors {
            self.invalidation.floors.raise_all(head);
            return Ok(head);
        }
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            changes.push(Change {
                scope: row.try_get("", "scope")?,
                id: row.try_get("", "id")?,
                seq: u64::try_from(row.try_get::<i64>("", "seq")?).unwrap_or(0),
            });
        }
        self.raise(&changes).await;
        Ok(head)
    }

    /// Opens until it succeeds, then follows the feed for ever.
    async fn follow(self, opened: Option<u64>) {
        let mut opened = opened;
        let mut known = loop {
            match opened {
                Some(head) => break head,
                None => {
                    tokio::time::sleep(self.config.feed.poll).await;
                    opened = self.open().await.ok();
                }
            }
        };
        let mut changes = self.feed.watch(known);
        while let Some(news) = changes.next().await {
            let Ok(news) = news else {
                tokio::time::sleep(self.config.feed.poll).await;
                continue;
            };
            if known == 0 && news.changes.is_empty() {
                // The watch began after the table's first rows: they were not delivered.
                self.invalidation.floors.raise_all(news.head);
            }
            known = known.max(news.head);
            self.raise(&news.changes).await;
        }
    }

    async fn raise(&self, changes: &[Change]) {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| (change.scope.as_str(), change.id.as_str(), change.seq))
            .collect();
        self.invalidation.raise(&changes).await;
    }
}
