//! One billing, or several that share their stores, and what tests say to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sea_orm::{ConnectionTrait as _, DatabaseConnection, Statement};
use secrecy::SecretString;
use switchboard_billing::{Component, Config, Deps};
use switchboard_common::{
    clock::{SharedClock, SystemClock},
    db::{Database, DatabaseConfig},
    error::Failure,
    grpc::{Role, Rpc, local},
    ids::RequestId,
    lifecycle::Lifecycle,
    metrics::Metrics,
};
use switchboard_migrations::{Owner, migrate};
use switchboard_proto::{
    billing::v1::{
        ApplyPricesRequest, ApplyTenantsRequest, Budget, GetTenantRequest, GetTenantResponse,
        ListUsageRequest, RecordRequest, RecordResponse, ReserveRequest, Settlement, TenantMoney,
        UsageRow, VerifyLedgerRequest, VerifyLedgerResponse,
        billing_admin_client::BillingAdminClient, billing_client::BillingClient,
    },
    scheduler::v1::Sheet,
};
use switchboard_state::{State, StateConfig};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::fixtures::{USD, actor, cost, output, price};

/// Where a condition that must come is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

static SCHEMAS: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// SQLite and memory.
    Embedded,
    /// PostgreSQL and Redis.
    Split,
}

/// The embedded stores, and the split ones where the environment has them.
pub(crate) fn stores() -> Vec<Stores> {
    let mut all = vec![Stores::Embedded];
    if std::env::var("SWITCHBOARD_TEST_DATABASE_URL").is_ok()
        && std::env::var("SWITCHBOARD_TEST_REDIS_URL").is_ok()
    {
        all.push(Stores::Split);
    }
    all
}

/// The stores of one test.
pub(crate) struct Ground {
    pub(crate) database: Database,
    pub(crate) state: State,
    pub(crate) clock: SharedClock,
    pub(crate) lifecycle: Lifecycle,
    _directory: tempfile::TempDir,
}

impl Ground {
    /// Empty stores; the schema is there if `migrated`.
    pub(crate) async fn new(stores: Stores, migrated: bool) -> Self {
        Self::with_clock(stores, migrated, Arc::new(SystemClock)).await
    }

    pub(crate) async fn with_clock(stores: Stores, migrated: bool, clock: SharedClock) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let lifecycle = Lifecycle::new();
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sb_billing_{}_{number}", std::process::id());
        let (config, state) = match stores {
            Stores::Embedded => (
                DatabaseConfig::Sqlite {
                    path: directory.path().join("billing.sqlite"),
                    full_sync: false,
                },
                State::memory(Arc::clone(&clock)),
            ),
            Stores::Split => {
                let config = StateConfig {
                    url: Some(SecretString::from(
                        std::env::var("SWITCHBOARD_TEST_REDIS_URL").unwrap(),
                    )),
                    prefix: format!("{name}:"),
                    timeout: Duration::from_secs(5),
                    ..StateConfig::default()
                };
                let state = State::redis(&config, Arc::clone(&clock), &lifecycle)
                    .await
                    .unwrap();
                let database = DatabaseConfig::Postgres {
                    url: std::env::var("SWITCHBOARD_TEST_DATABASE_URL").unwrap(),
                    schema: name,
                    max_connections: 4,
                };
                (database, state)
            }
        };
        let database = Database::open(&config).await.unwrap();
        if migrated {
            migrate(database.writer(), Owner::Billing).await.unwrap();
        }
        Self {
            database,
            state,
            clock,
            lifecycle,
            _directory: directory,
        }
    }

    pub(crate) fn sql(&self) -> &DatabaseConnection {
        self.database.writer()
    }

    /// Does to the tables what must not be done.
    pub(crate) async fn tamper(&self, sql: &str) -> u64 {
        let statement = Statement::from_string(self.database.backend(), sql);
        self.sql()
            .execute_raw(statement)
            .await
            .unwrap()
            .rows_affected()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let statement = Statement::from_string(self.database.backend(), sql);
        self.sql()
            .query_one_raw(statement)
            .await
            .unwrap()
            .unwrap()
            .try_get_by_index(0)
            .unwrap()
    }

    /// A billing on these stores.
    pub(crate) async fn billing(&self) -> Bench {
        self.billing_with(test_config(), self.state.clone()).await
    }

    pub(crate) async fn billing_with(&self, config: Config, state: State) -> Bench {
        let metrics = Metrics::new();
        let component = Component::start(
            config,
            Deps {
                clock: Arc::clone(&self.clock),
                lifecycle: self.lifecycle.clone(),
                metrics: metrics.clone(),
                database: self.database.clone(),
                state,
            },
        )
        .await
        .unwrap();
        Bench {
            client: BillingClient::new(local(component.server(), Role::Forwarder)),
            admin: BillingAdminClient::new(local(component.admin_server(), Role::Edge)),
            clock: Arc::clone(&self.clock),
            component,
            metrics,
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.lifecycle.kill();
    }
}

/// Nothing is reaped unless a test asks for it.
pub(crate) fn test_config() -> Config {
    Config {
        gather: Duration::from_millis(1),
        ..Config::default()
    }
}

/// Silence comes soon.
pub(crate) fn reaping_config() -> Config {
    Config {
        silence: Duration::from_millis(20),
        reaper_grace: Duration::ZERO,
        reaper_interval: Duration::from_millis(10),
        hold_limit: Duration::from_secs(60),
        ..test_config()
    }
}

