//! The composition root: which roles run in this process, and how they reach each other and the world (SURF-5).
//!
//! A role's clients are the same whether its peer runs here (in-process transport) or elsewhere (balanced channels); the
//! choice is made here and nowhere else. Each role gets only the sub-keys it needs.

mod listeners;
mod owners;
mod peers;

use std::{net::SocketAddr, sync::Arc};

use secrecy::SecretString;
use switchboard_common::{
    clock::{SharedClock, SystemClock},
    grpc::{Address, Role, ServiceTokens},
    lifecycle::Lifecycle,
    metrics::Metrics,
    probes::{self, Readiness},
    secret::MasterKey,
};
use switchboard_state::State;

use crate::{
    apply::AdminClients,
    data_dir::{self, DataDir},
    migrate,
    settings::{self, Settings, have_state},
};

pub use listeners::Listeners;
pub use owners::Owners;
use peers::Peers;

/// Why a process cannot start. Each says what to change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Settings contradict each other.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    /// The master key.
    #[error(transparent)]
    Key(#[from] switchboard_common::secret::Error),
    /// A schema.
    #[error(transparent)]
    Migrate(#[from] migrate::Error),
    /// Listeners, each with its setting.
    #[error("{0}")]
    Listen(String),
    /// An address of a peer.
    #[error("peers.{role}: {message}")]
    Peer {
        /// Whose.
        role: Role,
        /// What is wrong.
        message: String,
    },
    /// A database that does not answer.
    #[error(
        "database.url: no answer from {url} within {within:?} ({source}); start it, or correct the address"
    )]
    DatabaseAway {
        /// Without its password.
        url: String,
        /// `database.start_timeout`.
        within: std::time::Duration,
        /// The last failure.
        source: sea_orm::DbErr,
    },
    /// The state store.
    #[error("{0}")]
    State(#[from] switchboard_state::Error),
    /// A service.
    #[error("{role}: {message}")]
    Service {
        /// Which.
        role: Role,
        /// What it said.
        message: String,
    },
}

impl Error {
    fn service(role: Role) -> impl Fn(Box<dyn std::error::Error>) -> Self {
        move |error| Self::Service {
            role,
            message: error.to_string(),
        }
    }
}

/// What all roles of a process stand on.
pub struct Ground {
    /// Settings, each section as its service takes it.
    pub settings: Settings,
    /// The data directory.
    pub dir: DataDir,
    /// The time.
    pub clock: SharedClock,
    /// The key of keys.
    pub master: MasterKey,
    /// Proof of role.
    pub tokens: ServiceTokens,
    /// Hot state.
    pub state: State,
    /// The process's life.
    pub life: Lifecycle,
    /// The bootstrap admin's token, where auth runs.
    pub admin_token: Option<SecretString>,
    /// Whether the admin token was made just now.
    pub first_run: bool,
}

impl Ground {
    /// Reads keys and opens the state store.
    ///
    /// # Errors
    /// A key or the store is not usable.
    pub async fn prepare(settings: Settings, dir: DataDir, roles: &[Role]) -> Result<Self, Error> {
        let settings = settings.spread();
        let clock: SharedClock = Arc::new(SystemClock);
        let master = match &settings.master_key_file {
            Some(path) => MasterKey::load(path)?,
            None => dir.master_key()?,
        };
        let (admin_token, first_run) = match &settings.admin_token_file {
            _ if !roles.contains(&Role::Auth) => (None, false),
            Some(path) => (Some(data_dir::read_token(path)?), false),
            None => {
                let (token, made) = dir.admin_token()?;
                (Some(token), made)
            }
        };
        let life = Lifecycle::new();
        // Who keeps none connects to nobody: the edge and the forwarder get a memory that nobody uses.
        let state = if settings.redis.url.is_empty() || !have_state(roles) {
            State::memory_with(&settings.state, Arc::clone(&clock))
        } else {
            State::redis(&settings.state, Arc::clone(&clock), &life).await?
        };
        Ok(Self {
            tokens: ServiceTokens::new(&master, Arc::clone(&clock), settings.grpc.token_life),
            settings,
            dir,
            clock,
            master,
            state,
            life,
            admin_token,
            first_run,
        })
    }
}

