//! Auth with its clients.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use rand::{SeedableRng as _, rngs::StdRng};
use sea_orm::{ConnectionTrait as _, Statement};
use secrecy::SecretString;
use switchboard_auth::{Component, Config, Deps};
use switchboard_common::{
    clock::ManualClock,
    db::{Database, DatabaseConfig},
    error::{Failure, Reason},
    feed::FeedConfig,
    grpc::{Role, Rpc, local},
    lifecycle::Lifecycle,
    metrics::Metrics,
    secret::{MasterKey, Purpose},
};
use switchboard_migrations::{Owner, migrate};
use switchboard_proto::{
    auth::v1::{
        ApplyRequest, AuthenticateRequest, CreateKeyRequest, DisableKeyRequest, GroupAccess,
        IssuedKey, Key, KeyInfo, Principal, Tenant, User, auth_admin_client::AuthAdminClient,
        auth_client::AuthClient,
    },
    common::v1::{Actor, Change, Limits, WatchChangesRequest, WatchChangesResponse},
};
use switchboard_state::{State, StateConfig};
use tonic::{Status, Streaming};

pub(crate) const START_MS: i64 = 1_800_000_000_000;
pub(crate) const ADMIN: &str = "admin-token-of-the-tests";
pub(crate) const OWN: &str = "own-key-of-an-operator-0123456789-";

/// Where a world's facts and state lie.
pub(crate) struct Place {
    pub(crate) config: DatabaseConfig,
    pub(crate) directory: tempfile::TempDir,
    schema: Option<String>,
    redis: Option<StateConfig>,
}

impl Place {
    /// SQLite and memory.
    pub(crate) fn embedded() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            config: DatabaseConfig::Sqlite {
                path: directory.path().join("auth.sqlite"),
                full_sync: false,
            },
            directory,
            schema: None,
            redis: None,
        }
    }

    /// PostgreSQL and Redis; `None` where the test runner gives none.
    pub(crate) fn split(name: &str) -> Option<Self> {
        let url = std::env::var("SWITCHBOARD_TEST_DATABASE_URL").ok()?;
        let redis = std::env::var("SWITCHBOARD_TEST_REDIS_URL").ok()?;
        let unique = format!("sb_auth_{name}_{}", std::process::id());
        Some(Self {
            config: DatabaseConfig::Postgres {
                url,
                schema: unique.clone(),
                max_connections: 8,
            },
            directory: tempfile::tempdir().unwrap(),
            redis: Some(StateConfig {
                url: Some(SecretString::from(redis)),
                prefix: format!("{unique}:"),
                // A loaded test machine is no outage.
                timeout: Duration::from_secs(5),
                ..StateConfig::default()
            }),
            schema: Some(unique),
        })
    }

    pub(crate) fn all(name: &str) -> Vec<Self> {
        std::iter::once(Self::embedded())
            .chain(Self::split(name))
            .collect()
    }

    pub(crate) async fn database(&self) -> Database {
        let database = Database::open(&self.config).await.unwrap();
        migrate(database.writer(), Owner::Auth).await.unwrap();
        database
    }

    /// Removes what a database server would keep.
    pub(crate) async fn clear(self) {
        if let Some(schema) = self.schema {
            let database = Database::open(&self.config).await.unwrap();
            database
                .writer()
                .execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE"))
                .await
                .unwrap();
        }
    }
}

pub(crate) struct World {
    pub(crate) component: Component,
    pub(crate) database: Database,
    pub(crate) state: State,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) metrics: Metrics,
}

impl World {
    pub(crate) async fn open(place: &Place) -> Self {
        let database = place.database().await;
        Self::start(place, database, Config::default()).await
    }

    pub(crate) async fn start(place: &Place, database: Database, config: Config) -> Self {
        let clock = ManualClock::at_ms(START_MS);
        let lifecycle = Lifecycle::new();
        let state = match &place.redis {
            Some(config) => State::redis(config, clock.clone(), &lifecycle)
                .await
                .unwrap(),
            None => State::memory(clock.clone()),
        };
        Self::compose(database, state, clock, lifecycle, config).await
    }

    /// Another process on the same facts and state.
    pub(crate) async fn replica(&self, place: &Place) -> Self {
        let database = Database::open(&place.config).await.unwrap();
        Self::compose(
            database,
            self.state.clone(),
            self.clock.clone(),
            Lifecycle::new(),
            Config::default(),
        )
        .await
    }

    async fn compose(
        database: Database,
        state: State,
        clock: Arc<ManualClock>,
        lifecycle: Lifecycle,
        config: Config,
    ) -> Self {
        let metrics = Metrics::new();
        let config = Config {
            feed: FeedConfig {
                poll: Duration::from_millis(20),
                ..FeedConfig::default()
            },
            ..config
        };
        let component = Component::start(
            config,
            Deps {
                clock: clock.clone(),
                lifecycle: lifecycle.clone(),
                metrics: metrics.clone(),
                database: database.clone(),
                cache: Arc::clone(&state.cache),
                key_hash: MasterKey::from_bytes([5; 32]).subkey(Purpose::ApiKeyHash),
                admin_token: Some(SecretString::from(ADMIN)),
                random: StdRng::seed_from_u64(11),
            },
        )
        .await
        .unwrap();
        Self {
            component,
            database,
            state,
            lifecycle,
            clock,
            metrics,
        }
    }

    pub(crate) fn client(&self, role: Role) -> AuthClient<Rpc> {
        AuthClient::new(local(self.component.server(), role))
    }

