//! Schedulers to test, and what it takes to call them.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use switchboard_catalogue::Catalogue;
use switchboard_common::{
    clock::{ManualClock, SharedClock, SystemClock},
    db::{Database, DatabaseConfig},
    error::Failure,
    feed::FeedConfig,
    grpc::{Role, Rpc, local},
    ids::RequestId,
    lifecycle::Lifecycle,
    metrics::Metrics,
};
use switchboard_migrations::{Owner, migrate};
use switchboard_proto::{
    common::v1::{Actor, Dialect},
    scheduler::v1::{
        AcquireRequest, AcquireResponse, AdvanceRequest, AdvanceResponse, ApplyRequest,
        ApplyResponse, AttemptOutcome, Blame, Demand, FailureKind, LeaseUpdate, LeaseUpdates,
        Release, Renewal, TargetKey, lease_update::Update,
        scheduler_admin_client::SchedulerAdminClient, scheduler_client::SchedulerClient,
    },
};
use switchboard_scheduler::{Component, Config, Deps};
use switchboard_state::{State, StateConfig};
use tempfile::TempDir;

/// How long a condition may take to come true: far longer than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// One scheduler process.
#[derive(Clone)]
pub struct Node {
    pub component: Component,
    pub scheduler: SchedulerClient<Rpc>,
    pub admin: SchedulerAdminClient<Rpc>,
}

/// Schedulers that share a database and a state store.
pub struct World {
    pub nodes: Vec<Node>,
    pub state: State,
    pub metrics: Metrics,
    clock: SharedClock,
    manual: Option<Arc<ManualClock>>,
    lifecycle: Lifecycle,
    _directory: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.lifecycle.kill();
    }
}

/// How a world differs from the ordinary.
#[derive(Clone)]
pub struct Shape {
    pub nodes: usize,
    pub config: Config,
    pub lease_ttl: Duration,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            nodes: 1,
            config: Config {
                feed: FeedConfig {
                    poll: Duration::from_millis(20),
                    ..FeedConfig::default()
                },
                health_refresh: Duration::from_millis(20),
                ..Config::default()
            },
            lease_ttl: Duration::from_secs(30),
        }
    }
}

impl World {
    /// On SQLite and memory, with the machine's clock.
    pub async fn small(shape: &Shape) -> Self {
        let clock: SharedClock = Arc::new(SystemClock);
        let state = State::memory(Arc::clone(&clock));
        Self::sqlite(shape, clock, None, state).await
    }

    /// On SQLite and memory, with a clock that the test moves.
    pub async fn timed(shape: &Shape) -> Self {
        let manual = ManualClock::at_ms(1_796_000_000_000);
        let clock: SharedClock = manual.clone();
        let state = State::memory(Arc::clone(&clock));
        Self::sqlite(shape, clock, Some(manual), state).await
    }

    async fn sqlite(
        shape: &Shape,
        clock: SharedClock,
        manual: Option<Arc<ManualClock>>,
        state: State,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let database = DatabaseConfig::Sqlite {
            path: directory.path().join("scheduler.db"),
            full_sync: false,
        };
        let lifecycle = Lifecycle::new();
        Self::open(shape, &database, clock, manual, state, lifecycle, directory).await
    }

    /// On every backend that there is here.
    pub async fn each(shape: &Shape) -> Vec<Self> {
        let mut worlds = vec![Self::small(shape).await];
        let url = |name| std::env::var(name).ok();
        if let (Some(database), Some(redis)) = (
            url("SWITCHBOARD_TEST_DATABASE_URL"),
            url("SWITCHBOARD_TEST_REDIS_URL"),
        ) {
            let id = RequestId::generate(1_796_000_000_000)
                .as_uuid()
                .as_simple()
                .to_string();
            let clock: SharedClock = Arc::new(SystemClock);
            let lifecycle = Lifecycle::new();
            let config = StateConfig {
                url: Some(redis.into()),
                prefix: format!("test:{id}:"),
                timeout: Duration::from_secs(5),
                ..StateConfig::default()
            };
            let state = State::open(&config, Arc::clone(&clock), &lifecycle)
                .await
                .unwrap();
            let database = DatabaseConfig::Postgres {
                url: database,
                schema: format!("scheduler_{id}"),
                max_connections: 4,
            };
            let directory = TempDir::new().unwrap();
            worlds
                .push(Self::open(shape, &database, clock, None, state, lifecycle, directory).await);
        }
        worlds
    }

