//! From a topology and a catalogue to a running stack.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fake_upstream::FakeUpstream;
use switchboard::settings::Settings;
use switchboard_common::clock::SystemClock;
use switchboard_common::grpc::{Address, Role};
use switchboard_common::lifecycle::Lifecycle;
use switchboard_state::State;

use super::{PATIENCE, Stack, Topology, eventually, part::Part};
use crate::setup::Setup;
use crate::stores::Stores;
use crate::tracing_here::TracingHere;

/// The services that have facts, in the order in which they start.
const OWNERS: [Role; 4] = [
    Role::Auth,
    Role::Scheduler,
    Role::TokenRefresh,
    Role::Billing,
];

type Tweak = Box<dyn Fn(&mut Settings) + Send>;

/// What a stack is to be.
pub struct Builder {
    topology: Topology,
    forwarders: usize,
    setup: Setup,
    tweaks: Vec<Tweak>,
    redis_url: Option<String>,
    stores: Option<Stores>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(topology: Topology) -> Self {
        Self {
            topology,
            forwarders: 1,
            setup: Setup::simple(),
            tweaks: Vec::new(),
            redis_url: None,
            stores: None,
        }
    }

    /// The catalogue; [`Setup::simple`] without it.
    #[must_use]
    pub fn setup(mut self, setup: Setup) -> Self {
        self.setup = setup;
        self
    }

    /// So many forwarders, and an edge before each.
    #[must_use]
    pub fn forwarders(mut self, count: usize) -> Self {
        self.forwarders = count;
        self
    }

    /// Changes settings of all parts.
    #[must_use]
    pub fn settings(mut self, tweak: impl Fn(&mut Settings) + Send + 'static) -> Self {
        self.tweaks.push(Box::new(tweak));
        self
    }

    /// Stores started before, and a way to its Redis that goes through a proxy.
    #[must_use]
    pub fn stores(mut self, stores: Stores, redis_url: Option<String>) -> Self {
        self.stores = Some(stores);
        self.redis_url = redis_url;
        self
    }

    /// Starts everything and waits until it is ready and serves the catalogue.
    ///
    /// # Panics
    /// Something does not start; the message says what.
    pub async fn start(self) -> Stack {
        match self.try_start().await {
            Ok(stack) => stack,
            Err(error) => panic!("the stack does not start: {error:#}"),
        }
    }

    async fn try_start(mut self) -> anyhow::Result<Stack> {
        TracingHere::get();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = Arc::new(tempfile::Builder::new().prefix("sb-").tempdir_in("/tmp")?);
        let shared = matches!(self.topology, Topology::Split | Topology::Processes);
        let stores = match self.stores.take() {
            Some(stores) => Some(stores),
            None if shared => Some(Stores::start().await?),
            None => None,
        };
        std::fs::create_dir_all(dir.path().join("secrets"))?;
        let admin_token = format!("sb-admin-{}", "7".repeat(64));
        let mut settings = short_settings();
        // Where a program of its own looks for them, so that its command line finds them too.
        let secrets = match self.topology {
            Topology::Embedded => dir.path().join("all"),
            _ => dir.path().to_owned(),
        };
        std::fs::create_dir_all(&secrets)?;
        settings.master_key_file = Some(private(secrets.join("master.key"), &"4d".repeat(32))?);
        settings.admin_token_file = Some(private(secrets.join("admin.token"), &admin_token)?);
        if let Some(stores) = &stores {
            settings.database.url = stores.database_url.clone();
            settings.redis.url = self
                .redis_url
                .clone()
                .unwrap_or_else(|| stores.redis_url.clone());
        }
        for tweak in &self.tweaks {
            tweak(&mut settings);
        }
        if shared {
            switchboard::migrate::run(&settings).await?;
        }
        let own_state = match (&stores, self.topology) {
            (Some(stores), Topology::Processes) => {
                let life = Lifecycle::new();
                let mut config = settings.state.clone();
                config.url = Some(stores.redis_url.clone().into());
                Some((
                    State::redis(&config, Arc::new(SystemClock), &life).await?,
                    life,
                ))
            }
            _ => None,
        };
        let mut starting = Starting {
            topology: self.topology,
            settings: settings.clone(),
            root: dir.path().to_owned(),
            parts: Vec::new(),
        };
        starting.start_all(self.forwarders).await?;
        let parts = starting.parts;
        let upstream = FakeUpstream::start().await?;
        let mut stack = Stack {
            upstream,
            stores,
            topology: self.topology,
            parts,
            setup: Setup::new(),
            admin_token,
            settings,
            own_state,
            finished: false,
            dir,
        };
        stack.when_ready().await;
        stack.apply(self.setup).await;
        stack.when_serving().await;
        Ok(stack)
    }
}

