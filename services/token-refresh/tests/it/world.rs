//! A vault with its clients.

use std::{path::PathBuf, time::Duration};

use futures_util::StreamExt as _;
use rand::{SeedableRng as _, rngs::StdRng};
use sea_orm::ConnectionTrait as _;
use switchboard_common::{
    clock::ManualClock,
    db::{Database, DatabaseConfig},
    feed::FeedConfig,
    grpc::{Role, Rpc, local},
    lifecycle::Lifecycle,
    metrics::Metrics,
    secret::{MasterKey, Purpose},
};
use switchboard_migrations::{Owner, migrate};
use switchboard_proto::{
    common::v1::{Actor, Change, WatchChangesRequest, WatchChangesResponse},
    credentials::v1::{
        AccountCredential, ApplyRequest, GetRequest, GetResponse,
        credentials_admin_client::CredentialsAdminClient, credentials_client::CredentialsClient,
    },
};
use switchboard_token_refresh::{Component, Config, Deps, Error};
use tonic::{Status, Streaming};

/// Where a world's facts lie; deleted with it.
pub(crate) struct Place {
    pub(crate) config: DatabaseConfig,
    pub(crate) directory: tempfile::TempDir,
    schema: Option<String>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            config: DatabaseConfig::Sqlite {
                path: directory.path().join("token-refresh.sqlite"),
                full_sync: true,
            },
            directory,
            schema: None,
        }
    }

    /// `None` where the test runner gives no PostgreSQL.
    pub(crate) fn postgres(name: &str) -> Option<Self> {
        let url = std::env::var("SWITCHBOARD_TEST_DATABASE_URL").ok()?;
        let schema = format!("sb_vault_{name}_{}", std::process::id());
        Some(Self {
            config: DatabaseConfig::Postgres {
                url,
                schema: schema.clone(),
                max_connections: 4,
            },
            directory: tempfile::tempdir().unwrap(),
            schema: Some(schema),
        })
    }

    pub(crate) fn all(name: &str) -> Vec<Self> {
        std::iter::once(Self::sqlite())
            .chain(Self::postgres(name))
            .collect()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("token-refresh.sqlite")
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
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Metrics,
}

impl World {
    pub(crate) async fn open(place: &Place) -> Self {
        Self::open_with(place, 7).await.unwrap()
    }

    /// With the master key that consists of `key`.
    pub(crate) async fn open_with(place: &Place, key: u8) -> Result<Self, Error> {
        let database = Database::open(&place.config).await.unwrap();
        migrate(database.writer(), Owner::TokenRefresh)
            .await
            .unwrap();
        Self::start(database, key).await
    }

    pub(crate) async fn start(database: Database, key: u8) -> Result<Self, Error> {
        let lifecycle = Lifecycle::new();
        let metrics = Metrics::new();
        let config = Config {
            feed: FeedConfig {
                poll: Duration::from_millis(20),
                ..FeedConfig::default()
            },
            ..Config::default()
        };
        let component = Component::start(
            config,
            Deps {
                clock: ManualClock::at_ms(1_800_000_000_000),
                lifecycle: lifecycle.clone(),
                metrics: metrics.clone(),
                database: database.clone(),
                vault_key: MasterKey::from_bytes([key; 32]).subkey(Purpose::Vault),
                random: StdRng::seed_from_u64(u64::from(key)),
            },
        )
        .await?;
        Ok(Self {
            component,
            database,
            lifecycle,
            metrics,
        })
    }

    pub(crate) fn client(&self, role: Role) -> CredentialsClient<Rpc> {
        CredentialsClient::new(local(self.component.server(), role))
    }

    pub(crate) fn admin(&self) -> CredentialsAdminClient<Rpc> {
        CredentialsAdminClient::new(local(self.component.admin_server(), Role::Edge))
    }

    pub(crate) async fn get(
        &self,
        account: &str,
        stale_generation: u64,
    ) -> Result<GetResponse, Status> {
        let request = GetRequest {
            account: account.to_owned(),
            stale_generation,
        };
        Ok(self
            .client(Role::Forwarder)
            .get(request)
            .await?
            .into_inner())
    }

    /// Applies and tells the differences as `kind account`.
    pub(crate) async fn apply(&self, credentials: &[(&str, &str)]) -> Result<Vec<String>, Status> {
        let answer = self.admin().apply(request(credentials)).await?.into_inner();
        Ok(answer
            .changes
            .into_iter()
            .map(|change| format!("{} {}", change.kind, change.name))
            .collect())
    }

    pub(crate) async fn watch(&self, since: u64) -> Streaming<WatchChangesResponse> {
        self.client(Role::Forwarder)
            .watch_changes(WatchChangesRequest { since })
            .await
            .unwrap()
            .into_inner()
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

pub(crate) fn request(credentials: &[(&str, &str)]) -> ApplyRequest {
    ApplyRequest {
        actor: Some(Actor {
            name: "cli".to_owned(),
            reason: "test".to_owned(),
        }),
        credentials: credentials
            .iter()
            .map(|(account, secret)| AccountCredential {
                account: (*account).to_owned(),
                secret: (*secret).to_owned(),
            })
            .collect(),
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
