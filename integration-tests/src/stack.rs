//! A whole Switchboard under test.
//!
//! Topologies: all roles in this process on SQLite and memory ([`Stack::in_process`]); every role on its own sockets, in
//! this process, on PostgreSQL and Redis ([`Stack::split`]); the real program, one process a role
//! ([`Stack::processes`]) or one for all ([`Stack::embedded`]).
//!
//! What a scenario asks of a stack goes through the product's own surfaces (HTTP, gRPC, admin gRPC through an edge,
//! `/metrics`), so that all topologies answer alike. The state store is looked at directly where there is a way to it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fake_upstream::FakeUpstream;
use switchboard::apply::{AdminClients, Outcome};
use switchboard::settings::Settings;
use switchboard_common::grpc::Role;
use switchboard_state::State;
use tempfile::TempDir;

use crate::caller::Caller;
use crate::setup::{Setup, secret_of};
use crate::stores::Stores;
use crate::tracing_here::TracingHere;

mod admin;
mod build;
mod end;
mod grpc;
mod part;
mod program;
mod view;

pub use admin::Applied;
pub use build::Builder;
pub use grpc::GrpcCaller;
pub use program::{Program, binary};
pub use view::Tenant;

/// How long a condition is waited for.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Where the parts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// All roles in this process, SQLite and memory.
    InProcess,
    /// Every role on its own sockets in this process, PostgreSQL and Redis.
    Split,
    /// The real program, one process a role, PostgreSQL and Redis.
    Processes,
    /// The real program, one process for all, SQLite and memory.
    Embedded,
}

/// See the module's page. It must be ended with [`Stack::finish`].
pub struct Stack {
    /// What serves the accounts.
    pub upstream: FakeUpstream,
    /// PostgreSQL and Redis, where the topology has them.
    pub stores: Option<Stores>,
    topology: Topology,
    parts: Vec<part::Part>,
    setup: Setup,
    admin_token: String,
    settings: Settings,
    /// A way to the shared state when no part of ours runs in this process.
    own_state: Option<(State, switchboard_common::lifecycle::Lifecycle)>,
    finished: bool,
    dir: Arc<TempDir>,
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}

impl Stack {
    /// All roles in this process.
    #[must_use]
    pub fn in_process() -> Builder {
        Builder::new(Topology::InProcess)
    }

    /// Every role on its own sockets.
    #[must_use]
    pub fn split() -> Builder {
        Builder::new(Topology::Split)
    }

    /// The real program, one process a role.
    #[must_use]
    pub fn processes() -> Builder {
        Builder::new(Topology::Processes)
    }

    /// The real program, one process for all.
    #[must_use]
    pub fn embedded() -> Builder {
        Builder::new(Topology::Embedded)
    }

    /// Where the parts run.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// The catalogue that is applied.
    #[must_use]
    pub fn setup(&self) -> Setup {
        self.setup.clone()
    }

    /// The settings that all parts have in common.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The directory of everything that this stack writes.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// HTTP addresses of all edges.
    #[must_use]
    pub fn edges(&self) -> Vec<SocketAddr> {
        self.parts_of(Role::Edge).map(part::Part::http).collect()
    }

    /// Addresses of the forwarders' public gRPC.
    #[must_use]
    pub fn public_grpc(&self) -> Vec<String> {
        self.parts_of(Role::Forwarder)
            .map(|part| format!("http://{}", part.grpc()))
            .collect()
    }

    /// Address of a role's internal gRPC listener.
    ///
    /// # Panics
    /// It has none.
    #[must_use]
    pub fn internal(&self, role: Role) -> String {
        let mut parts = self.parts_of(role);
        let part = parts.next().unwrap_or_else(|| panic!("no {role} runs"));
        part.internal()
            .unwrap_or_else(|| panic!("{role} has no internal listener"))
    }

    /// The file with the key of keys that all parts share.
    #[must_use]
    pub fn master_key_file(&self) -> PathBuf {
        self.settings
            .master_key_file
            .clone()
            .expect("the harness sets it")
    }

    /// Data directory of the process with a role; of the first, where there are several.
    ///
    /// # Panics
    /// None has it.
    #[must_use]
    pub fn data_dir(&self, role: Role) -> PathBuf {
        let mut parts = self.parts_of(role);
        parts
            .next()
            .expect("a part has the role")
            .data_dir()
            .to_owned()
    }

    /// The bootstrap admin's token.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// A caller with the key of this name, at all edges in turn.
    #[must_use]
    pub fn caller(&self, key: &str) -> Caller {
        self.bearer(&secret_of(key))
    }

    /// A caller with this credential.
    #[must_use]
    pub fn bearer(&self, credential: &str) -> Caller {
        Caller::new(&self.edges(), credential)
    }

    /// A caller over gRPC, at the first forwarder.
    #[must_use]
    pub fn grpc_caller(&self, key: &str) -> GrpcCaller {
        GrpcCaller::new(&self.public_grpc()[0], &secret_of(key))
    }

    /// The process of a role that runs as a program, to be killed and started again.
    ///
    /// # Panics
    /// There is none.
    pub fn program(&mut self, role: Role, index: usize) -> &mut Program {
        let mut parts = self.parts.iter_mut().filter(|part| part.has(role));
        let part = parts.nth(index).expect("a part has the role");
        part.program_mut().expect("the part is a program")
    }

    /// Traces of what runs in this process.
    #[must_use]
    pub fn traces(&self) -> &'static TracingHere {
        TracingHere::get()
    }

    /// Admin clients through the first edge, as the command line has them.
    #[must_use]
    pub fn admin(&self) -> AdminClients {
        admin::clients(self.edges()[0], &self.admin_token)
    }

    /// The transport of [`admin`](Self::admin).
    #[must_use]
    pub fn admin_rpc(&self) -> switchboard_common::grpc::Rpc {
        admin::rpc(&format!("http://{}", self.edges()[0]), &self.admin_token)
    }

    /// Applies a catalogue through an edge.
    ///
    /// # Panics
    /// It is refused.
    pub async fn apply(&mut self, setup: Setup) -> Outcome {
        let outcome = self.try_apply(&setup).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("the catalogue is refused: {error}"));
        self.setup = setup;
        outcome
    }

    /// Applies a catalogue through an edge; the error is what the command line prints.
    ///
    /// # Errors
    /// It is refused.
    pub async fn try_apply(&self, setup: &Setup) -> Result<Outcome, String> {
        let text = setup.text(&self.upstream.base_url(), &self.secrets());
        admin::apply(&self.admin(), &text).await
    }

    /// The applied catalogue's text.
    #[must_use]
    pub fn catalogue_text(&self, setup: &Setup) -> String {
        setup.text(&self.upstream.base_url(), &self.secrets())
    }

    /// Applies with these clients: to let one of them fail.
    ///
    /// # Errors
    /// It is refused.
    pub async fn try_apply_with(
        &self,
        clients: &AdminClients,
        setup: &Setup,
    ) -> Result<Outcome, String> {
        admin::apply(clients, &self.catalogue_text(setup)).await
    }

    fn secrets(&self) -> PathBuf {
        self.dir.path().join("secrets")
    }

    fn parts_of(&self, role: Role) -> impl Iterator<Item = &part::Part> {
        self.parts.iter().filter(move |part| part.has(role))
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// It does not within [`PATIENCE`]; `what` says what was waited for.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, holds).await.is_err() {
        panic!("waited in vain until {what}");
    }
}
