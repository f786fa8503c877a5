//! Puts the forwarder together: the only file that knows all of its parts.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use rand::rngs::StdRng;
use switchboard_common::{
    clock::SharedClock,
    feed,
    grpc::{MAX_ANSWER, MAX_MESSAGE, Role, Rpc, local},
    lifecycle::Lifecycle,
    metrics::Metrics,
    seal::Sealer,
    secret::SubKey,
};
use switchboard_proto::{
    auth::v1::auth_client::AuthClient,
    billing::v1::billing_client::BillingClient,
    common::v1::WatchChangesRequest,
    credentials::v1::credentials_client::CredentialsClient,
    inference::v1::{RelayRequest, inference_server::InferenceServer},
    scheduler::v1::scheduler_client::SchedulerClient,
};
use tokio::sync::watch;

use crate::{
    adapter::Adapters,
    asks::Asks,
    config::Config,
    courier::{Courier, Ends},
    domain::retry::RetryBudget,
    grpc::Inference,
    journal::{self, Journal, Recovered, Seals},
    metrics::Meters,
    pipe::Buffers,
    pipeline::Conductor,
    principals::Principals,
    roster::Roster,
    routes::{ToBilling, ToScheduler},
    supply::Supply,
    tokens::Tokens,
    upstream::Upstreams,
    vault::Vault,
    warnings::Warnings,
};

/// Whom the forwarder asks.
#[derive(Clone, Debug)]
pub struct Peers {
    /// Who callers are.
    pub auth: Rpc,
    /// Accounts and limits.
    pub scheduler: Rpc,
    /// Upstream credentials.
    pub credentials: Rpc,
    /// Money.
    pub billing: Rpc,
}

/// What a forwarder needs from outside.
pub struct Deps {
    /// The time of day.
    pub clock: SharedClock,
    /// Its tasks, and when to end them.
    pub lifecycle: Lifecycle,
    /// Where it counts.
    pub metrics: Metrics,
    /// Where its journal lies; its own directory.
    pub journal: PathBuf,
    /// With what it seals there what open requests ask: the sub-key of purpose `Journal`.
    pub journal_key: SubKey,
    /// For what must not be guessed.
    pub random: StdRng,
    /// Whom it asks.
    pub peers: Peers,
    /// What providers want.
    pub adapters: Adapters,
}

/// `inference.v1.Inference.Relay`.
const RELAY: &str = "/switchboard.inference.v1.Inference/Relay";

/// Why a forwarder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be.
    #[error("{0}")]
    Config(String),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// TLS for upstreams.
    #[error("TLS for upstreams cannot be set up: {0}")]
    Tls(io::Error),
}

/// A running forwarder. Clones share it.
#[derive(Clone)]
pub struct Component {
    conductor: Arc<Conductor>,
    lifecycle: Lifecycle,
}

/// What is in a forwarder now; for tests and diagnostics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests that run, settlement included.
    pub in_flight: usize,
    /// Bytes of answers that wait for their callers.
    pub buffered_bytes: usize,
    /// Bytes of request bodies.
    pub body_bytes: usize,
    /// Size of the journal, bytes.
    pub journal_bytes: u64,
    /// Settlements that billing has not acknowledged, as the journal knows them.
    pub unacknowledged: u64,
    /// Settlements on their way to billing.
    pub pending_settlements: usize,
    /// Releases on their way to the scheduler.
    pub pending_releases: usize,
}

