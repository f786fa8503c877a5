//! The edge put together: listener, routes, probes, compression.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use switchboard_common::{clock::SharedClock, grpc::Rpc, lifecycle::Lifecycle, metrics::Metrics};
use tokio::net::TcpListener;

use crate::{
    Admins, Config, Error,
    api::{self, Edge},
    body::Budget,
    compression::Compression,
    connection,
    observed::Observed,
    relay::Forwarders,
    unread::Manners,
};

/// What the edge needs from the composition root.
pub struct Deps {
    /// The time.
    pub clock: SharedClock,
    /// Its life.
    pub lifecycle: Lifecycle,
    /// Its metrics.
    pub metrics: Metrics,
    /// The way to the forwarders.
    pub forwarders: Rpc,
    /// The way to the admin services.
    pub admins: Admins,
    /// `/livez`, `/readyz`, `/metrics` of the process.
    pub probes: Router,
}

/// A running edge.
#[derive(Debug)]
pub struct Component {
    address: SocketAddr,
    budget: Budget,
}

impl Component {
    /// Serves on a bound listener.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(config: Config, listener: TcpListener, deps: Deps) -> Result<Self, Error> {
        let address = listener.local_addr()?;
        let budget = Budget::default();
        let observed = Observed::new(&deps.metrics);
        let config = Arc::new(config);
        let manners = Manners {
            config: Arc::clone(&config),
            clock: deps.clock.clone(),
            observed: observed.clone(),
        };
        let edge = Edge {
            forwarders: Forwarders::new(&deps.forwarders, config.forwarder_tries),
            admins: deps.admins,
            clock: deps.clock,
            budget: budget.clone(),
            compression: Compression::from(config.compress_from),
            observed,
            config: Arc::clone(&config),
        };
        let router = api::router(edge).merge(deps.probes);
        let accepting = connection::accept(listener, router, manners, deps.lifecycle.clone());
        deps.lifecycle.spawn("edge", accepting);
        Ok(Self { address, budget })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes of request bodies held now.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.budget.held()
    }
}