/// A running billing and its clients.
pub(crate) struct Bench {
    pub(crate) client: BillingClient<Rpc>,
    pub(crate) admin: BillingAdminClient<Rpc>,
    pub(crate) component: Component,
    pub(crate) metrics: Metrics,
    clock: SharedClock,
}

impl Bench {
    pub(crate) fn new_id(&self) -> RequestId {
        RequestId::generate(self.clock.now_ms())
    }

    /// Prices, in order, and their versions.
    pub(crate) async fn price(&self, sheets: Vec<Sheet>) -> Vec<u64> {
        let request = ApplyPricesRequest {
            actor: actor(),
            sheets,
        };
        let response = self
            .admin
            .clone()
            .apply_prices(request)
            .await
            .unwrap()
            .into_inner();
        response.sheets.iter().map(|sheet| sheet.version).collect()
    }

    /// One model at USD per million tokens of output, one cost at half of it. Answers the versions.
    pub(crate) async fn usual_prices(&self) -> (u64, u64) {
        let versions = self
            .price(vec![price("m", output(2 * USD)), cost("a/up", output(USD))])
            .await;
        (versions[0], versions[1])
    }

    pub(crate) async fn apply(
        &self,
        tenants: Vec<TenantMoney>,
        budgets: Vec<Budget>,
    ) -> Vec<String> {
        let request = ApplyTenantsRequest {
            actor: actor(),
            tenants,
            budgets,
        };
        let response = self
            .admin
            .clone()
            .apply_tenants(request)
            .await
            .unwrap()
            .into_inner();
        response
            .changes
            .iter()
            .map(|change| {
                format!(
                    "{} {} {}: {}",
                    change.kind, change.section, change.name, change.detail
                )
            })
            .collect()
    }

    pub(crate) async fn tenant(&self, name: &str) -> GetTenantResponse {
        let request = GetTenantRequest {
            name: name.to_owned(),
        };
        self.admin
            .clone()
            .get_tenant(request)
            .await
            .unwrap()
            .into_inner()
    }

    pub(crate) async fn usage(&self, tenant: &str) -> Vec<UsageRow> {
        let request = ListUsageRequest {
            tenant: tenant.to_owned(),
            ..ListUsageRequest::default()
        };
        self.admin
            .clone()
            .list_usage(request)
            .await
            .unwrap()
            .into_inner()
            .rows
    }

    pub(crate) async fn verify(&self) -> VerifyLedgerResponse {
        self.admin
            .clone()
            .verify_ledger(VerifyLedgerRequest {})
            .await
            .unwrap()
            .into_inner()
    }

    /// Fails with what is wrong.
    pub(crate) async fn assert_balanced(&self) -> VerifyLedgerResponse {
        let verified = self.verify().await;
        assert!(
            verified.balanced && verified.problems.is_empty(),
            "{:#?}",
            verified.problems
        );
        verified
    }

    /// Held nano-USD, or the refusal.
    pub(crate) async fn reserve(&self, request: ReserveRequest) -> Result<i64, Failure> {
        match self.client.clone().reserve(request).await {
            Ok(response) => Ok(response.into_inner().held_nanos),
            Err(status) => Err(Failure::from_status(&status)),
        }
    }

    pub(crate) async fn record(&self) -> Recorder {
        let (sender, requests) = mpsc::channel(16);
        let responses = self
            .client
            .clone()
            .record(ReceiverStream::new(requests))
            .await
            .unwrap()
            .into_inner();
        Recorder { sender, responses }
    }

    /// Settles and waits for the acknowledgements.
    pub(crate) async fn settle(&self, settlements: Vec<Settlement>) {
        self.record().await.settle(settlements).await;
    }

    /// Waits until a tenant is as it should be.
    pub(crate) async fn until(
        &self,
        tenant: &str,
        right: impl Fn(&GetTenantResponse) -> bool,
    ) -> GetTenantResponse {
        until(|| async {
            let found = self.tenant(tenant).await;
            right(&found).then_some(found)
        })
        .await
    }

    /// A metric's value in a scrape.
    pub(crate) fn metric(&self, line: &str) -> String {
        let text = self.metrics.render();
        text.lines()
            .find_map(|found| found.strip_prefix(line))
            .unwrap_or_else(|| panic!("no `{line}` in\n{text}"))
            .trim()
            .to_owned()
    }
}

/// Waits for a condition.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(mut condition: impl FnMut() -> F) -> T {
    let wait = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

/// An open Record stream.
pub(crate) struct Recorder {
    pub(crate) sender: mpsc::Sender<RecordRequest>,
    pub(crate) responses: Streaming<RecordResponse>,
}

impl Recorder {
    pub(crate) async fn settle(&mut self, settlements: Vec<Settlement>) {
        let mut waiting: Vec<_> = settlements
            .iter()
            .map(|one| one.request_id.clone())
            .collect();
        let request = RecordRequest {
            settlements,
            touches: Vec::new(),
        };
        self.sender.send(request).await.unwrap();
        while !waiting.is_empty() {
            for id in self.next().await.settled {
                let place = waiting.iter().position(|waiting| *waiting == id).unwrap();
                waiting.remove(place);
            }
        }
    }

    pub(crate) async fn next(&mut self) -> RecordResponse {
        tokio::time::timeout(PATIENCE, self.responses.message())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    }
}