impl Component {
    /// Reads the journal back and starts everything on the lifecycle. Peers need not be reachable yet.
    ///
    /// # Errors
    /// The journal's directory is unusable or taken, or TLS cannot be set up.
    pub async fn start(config: Config, deps: Deps) -> Result<Self, Error> {
        let Deps {
            clock,
            lifecycle,
            metrics,
            journal,
            journal_key,
            random,
            peers,
            adapters,
        } = deps;
        if let Some(problem) = config.problem() {
            return Err(Error::Config(problem));
        }
        let meters = Meters::new(&metrics);
        let seals = Seals {
            sealer: Sealer::new(&journal_key),
            random,
        };
        let opened = Journal::open(&config.journal, &journal, seals, &lifecycle);
        let (journal, recovered) = opened.await?;
        meters.journal_damaged.inc_by(recovered.damaged);
        report(&recovered);
        let billing = BillingClient::new(peers.billing.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let scheduler = SchedulerClient::new(peers.scheduler.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let asks = Asks::new(&peers, &scheduler, &billing);
        let auth = AuthClient::new(peers.auth);
        let credentials = CredentialsClient::new(peers.credentials);
        let conductor = Arc::new(Conductor {
            buffers: Buffers::new(config.buffer_total),
            bodies: Buffers::new(config.body_total),
            roster: Roster::new(Arc::clone(&clock), &lifecycle),
            principals: Principals::new(&config.principals, config.peer_timeout, auth.clone()),
            supply: Supply::follow(scheduler.clone(), config.feed.reconnect, &lifecycle),
            adapters,
            vault: Vault::new(config.credentials, config.peer_timeout, credentials.clone()),
            upstreams: Upstreams::new(&config.upstream, &lifecycle).map_err(Error::Tls)?,
            retries: RetryBudget::new(config.retry_share, config.retries_in_hand),
            tokens: Tokens::new(config.count_parallel),
            journal,
            warnings: Warnings::default(),
            money: Courier::new(config.pending),
            leases: Courier::new(config.pending),
            billing,
            scheduler,
            asks,
            clock,
            meters,
            config,
        });
        conductor.follow(&lifecycle, auth, credentials);
        if recovered.uncounted > 0 {
            conductor.money.promise();
            let settled = Arc::clone(&conductor).settle_lost(lifecycle.killed());
            lifecycle.spawn("lost requests", settled);
        }
        conductor.start_couriers(&lifecycle);
        Ok(Self {
            conductor,
            lifecycle,
        })
    }

    /// The server for the edge.
    #[must_use]
    pub fn server(&self) -> InferenceServer<Inference> {
        self.serve(true)
    }

    /// The way to it for an edge in this process.
    #[must_use]
    pub fn beside(&self, caller: Role) -> Rpc {
        let inference = Inference::new(&self.conductor, &self.lifecycle, true);
        let relay = move |request: RelayRequest| inference.clone().relay_whole(request);
        local(self.server(), caller).offering(caller, RELAY, relay)
    }

    /// The server for callers with an API key.
    #[must_use]
    pub fn public_server(&self) -> InferenceServer<Inference> {
        self.serve(false)
    }

    fn serve(&self, internal: bool) -> InferenceServer<Inference> {
        let inference = Inference::new(&self.conductor, &self.lifecycle, internal);
        InferenceServer::new(inference)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_ANSWER)
    }

    /// Whether requests can be served: the catalogue is known, and new ones are taken.
    #[must_use]
    pub fn ready(&self) -> bool {
        let conductor = &self.conductor;
        conductor.supply.current().is_some()
            && !conductor.roster.stopping()
            && !conductor.journal.refuses()
    }

    /// Sees each catalogue version that is in use; 0 before the first.
    #[must_use]
    pub fn catalogue_versions(&self) -> watch::Receiver<u64> {
        self.conductor.supply.versions()
    }

    /// What is in it now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.conductor.gauges()
    }
}

/// Tells what an earlier process left.
fn report(recovered: &Recovered) {
    if recovered.damaged > 0 {
        tracing::warn!(
            journal.owed = recovered.owed,
            journal.lost = recovered.lost,
            journal.damaged = recovered.damaged,
            "journal read back; damaged parts of it were left out"
        );
    } else if recovered.owed > 0 {
        tracing::info!(
            journal.owed = recovered.owed,
            journal.lost = recovered.lost,
            "journal read back"
        );
    }
    if recovered.other_key > 0 {
        tracing::warn!(
            journal.other_key = recovered.other_key,
            "open requests in the journal were sealed with another master key; their input stays estimated"
        );
    }
}