    pub(crate) fn admin(&self) -> AuthAdminClient<Rpc> {
        AuthAdminClient::new(local(self.component.admin_server(), Role::Edge))
    }

    pub(crate) async fn ask(&self, credential: &str) -> Result<Principal, Status> {
        let request = AuthenticateRequest {
            credential: credential.to_owned(),
        };
        let answer = self.client(Role::Forwarder).authenticate(request).await?;
        Ok(answer.into_inner().principal.expect("a principal"))
    }

    /// Applies and tells the differences as `kind section name`, and what was issued.
    pub(crate) async fn apply(
        &self,
        request: ApplyRequest,
    ) -> Result<(Vec<String>, Vec<IssuedKey>), Status> {
        let answer = self.admin().apply(request).await?.into_inner();
        let changes = answer
            .changes
            .into_iter()
            .map(|change| format!("{} {} {}", change.kind, change.section, change.name))
            .collect();
        Ok((changes, answer.issued))
    }

    pub(crate) async fn create(&self, key: Key) -> Result<IssuedKey, Status> {
        let request = CreateKeyRequest {
            actor: actor(),
            tenant: "acme".to_owned(),
            key: Some(key),
        };
        Ok(self
            .admin()
            .create_key(request)
            .await?
            .into_inner()
            .issued
            .expect("a key"))
    }

    pub(crate) async fn disable(&self, key: &str) -> Result<KeyInfo, Status> {
        let request = DisableKeyRequest {
            actor: actor(),
            key: key.to_owned(),
        };
        Ok(self
            .admin()
            .disable_key(request)
            .await?
            .into_inner()
            .key
            .expect("a key"))
    }

    pub(crate) async fn watch(&self, since: u64) -> Streaming<WatchChangesResponse> {
        self.client(Role::Forwarder)
            .watch_changes(WatchChangesRequest { since })
            .await
            .unwrap()
            .into_inner()
    }

    /// What another process would do to the facts.
    pub(crate) async fn sql(&self, statement: &str) {
        self.database
            .writer()
            .execute_unprepared(statement)
            .await
            .unwrap();
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let statement = Statement::from_string(
            self.database.backend(),
            format!("SELECT COUNT(*) AS n FROM {table}"),
        );
        let row = self
            .database
            .reader()
            .query_one_raw(statement)
            .await
            .unwrap()
            .unwrap();
        row.try_get("", "n").unwrap()
    }

    pub(crate) async fn close(self) {
        assert!(
            self.lifecycle
                .shutdown(Duration::from_secs(10), Duration::from_secs(10))
                .await
        );
        self.database.close().await;
    }
}

pub(crate) fn actor() -> Option<Actor> {
    Some(Actor {
        name: "cli".to_owned(),
        reason: "test".to_owned(),
    })
}

pub(crate) fn reason(status: &Status) -> Reason {
    Failure::from_status(status).reason
}

pub(crate) fn param(status: &Status) -> String {
    Failure::from_status(status).param.unwrap_or_default()
}

pub(crate) fn key(name: &str, secret: &str) -> Key {
    Key {
        name: name.to_owned(),
        secret: secret.to_owned(),
        group: "standard".to_owned(),
        ..Key::default()
    }
}

/// A catalogue with one group, one tenant, one user and these keys.
pub(crate) fn catalogue(keys: Vec<Key>) -> ApplyRequest {
    ApplyRequest {
        actor: actor(),
        groups: vec![GroupAccess {
            name: "standard".to_owned(),
            allow_ips: vec!["10.0.0.0/8".to_owned()],
            limits: Some(Limits {
                requests_per_minute: Some(10_000),
                ..Limits::default()
            }),
            user_limits: Some(Limits {
                concurrency: Some(10),
                ..Limits::default()
            }),
            multiplier: 1_200_000,
        }],
        tenants: vec![Tenant {
            name: "acme".to_owned(),
            prepaid: true,
            strict_hold: true,
            abandoned_free: true,
            users: vec![User {
                email: "ana@acme.example".to_owned(),
                role: "admin".to_owned(),
                multiplier: 900_000,
                limits: Some(Limits {
                    concurrency: Some(5),
                    ..Limits::default()
                }),
                ..User::default()
            }],
            keys,
            ..Tenant::default()
        }],
    }
}

/// Every field of a key.
pub(crate) fn full_key(name: &str, secret: &str) -> Key {
    Key {
        name: name.to_owned(),
        secret: secret.to_owned(),
        group: "standard".to_owned(),
        user: "ana@acme.example".to_owned(),
        models: vec!["text-gen-default".to_owned()],
        expires_at_ms: Some(START_MS + 3_600_000),
        limits: Some(Limits {
            requests_per_minute: Some(600),
            tokens_per_minute: Some(200_000),
            concurrency: Some(20),
            ..Limits::default()
        }),
        allow_ips: vec!["192.168.1.7".to_owned()],
        reject_unsupported: true,
        cost_center: "build".to_owned(),
        tags: HashMap::from([("team".to_owned(), "build".to_owned())]),
        ..Key::default()
    }
}

/// The next changes of a watch; its first answer may hold none.
pub(crate) async fn changes(watch: &mut Streaming<WatchChangesResponse>) -> Vec<Change> {
    let next = async {
        loop {
            let news = watch
                .next()
                .await
                .expect("stream goes on")
                .expect("feed is read");
            if !news.changes.is_empty() {
                return news.changes;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), next)
        .await
        .expect("a change arrives")
}

/// Waits until something is so; the deadline is far above what is expected.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .unwrap_or_else(|_| unreachable!("{what}"));
}