/// A running process: its roles and its listeners.
pub struct Process {
    /// What it stands on.
    pub ground: Ground,
    /// HTTP: the API on the edge, probes on every role.
    pub http: SocketAddr,
    /// Public gRPC, where the forwarder runs.
    pub grpc: Option<Address>,
    /// gRPC for other roles, where there are any.
    pub internal: Option<Address>,
    /// What it needs before it may be given requests.
    pub readiness: Readiness,
    /// Services with facts that run here.
    pub owners: Owners,
    /// The forwarder, where it runs.
    pub forwarder: Option<switchboard_forwarder::Component>,
    /// The edge, where it runs.
    pub edge: Option<switchboard_edge::Component>,
    /// In the order in which they end.
    lives: Vec<Lifecycle>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("http", &self.http)
            .field("grpc", &self.grpc)
            .field("internal", &self.internal)
            .finish_non_exhaustive()
    }
}

impl Process {
    /// Starts the roles of a process, and then what was reserved for them.
    ///
    /// # Errors
    /// The first thing that cannot work, with what to change.
    pub async fn start(
        settings: Settings,
        listeners: Listeners,
        dir: DataDir,
        roles: &[Role],
    ) -> Result<Self, Error> {
        let ground = Ground::prepare(settings, dir, roles).await?;
        let readiness = Readiness::default();
        let mut metrics = Vec::new();
        let owners_life = ground.life.child();
        let owners = Owners::start(&ground, roles, &owners_life, &mut metrics).await?;
        owners.require(&readiness);
        let peers = Peers::new(&ground, &owners);

        let forwarder_life = ground.life.child();
        let forwarder = if roles.contains(&Role::Forwarder) {
            let own = Metrics::new();
            metrics.push(own.clone());
            let component =
                peers::start_forwarder(&ground, &peers, own, forwarder_life.clone()).await?;
            let ready = component.clone();
            readiness.require("forwarder", move || ready.ready());
            Some(component)
        } else {
            None
        };

        let (listener, public) = listeners
            .listen(&ground, &owners, forwarder.as_ref(), &forwarder_life)
            .await?;
        let http = listener
            .local_addr()
            .map_err(|error| Error::Listen(error.to_string()))?;
        let edge_life = ground.life.child();
        // Probes answer as long as anything is still being finished, and hold up nothing themselves.
        let probes_life = ground.life.child();
        let edge = if roles.contains(&Role::Edge) {
            let own = Metrics::new();
            metrics.push(own.clone());
            let probes = probes::router(readiness.clone(), metrics);
            Some(peers::start_edge(
                &ground,
                &peers,
                forwarder.as_ref(),
                own,
                edge_life.clone(),
                listener,
                probes,
            )?)
        } else {
            serve_probes(
                listener,
                probes::router(readiness.clone(), metrics),
                &probes_life,
            );
            None
        };
        Ok(Self {
            http,
            grpc: public.grpc,
            internal: public.internal,
            readiness,
            owners,
            forwarder,
            edge,
            lives: vec![
                edge_life,
                forwarder_life,
                owners_life,
                probes_life,
                ground.life.clone(),
            ],
            ground,
        })
    }

    /// Clients of all admin services, where all four run here.
    #[must_use]
    pub fn admin(&self) -> Option<AdminClients> {
        self.owners.admin()
    }

    /// Ends gently: the edge stops accepting, streams finish, what they cost is settled, then the rest goes. Tells
    /// whether everything ended by itself.
    pub async fn shutdown(self) -> bool {
        let shutdown = self.ground.settings.shutdown.clone();
        self.readiness.require("not stopping", || false);
        tokio::time::sleep(shutdown.announce).await;
        let deadline = tokio::time::Instant::now() + shutdown.grace;
        // What the edge no longer takes, the forwarder need not wait for.
        let mut clean = true;
        for life in &self.lives {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            clean &= life.shutdown(left.max(shutdown.last), shutdown.last).await;
        }
        self.owners.close().await;
        clean
    }
}

fn serve_probes(listener: tokio::net::TcpListener, router: axum::Router, life: &Lifecycle) {
    let stopping = life.stopping();
    life.spawn("probes", async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(stopping.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "probes ended");
        }
    });
}
