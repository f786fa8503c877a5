//! Puts billing together: the only file that knows all layers.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use switchboard_common::{
    clock::SharedClock,
    db::Database,
    feed::Feed,
    grpc::{MAX_MESSAGE, Role, Rpc, local},
    lifecycle::Lifecycle,
    metrics::Metrics,
};
use switchboard_proto::billing::v1::{
    RecordRequest, ReserveRequest, billing_admin_server::BillingAdminServer,
    billing_server::BillingServer,
};
use switchboard_state::State;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    config::Config,
    domain::budget::{group_owner, tenant_owner},
    error::Error,
    grpc::{Admin, AdminService, BillingService, Service},
    observation::Observation,
    reaper::Reaper,
    reservation::Reservations,
    settlement::Settler,
    sheets::Sheets,
    store::{RECOUNTED, Store},
    terms_cache::TermsCache,
};

/// `billing.v1.Billing`'s methods that each request asks.
const RESERVE: &str = "/switchboard.billing.v1.Billing/Reserve";
const RECORD: &str = "/switchboard.billing.v1.Billing/Record";

/// How often a missing schema is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// What billing is given.
#[derive(Clone)]
pub struct Deps {
    /// Tells windows and ages.
    pub clock: SharedClock,
    /// Its tasks run on it.
    pub lifecycle: Lifecycle,
    /// Its metrics.
    pub metrics: Metrics,
    /// Its facts; migrated by whoever starts it, else it is not ready until the schema appears.
    pub database: Database,
    /// Holds.
    pub state: State,
}

/// Billing, running.
#[derive(Clone)]
pub struct Component {
    billing: BillingService,
    admin: AdminService,
    ready: watch::Receiver<bool>,
}

impl Component {
    /// Starts billing. It needs neither database nor state store to start; without its schema it is not ready.
    ///
    /// # Errors
    /// A setting does not hold.
    pub async fn start(config: Config, deps: Deps) -> Result<Self, Error> {
        if let Some(problem) = config.problem() {
            return Err(Error::Config(problem));
        }
        let Deps {
            clock,
            lifecycle,
            metrics,
            database,
            state,
        } = deps;
        let store = Store::new(database.clone());
        let feed = Feed::start(database, config.feed.clone(), &lifecycle);
        let terms = TermsCache::new(store.clone(), Arc::clone(&clock), &config);
        let reservations = Reservations::new(
            store.clone(),
            Arc::clone(&state.purses),
            Sheets::new(store.clone(), config.cached_sheets),
            terms,
            clock,
            Observation::new(&metrics),
            &config,
        );
        let settler = Settler::start(&config, reservations.clone(), &lifecycle);
        Reaper::start(
            &config,
            reservations.clone(),
            settler.clone(),
            state,
            &lifecycle,
        );
        follow_changes(feed.clone(), reservations.clone(), &lifecycle);
        let ready = watch_schema(store.clone(), &lifecycle).await;
        let admin = Admin {
            store,
            reservations: reservations.clone(),
            feed: feed.clone(),
            hold_limit: config.hold_limit,
        };
        let service = Service {
            reservations,
            settler,
            feed,
            lifecycle,
            unacknowledged: config.unacknowledged,
        };
        Ok(Self {
            billing: BillingService(Arc::new(service)),
            admin: AdminService(Arc::new(admin)),
            ready,
        })
    }

    /// For forwarders.
    #[must_use]
    pub fn server(&self) -> BillingServer<BillingService> {
        BillingServer::new(self.billing.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// The way to the service for a forwarder in this process.
    #[must_use]
    pub fn beside(&self, caller: Role) -> Rpc {
        let billing = self.billing.clone();
        let reserve = move |request: ReserveRequest| billing.clone().hold(request);
        let billing = self.billing.clone();
        let record = move |batches: ReceiverStream<RecordRequest>| {
            let answers = billing.take(batches.map(Ok));
            async move { Ok(answers) }
        };
        local(self.server(), caller)
            .offering(caller, RESERVE, reserve)
            .offering(caller, RECORD, record)
    }

    /// For admins.
    #[must_use]
    pub fn admin_server(&self) -> BillingAdminServer<AdminService> {
        BillingAdminServer::new(self.admin.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// Whether the schema was found. Once found, a database that goes away does not make billing unready: holds go on.
    #[must_use]
    pub fn ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Sees billing become ready.
    #[must_use]
    pub fn readiness(&self) -> watch::Receiver<bool> {
        self.ready.clone()
    }
}

async fn watch_schema(store: Store, lifecycle: &Lifecycle) -> watch::Receiver<bool> {
    let (sender, ready) = watch::channel(store.ready().await);
    if !*ready.borrow() {
        tracing::info!("billing waits for its database schema");
        let stopping = lifecycle.stopping();
        lifecycle.spawn("billing readiness", async move {
            while !store.ready().await {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
            tracing::info!("billing found its database schema");
            sender.send_replace(true);
        });
    }
    ready
}

/// Changes that any process made reach this one's memory, and its state store, within the feed's poll.
fn follow_changes(feed: Feed, reservations: Reservations, lifecycle: &Lifecycle) {
    let stopping = lifecycle.stopping();
    lifecycle.spawn("billing changes", async move {
        let mut since = 0;
        loop {
            let mut changes = feed.watch(since);
            loop {
                let message = tokio::select! {
                    () = stopping.cancelled() => return,
                    message = changes.next() => message,
                };
                let Some(Ok(message)) = message else {
                    break;
                };
                since = message.changes.last().map_or(message.head, |last| last.seq);
                for change in &message.changes {
                    reservations.note_change(&change.scope, &change.id).await;
                }
            }
            reservations.terms.doubt_all();
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    });
}

impl Reservations {
    /// A budget's id is its tenant's or its group's name: both are forgotten.
    async fn note_change(&self, scope: &str, id: &str) {
        if scope == RECOUNTED {
            return self.refresh_windows(id).await;
        }
        if !matches!(scope, "tenant" | "budget") {
            return;
        }
        for owner in [tenant_owner(id), group_owner(id)] {
            self.terms.forget(&owner).await;
        }
        if scope == "tenant" {
            self.refresh_balance(id).await;
        }
    }
}