    async fn open(
        shape: &Shape,
        database: &DatabaseConfig,
        clock: SharedClock,
        manual: Option<Arc<ManualClock>>,
        state: State,
        lifecycle: Lifecycle,
        directory: TempDir,
    ) -> Self {
        let metrics = Metrics::new();
        let mut nodes = Vec::new();
        for _ in 0..shape.nodes {
            let database = Database::open(database).await.unwrap();
            migrate(database.writer(), Owner::Scheduler).await.unwrap();
            let deps = Deps {
                clock: Arc::clone(&clock),
                lifecycle: lifecycle.clone(),
                metrics: metrics.clone(),
                database,
                state: state.clone(),
                lease_ttl: shape.lease_ttl,
            };
            let component = Component::start(shape.config.clone(), deps).await.unwrap();
            nodes.push(Node {
                scheduler: SchedulerClient::new(local(component.server(), Role::Forwarder)),
                admin: SchedulerAdminClient::new(local(component.admin_server(), Role::Edge)),
                component,
            });
        }
        let world = Self {
            nodes,
            state,
            metrics,
            clock,
            manual,
            lifecycle,
            _directory: directory,
        };
        for node in &world.nodes {
            until("ready", async || node.component.ready()).await;
        }
        world
    }

    pub fn node(&self) -> Node {
        self.nodes[0].clone()
    }

