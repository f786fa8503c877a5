//! A forwarder with everything around it.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fake_upstream::FakeUpstream;
use futures_util::stream;
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use switchboard_common::{
    clock::{Clock, SharedClock, SystemClock},
    error::Failure,
    grpc::{Role, Rpc, local},
    ids::RequestId,
    lifecycle::Lifecycle,
    metrics::Metrics,
    secret::{MasterKey, Purpose},
};
use switchboard_forwarder::{Adapters, Component, Config, Deps, Gauges, JournalConfig, Peers};
use switchboard_proto::{
    auth::v1::{Principal, Status as Active, auth_server::AuthServer},
    billing::v1::{ReserveResponse, Settlement, billing_server::BillingServer},
    common::v1::Dialect,
    credentials::v1::credentials_server::CredentialsServer,
    inference::v1::{
        Header, RelayHead, RelayRequest, RelayResponse, inference_client::InferenceClient,
    },
    scheduler::v1::{
        Candidate, CatalogueSnapshot, CredentialHeader, GroupModels, PublicModel,
        scheduler_server::SchedulerServer,
    },
};
use tempfile::TempDir;
use tonic::Streaming;

use crate::peers::{Fake, State, World};

pub const KEY: &str = "sk-sb-caller";
pub const SECRET: &str = "sk-upstream-one";
pub const SECOND: &str = "sk-upstream-two";

/// The machine's clock, with a trap for the next one who looks.
#[derive(Default)]
pub struct Trap(AtomicBool);

impl Trap {
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Clock for Trap {
    fn now_us(&self) -> i64 {
        assert!(!self.0.swap(false, Ordering::SeqCst), "a trap for a test");
        SystemClock.now_us()
    }
}

pub struct Rig {
    pub trap: Arc<Trap>,
    pub upstream: FakeUpstream,
    pub world: Arc<World>,
    pub component: Component,
    pub client: InferenceClient<Rpc>,
    pub lifecycle: Lifecycle,
    pub directory: Arc<TempDir>,
}

/// A whole answer as the edge gets it.
#[derive(Debug, Default)]
pub struct Answer {
    pub id: String,
    pub status: u32,
    pub headers: Vec<Header>,
    pub event_stream: bool,
    pub body: Vec<u8>,
    pub frames: usize,
    pub ended: bool,
    pub failure: Option<Failure>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.name == name);
        found.map(|header| std::str::from_utf8(&header.value).unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The texts of a stream's deltas, put together.
    pub fn streamed(&self) -> String {
        let data = self
            .text()
            .split("\n\n")
            .filter_map(|e| e.strip_prefix("data: "));
        let deltas = data.filter_map(|data| {
            let chunk: Value = serde_json::from_str(data).ok()?;
            let text = chunk.pointer("/choices/0/delta/content")?;
            text.as_str().map(str::to_owned)
        });
        deltas.collect()
    }
}

pub fn config() -> Config {
    Config {
        journal: JournalConfig {
            gather: Duration::ZERO,
            ..JournalConfig::default()
        },
        reconnect: Duration::from_millis(10),
        reconnect_max: Duration::from_millis(20),
        ..Config::default()
    }
}

pub fn principal() -> Principal {
    let active = Active::Active as i32;
    Principal {
        tenant: "acme".to_owned(),
        user: "ann@acme.test".to_owned(),
        key_id: "k1".to_owned(),
        key_name: "laptop".to_owned(),
        group: "standard".to_owned(),
        key_status: active,
        tenant_status: active,
        user_status: active,
        group_status: active,
        group_multiplier: 1_000_000,
        user_multiplier: 1_000_000,
        change_seq: 1,
        ..Principal::default()
    }
}

pub fn model(name: &str) -> PublicModel {
    PublicModel {
        name: name.to_owned(),
        active: true,
        price_version: 5,
        max_output: Some(1_000),
        commit_after_ms: Some(15_000),
        total_timeout_ms: 60_000,
        write_timeout_ms: 60_000,
        max_attempts: 3,
        ..PublicModel::default()
    }
}

fn candidate(upstream: &FakeUpstream, account: &str, path: &str) -> Candidate {
    Candidate {
        account: account.to_owned(),
        upstream_model: "upstream-gpt".to_owned(),
        provider: "openai_compatible".to_owned(),
        url: format!("{}/{path}", upstream.base_url()),
        allow_private_address: true,
        credential: Some(CredentialHeader {
            name: "authorization".to_owned(),
            format: "Bearer {secret}".to_owned(),
        }),
        connect_timeout_ms: 5_000,
        first_byte_timeout_ms: 20_000,
        idle_timeout_ms: 20_000,
        cost_version: 7,
        ..Candidate::default()
    }
}

pub fn chat(stream: bool) -> Value {
    json!({"model": "text", "stream": stream, "messages": [{"role": "user", "content": "say something"}]})
}

impl Rig {
    pub async fn start() -> Self {
        Self::with(config(), |_| ()).await
    }

    pub async fn with(config: Config, change: impl FnOnce(&mut State)) -> Self {
        let upstream = FakeUpstream::start().await.unwrap();
        let directory = Arc::new(TempDir::new().unwrap());
        Self::on(upstream, config, change, directory).await
    }