impl Conductor {
    fn gauges(&self) -> Gauges {
        Gauges {
            in_flight: self.roster.len(),
            buffered_bytes: self.buffers.used(),
            body_bytes: self.bodies.used(),
            journal_bytes: self.journal.bytes(),
            unacknowledged: self.journal.unacknowledged(),
            pending_settlements: self.money.pending(),
            pending_releases: self.leases.pending(),
        }
    }

    /// Obeys the change feeds of auth and the vault.
    fn follow(
        &self,
        lifecycle: &Lifecycle,
        auth: AuthClient<Rpc>,
        credentials: CredentialsClient<Rpc>,
    ) {
        let principals = self.principals.clone();
        feed::follow(
            "auth feed",
            self.config.feed.clone(),
            lifecycle,
            move |since| {
                let mut auth = auth.clone();
                async move {
                    let watch = auth.watch_changes(WatchChangesRequest { since });
                    Ok(watch.await?.into_inner())
                }
            },
            move |news| principals.hear(&news),
        );
        let vault = self.vault.clone();
        feed::follow(
            "credentials feed",
            self.config.feed.clone(),
            lifecycle,
            move |since| {
                let mut credentials = credentials.clone();
                async move {
                    let watch = credentials.watch_changes(WatchChangesRequest { since });
                    Ok(watch.await?.into_inner())
                }
            },
            move |news| vault.hear(&news),
        );
    }

    /// The streams to billing and the scheduler, and the signs of life that go over them.
    fn start_couriers(self: &Arc<Self>, lifecycle: &Lifecycle) {
        let ends = Ends {
            drained: self.roster.drained(),
            killed: lifecycle.killed(),
        };
        let to_billing = ToBilling {
            record: self.asks.record.clone(),
            journal: self.journal.clone(),
        };
        let money = self
            .money
            .clone()
            .run(to_billing, self.config.clone(), ends.clone());
        let journal = self.journal.clone();
        lifecycle.spawn("settlements", async move {
            money.await;
            journal.close().await;
        });
        let to_scheduler = ToScheduler {
            leases: self.asks.leases.clone(),
        };
        let leases = self
            .leases
            .clone()
            .run(to_scheduler, self.config.clone(), ends);
        lifecycle.spawn("leases", leases);
        let life = Arc::clone(&self.roster).show_life(
            self.config.clone(),
            self.leases.clone(),
            self.money.clone(),
            self.journal.clone(),
        );
        lifecycle.spawn("signs of life", life);
        let counts = Arc::clone(&self.roster).count_prompts(
            self.config.clone(),
            self.tokens.clone(),
            self.money.clone(),
            self.journal.clone(),
            self.meters.prompts_counted.clone(),
        );
        lifecycle.spawn("prompt counts", counts);
        lifecycle.spawn("gauges", Arc::clone(self).show_gauges());
        let (kept, drained) = (Arc::clone(self), self.roster.drained());
        let keep = async move { kept.upstreams.keep(drained).await };
        lifecycle.spawn("upstream connections", keep);
    }

    async fn show_gauges(self: Arc<Self>) {
        let drained = self.roster.drained();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = drained.cancelled() => return,
            }
            let now = self.gauges();
            let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            self.meters.in_flight.set(signed(now.in_flight));
            self.meters.buffered.set(signed(now.buffered_bytes));
            self.meters.bodies.set(signed(now.body_bytes));
            self.meters.journal_bytes.set(now.journal_bytes);
            self.meters.unsettled.set(now.unacknowledged);
            let connections = self.upstreams.connections();
            self.meters.connections.set(signed(connections.open));
            self.meters.idle_connections.set(signed(connections.idle));
        }
    }
}