    /// Lets time pass, where the test has the clock.
    pub fn pass(&self, ms: i64) {
        self.manual.as_ref().unwrap().advance_ms(ms);
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub async fn held(&self) -> u64 {
        self.state.admission.held().await.unwrap()
    }
}

/// Waits until something is so.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let started = tokio::time::Instant::now();
    while !condition().await {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A catalogue of one model `m` over these accounts, and a group `g` over all.
pub fn one_model(accounts: &str, model: &str) -> String {
    format!(
        "version: 1\naccounts:\n{accounts}\nmodels:\n  - {{name: m, price: {{input: 1, output: 2}}, {model}}}\ngroups:\n  - {{name: g}}\n"
    )
}

/// An account's line in a catalogue.
pub fn account(name: &str, more: &str) -> String {
    format!(
        "  - {{name: {name}, provider: openai_compatible, base_url: \"http://127.0.0.1:1/v1\", allow_private_address: true, credential: none{more}}}\n"
    )
}

/// Requests of tenant `acme`, user `ana`, key `k1`, group `g`.
pub fn asked() -> AcquireRequest {
    AcquireRequest {
        request_id: RequestId::generate(1_796_000_000_000).to_string(),
        catalogue_version: 0,
        model: "m".to_owned(),
        public_model: "m".to_owned(),
        dialect: Dialect::OpenaiChat as i32,
        demand: Some(Demand {
            tenant: "acme".to_owned(),
            user: "ana".to_owned(),
            key_id: "k1".to_owned(),
            group: "g".to_owned(),
            ..Demand::default()
        }),
        estimated_tokens: 100,
        ..AcquireRequest::default()
    }
}

/// `asked`, with other limits.
pub fn asked_with(change: impl FnOnce(&mut Demand)) -> AcquireRequest {
    let mut asked = asked();
    change(asked.demand.as_mut().unwrap());
    asked
}

/// How an attempt went.
pub fn outcome(account: &str, failure: FailureKind, blame: Blame) -> AttemptOutcome {
    AttemptOutcome {
        account: account.to_owned(),
        upstream_model: "up".to_owned(),
        status: 0,
        blame: blame as i32,
        failure: failure as i32,
        retry_after_ms: None,
        first_token_us: None,
    }
}

impl Node {
    pub async fn try_apply(&self, text: &str) -> Result<ApplyResponse, tonic::Status> {
        let mut catalogue: Catalogue = switchboard_catalogue::parse(text, "test.yaml")
            .unwrap()
            .catalogue;
        catalogue.tenants.clear();
        let request = ApplyRequest {
            actor: Some(Actor {
                name: "cli".to_owned(),
                reason: "test".to_owned(),
            }),
            catalogue_json: serde_json::to_vec(&catalogue).unwrap().into(),
            sheets: Vec::new(),
        };
        Ok(self.admin.clone().apply(request).await?.into_inner())
    }

    pub async fn apply(&self, text: &str) -> u64 {
        self.try_apply(text).await.unwrap().version
    }

    pub async fn try_acquire(&self, asked: AcquireRequest) -> Result<AcquireResponse, Failure> {
        match self.scheduler.clone().acquire(asked).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(Failure::from_status(&status)),
        }
    }

    pub async fn acquire(&self, asked: AcquireRequest) -> AcquireResponse {
        self.try_acquire(asked).await.unwrap()
    }

    pub async fn refused(&self, asked: AcquireRequest) -> Failure {
        self.try_acquire(asked).await.unwrap_err()
    }

    /// Moves on from a failed attempt; answers the account that is next.
    pub async fn advance(
        &self,
        asked: &AcquireRequest,
        failed: AttemptOutcome,
        left: &[&str],
        attempt: u32,
    ) -> (Option<String>, Option<u64>) {
        let left: Vec<_> = left.iter().map(|account| (*account, "up")).collect();
        let answer = self
            .advance_lease(asked, failed, &left, attempt, None)
            .await;
        let granted = answer
            .granted
            .map(|place| left[place as usize].0.to_owned());
        if let Some(account) = &granted {
            assert_eq!(&answer.lease.unwrap().account, account);
        }
        (granted, answer.retry_after_ms)
    }

    /// Moves a lease on, as it was last given.
    pub async fn advance_lease(
        &self,
        asked: &AcquireRequest,
        failed: AttemptOutcome,
        left: &[(&str, &str)],
        attempt: u32,
        held: Option<Renewal>,
    ) -> AdvanceResponse {
        let request = AdvanceRequest {
            request_id: asked.request_id.clone(),
            failed: Some(failed),
            catalogue_version: asked.catalogue_version,
            model: asked.model.clone(),
            public_model: asked.public_model.clone(),
            dialect: asked.dialect,
            endpoint: asked.endpoint,
            left: left
                .iter()
                .map(|(account, model)| TargetKey {
                    account: (*account).to_owned(),
                    upstream_model: (*model).to_owned(),
                })
                .collect(),
            tenant: "acme".to_owned(),
            deadline_ms: 0,
            attempt,
            held,
            route: asked.route.clone(),
        };
        let mut scheduler = self.scheduler.clone();
        scheduler.advance(request).await.unwrap().into_inner()
    }

    pub async fn update(&self, request_id: &str, update: Update) {
        let updates = LeaseUpdates {
            updates: vec![LeaseUpdate {
                request_id: request_id.to_owned(),
                tenant: "acme".to_owned(),
                update: Some(update),
            }],
        };
        let acks = self
            .scheduler
            .clone()
            .leases(stream::iter([updates]))
            .await
            .unwrap();
        let first = acks.into_inner().next().await.unwrap().unwrap();
        assert_eq!(first.request_ids, [request_id]);
    }

    pub async fn release(&self, request_id: &str, release: Release) {
        self.update(request_id, Update::Release(release)).await;
    }

    pub async fn renew(&self, request_id: &str, renewal: Renewal) {
        self.update(request_id, Update::Renewal(renewal)).await;
    }
}

/// The account that holds the slot.
pub fn granted(answer: &AcquireResponse) -> &str {
    &answer.candidates[answer.granted as usize].account
}