    /// A forwarder and its peers before an upstream that is there already.
    pub async fn on(
        upstream: FakeUpstream,
        config: Config,
        change: impl FnOnce(&mut State),
        directory: Arc<TempDir>,
    ) -> Self {
        let catalogue = CatalogueSnapshot {
            version: 3,
            models: vec![model("text"), model("embed"), model("other")],
            groups: vec![GroupModels {
                name: "standard".to_owned(),
                models: vec!["text".to_owned(), "embed".to_owned()],
                ..GroupModels::default()
            }],
        };
        let mut state = State {
            candidates: vec![
                candidate(&upstream, "one", "chat/completions"),
                candidate(&upstream, "two", "chat/completions"),
            ],
            hold: ReserveResponse {
                held_nanos: 1_000,
                ..ReserveResponse::default()
            },
            ..State::default()
        };
        state.principals.insert(KEY.to_owned(), principal());
        for (account, secret) in [("one", SECRET), ("two", SECOND)] {
            let secrets = vec![secret.to_owned()];
            state.secrets.insert(account.to_owned(), secrets);
        }
        change(&mut state);
        let world = World::new(catalogue, state);
        Self::join(config, upstream, world, directory).await
    }

    /// A forwarder in a world that is there already.
    pub async fn join(
        config: Config,
        upstream: FakeUpstream,
        world: Arc<World>,
        directory: Arc<TempDir>,
    ) -> Self {
        let lifecycle = Lifecycle::new();
        let fake = Fake(Arc::clone(&world));
        let trap = Arc::new(Trap::default());
        let deps = Deps {
            clock: Arc::clone(&trap) as SharedClock,
            lifecycle: lifecycle.clone(),
            metrics: Metrics::new(),
            journal: PathBuf::from(directory.path()),
            journal_key: MasterKey::from_bytes([9; 32]).subkey(Purpose::Journal),
            random: StdRng::seed_from_u64(1),
            peers: Peers {
                auth: local(AuthServer::new(fake.clone()), Role::Forwarder),
                scheduler: local(SchedulerServer::new(fake.clone()), Role::Forwarder),
                credentials: local(CredentialsServer::new(fake.clone()), Role::Forwarder),
                billing: local(BillingServer::new(fake), Role::Forwarder),
            },
            adapters: Adapters::default().with("sample", Arc::new(sample_adapter::Sample)),
        };
        let component = Component::start(config, deps).await.unwrap();
        let mut versions = component.catalogue_versions();
        versions.wait_for(|version| *version > 0).await.unwrap();
        assert!(component.ready());
        let client = InferenceClient::new(local(component.server(), Role::Edge));
        Self {
            trap,
            upstream,
            world,
            component,
            client,
            lifecycle,
            directory,
        }
    }

    pub fn head(&self, dialect: Dialect) -> RelayHead {
        RelayHead {
            dialect: dialect as i32,
            request_id: RequestId::generate(SystemClock.now_ms()).to_string(),
            credential: KEY.to_owned(),
            peer: "10.0.0.1".to_owned(),
            arrived_us: SystemClock.now_us(),
            ..RelayHead::default()
        }
    }

    pub async fn relay(&self, head: RelayHead, body: Bytes) -> Answer {
        let id = head.request_id.clone();
        match self.open(head, body).await {
            Ok(answers) => collect(id, answers).await,
            Err(status) => Answer {
                id,
                failure: Some(Failure::from_status(&status)),
                ..Answer::default()
            },
        }
    }

    pub async fn open(
        &self,
        head: RelayHead,
        body: Bytes,
    ) -> Result<Streaming<RelayResponse>, tonic::Status> {
        let message = RelayRequest {
            turn: 0,
            head: Some(head),
            body,
            end: true,
        };
        let answers = self.client.clone().relay(stream::iter([message])).await?;
        Ok(answers.into_inner())
    }

    pub async fn chat(&self, body: &Value) -> Answer {
        self.relay(self.head(Dialect::OpenaiChat), body.to_string().into())
            .await
    }

    /// The settlement of a request, once billing has it.
    pub async fn settlement(&self, id: &str) -> Settlement {
        let has = |state: &State| state.settled.iter().any(|s| s.request_id == id);
        self.world.until("a settlement", has).await;
        let state = self.world.state();
        let all: Vec<_> = state
            .settled
            .iter()
            .filter(|s| s.request_id == id)
            .collect();
        assert_eq!(all.len(), 1, "settled once");
        all[0].clone()
    }

    /// Ends the forwarder; nothing may be left over.
    pub async fn end(self) {
        let ended = self
            .lifecycle
            .shutdown(Duration::from_secs(30), Duration::from_secs(1))
            .await;
        assert!(ended, "tasks are left: {:?}", self.component.gauges());
        let gauges = self.component.gauges();
        let clean = Gauges {
            journal_bytes: gauges.journal_bytes,
            ..Gauges::default()
        };
        assert_eq!(gauges, clean);
        let state = self.world.state();
        for asked in &state.acquired {
            let id = &asked.request_id;
            let released = state.released.iter().filter(|(r, _)| r == id).count();
            // Where tokens are nearly used up they are counted first, and all else is told after the answer.
            let limited = state.rate_limits.iter().any(|limit| limit.unit == "tokens");
            let most = 1 + usize::from(limited);
            assert!(
                (1..=most).contains(&released),
                "releases of {id}: {released}"
            );
            let settled = state.settled.iter().any(|s| s.request_id == *id);
            let held = state.reserved.iter().any(|r| r.request_id == *id);
            assert!(
                !held || settled || state.voided.contains(id) || state.billing_down,
                "{id} holds money"
            );
        }
    }
}

pub async fn collect(id: String, mut answers: Streaming<RelayResponse>) -> Answer {
    let mut answer = Answer {
        id,
        ..Answer::default()
    };
    loop {
        match answers.message().await {
            Ok(Some(message)) => {
                if let Some(head) = message.head {
                    answer.status = head.status;
                    answer.headers = head.headers;
                    answer.event_stream = head.event_stream;
                }
                answer.frames += 1;
                answer.body.extend_from_slice(&message.frame);
                answer.ended |= message.end;
            }
            Ok(None) => return answer,
            Err(status) => {
                answer.failure = Some(Failure::from_status(&status));
                return answer;
            }
        }
    }
}