/// Settings under which tests need not wait: what takes seconds in production takes a moment here.
fn short_settings() -> Settings {
    let mut settings = Settings::default();
    let any = || Some("127.0.0.1:0".parse::<Address>().expect("an address"));
    settings.listen.http = any();
    settings.listen.grpc = any();
    settings.feed.poll = Duration::from_millis(50);
    settings.feed.reconnect = Duration::from_millis(50);
    settings.forwarder.progress = Duration::from_millis(200);
    settings.forwarder.reconnect = Duration::from_millis(50);
    settings.forwarder.reconnect_max = Duration::from_millis(200);
    settings.scheduler.queue_poll = Duration::from_millis(50);
    settings.scheduler.health_refresh = Duration::from_millis(100);
    settings.state.lease_ttl = Duration::from_secs(3);
    settings.state.lease_renew = Duration::from_millis(500);
    settings.state.probe_interval = Duration::from_millis(100);
    // A loaded machine is no lost store; scenarios that lose it choose their own.
    settings.state.timeout = Duration::from_secs(5);
    settings.shutdown.grace = Duration::from_secs(20);
    settings.shutdown.last = Duration::from_secs(5);
    settings.telemetry.log = "info".to_owned();
    settings
}

/// A file for our eyes only.
fn private(path: PathBuf, text: &str) -> anyhow::Result<PathBuf> {
    switchboard_common::secret::write_private(&path, text.as_bytes())
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

struct Starting {
    topology: Topology,
    settings: Settings,
    root: PathBuf,
    parts: Vec<Part>,
}

impl Starting {
    async fn start_all(&mut self, forwarders: usize) -> anyhow::Result<()> {
        match self.topology {
            Topology::InProcess | Topology::Embedded => {
                let mut settings = self.settings.clone();
                settings.listen.internal = Some(self.internal("all"));
                self.start("all", &Role::ALL, settings).await?;
                let all = self.address(0);
                for index in 1..forwarders {
                    let mut settings = self.settings.clone();
                    for role in OWNERS {
                        peers(&mut settings, role, std::slice::from_ref(&all));
                    }
                    let name = format!("more-{index}");
                    self.start(&name, &[Role::Edge, Role::Forwarder], settings)
                        .await?;
                }
            }
            Topology::Split | Topology::Processes => {
                let mut settings = self.settings.clone();
                for role in OWNERS {
                    let mut own = self.settings.clone();
                    own.listen.internal = Some(self.internal(role.name()));
                    self.start(role.name(), &[role], own).await?;
                    let address = self.address(self.parts.len() - 1);
                    peers(&mut settings, role, &[address]);
                }
                let mut addresses = Vec::new();
                for index in 0..forwarders {
                    let name = format!("forwarder-{index}");
                    let mut own = settings.clone();
                    own.listen.internal = Some(self.internal(&name));
                    self.start(&name, &[Role::Forwarder], own).await?;
                    addresses.push(self.address(self.parts.len() - 1));
                }
                for index in 0..forwarders {
                    let mut own = settings.clone();
                    // Each edge has every forwarder, its own first.
                    let mut of_edge = addresses.clone();
                    of_edge.rotate_left(index);
                    peers(&mut own, Role::Forwarder, &of_edge);
                    self.start(&format!("edge-{index}"), &[Role::Edge], own)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Programs get a Unix socket, whose address stays when they are started again.
    fn internal(&self, name: &str) -> Address {
        if self.programs() {
            Address::Unix(self.root.join(format!("{name}.sock")))
        } else {
            "127.0.0.1:0".parse().expect("an address")
        }
    }

    fn programs(&self) -> bool {
        matches!(self.topology, Topology::Processes | Topology::Embedded)
    }

    fn address(&self, index: usize) -> String {
        self.parts[index].internal().expect("an internal listener")
    }

    async fn start(
        &mut self,
        name: &str,
        roles: &[Role],
        settings: Settings,
    ) -> anyhow::Result<()> {
        let dir = self.root.join(name);
        let part = if self.programs() {
            Part::program(name, roles, &settings, &dir).await
        } else {
            Part::here(roles, settings, &dir).await
        };
        self.parts.push(part.with_context(|| name.to_owned())?);
        Ok(())
    }
}

fn peers(settings: &mut Settings, role: Role, addresses: &[String]) {
    let peers = &mut settings.peers;
    let place = match role {
        Role::Auth => &mut peers.auth,
        Role::Scheduler => &mut peers.scheduler,
        Role::TokenRefresh => &mut peers.token_refresh,
        Role::Billing => &mut peers.billing,
        Role::Forwarder => &mut peers.forwarder,
        Role::Edge => return,
    };
    *place = addresses.to_vec();
}

impl Stack {
    /// Waits until every part is ready.
    pub(super) async fn when_ready(&self) {
        let ready = async {
            while !self.parts.iter().all(Part::is_ready) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, ready).await.is_err() {
            let missing: Vec<String> = self.parts.iter().map(Part::missing).collect();
            panic!("not ready; missing: {missing:?}");
        }
    }

    /// Waits until every forwarder has the catalogue that was applied.
    pub async fn when_serving(&self) {
        let Some(key) = self.setup.some_key() else {
            return;
        };
        let expected = self.setup.model_names();
        for edge in 0..self.edges().len() {
            let caller = self.caller(&key).at(edge);
            eventually("every edge lists the catalogue's models", async || {
                let answer = caller.get("/v1/models").await;
                answer.status == 200
                    && expected.iter().all(|name| {
                        String::from_utf8_lossy(&answer.body).contains(&format!("\"{name}\""))
                    })
            })
            .await;
        }
    }
}
