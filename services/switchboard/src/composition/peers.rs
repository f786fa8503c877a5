//! How roles reach each other: a neighbour in this process, or balanced channels to others.

use axum::Router;
use switchboard_common::{
    grpc::{Role, Rpc, local, remote},
    lifecycle::Lifecycle,
    metrics::Metrics,
    secret::Purpose,
};
use switchboard_edge::Admins;
use tokio::net::TcpListener;

use super::{Error, Ground, Owners, owners::system_random};

/// The way from a role of this process to any other.
pub(super) struct Peers<'a> {
    ground: &'a Ground,
    owners: &'a Owners,
}

impl<'a> Peers<'a> {
    pub(super) fn new(ground: &'a Ground, owners: &'a Owners) -> Self {
        Self { ground, owners }
    }

    fn remote(&self, target: Role, caller: Role) -> Result<Rpc, Error> {
        remote(
            self.ground.settings.peers.of(target),
            caller,
            self.ground.tokens.clone(),
            &self.ground.settings.grpc,
        )
        .map_err(|message| Error::Peer {
            role: target,
            message,
        })
    }

    fn service(&self, target: Role, caller: Role) -> Result<Rpc, Error> {
        let owners = self.owners;
        let here = match target {
            Role::Auth => owners
                .auth
                .as_ref()
                .map(|auth| local(auth.server(), caller)),
            Role::Scheduler => owners
                .scheduler
                .as_ref()
                .map(|scheduler| scheduler.beside(caller)),
            Role::TokenRefresh => owners
                .token_refresh
                .as_ref()
                .map(|vault| local(vault.server(), caller)),
            Role::Billing => owners
                .billing
                .as_ref()
                .map(|billing| billing.beside(caller)),
            Role::Edge | Role::Forwarder => None,
        };
        here.map_or_else(|| self.remote(target, caller), Ok)
    }

    fn admin(&self, target: Role) -> Result<Rpc, Error> {
        let (owners, caller) = (self.owners, Role::Edge);
        let here = match target {
            Role::Auth => owners
                .auth
                .as_ref()
                .map(|auth| local(auth.admin_server(), caller)),
            Role::Scheduler => owners
                .scheduler
                .as_ref()
                .map(|scheduler| local(scheduler.admin_server(), caller)),
            Role::TokenRefresh => owners
                .token_refresh
                .as_ref()
                .map(|vault| local(vault.admin_server(), caller)),
            Role::Billing => owners
                .billing
                .as_ref()
                .map(|billing| local(billing.admin_server(), caller)),
            Role::Edge | Role::Forwarder => None,
        };
        here.map_or_else(|| self.remote(target, caller), Ok)
    }
}

pub(super) async fn start_forwarder(
    ground: &Ground,
    peers: &Peers<'_>,
    metrics: Metrics,
    lifecycle: Lifecycle,
) -> Result<switchboard_forwarder::Component, Error> {
    let deps = switchboard_forwarder::Deps {
        clock: ground.clock.clone(),
        lifecycle,
        metrics,
        journal: ground.dir.journal(),
        journal_key: ground.master.subkey(Purpose::Journal),
        random: system_random(),
        adapters: switchboard_forwarder::Adapters::default(),
        peers: switchboard_forwarder::Peers {
            auth: peers.service(Role::Auth, Role::Forwarder)?,
            scheduler: peers.service(Role::Scheduler, Role::Forwarder)?,
            credentials: peers.service(Role::TokenRefresh, Role::Forwarder)?,
            billing: peers.service(Role::Billing, Role::Forwarder)?,
        },
    };
    switchboard_forwarder::Component::start(ground.settings.forwarder.clone(), deps)
        .await
        .map_err(|error| Error::service(Role::Forwarder)(error.into()))
}

pub(super) fn start_edge(
    ground: &Ground,
    peers: &Peers<'_>,
    forwarder: Option<&switchboard_forwarder::Component>,
    metrics: Metrics,
    lifecycle: Lifecycle,
    listener: TcpListener,
    probes: Router,
) -> Result<switchboard_edge::Component, Error> {
    let forwarders = match forwarder {
        Some(forwarder) => forwarder.beside(Role::Edge),
        None => peers.remote(Role::Forwarder, Role::Edge)?,
    };
    let deps = switchboard_edge::Deps {
        clock: ground.clock.clone(),
        lifecycle,
        metrics,
        forwarders,
        admins: Admins::new(
            peers.admin(Role::Auth)?,
            peers.admin(Role::Scheduler)?,
            peers.admin(Role::TokenRefresh)?,
            peers.admin(Role::Billing)?,
        ),
        probes,
    };
    switchboard_edge::Component::start(ground.settings.edge.clone(), listener, deps)
        .map_err(|error| Error::service(Role::Edge)(error.into()))
}
