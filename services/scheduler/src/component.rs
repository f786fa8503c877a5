//! Puts the scheduler together: the only file that knows all its layers.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use switchboard_common::{
    clock::SharedClock,
    db::Database,
    feed::Feed,
    grpc::{MAX_MESSAGE, Role, Rpc, local},
    ids::RequestId,
    lifecycle::Lifecycle,
    metrics::Metrics,
};
use switchboard_proto::scheduler::v1::{
    AcquireRequest, LeaseUpdates, scheduler_admin_server::SchedulerAdminServer,
    scheduler_server::SchedulerServer,
};
use switchboard_state::State;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{
    Config, Error,
    domain::known::Registry,
    flow::{Catalogue, Core},
    grpc::{AdminService, SchedulerService},
    metrics::Counted,
    store::Versions,
};

/// `scheduler.v1.Scheduler`'s methods that each request asks.
const ACQUIRE: &str = "/switchboard.scheduler.v1.Scheduler/Acquire";
const LEASES: &str = "/switchboard.scheduler.v1.Scheduler/Leases";

/// What the scheduler needs from its process.
pub struct Deps {
    /// Wall time.
    pub clock: SharedClock,
    /// Runs its tasks.
    pub lifecycle: Lifecycle,
    /// Takes its metrics.
    pub metrics: Metrics,
    /// Its own tables.
    pub database: Database,
    /// Slots, buckets, health, hints.
    pub state: State,
    /// How long a lease lives without a renewal: `state.lease_ttl`.
    pub lease_ttl: Duration,
}

/// A running scheduler. Clones share it.
#[derive(Clone)]
pub struct Component {
    core: Arc<Core>,
    lifecycle: Lifecycle,
}

impl Component {
    /// Starts it. The database may be away, or its schema missing: then it is not ready until they are there.
    ///
    /// # Errors
    /// A setting is out of its range.
    #[expect(
        clippy::unused_async,
        reason = "every component starts alike; others connect here"
    )]
    pub async fn start(config: Config, deps: Deps) -> Result<Self, Error> {
        config.check()?;
        let counted = Counted::new(&deps.metrics);
        let registry = Arc::new(Registry::default());
        let feed = Feed::start(deps.database.clone(), config.feed.clone(), &deps.lifecycle);
        let instance = RequestId::generate(deps.clock.now_ms()).as_uuid();
        let responses = crate::flow::Responses::new(
            deps.database.clone(),
            Arc::clone(&deps.clock),
            config.response_ttl,
            config.responses_known,
        );
        let core = Arc::new(Core {
            responses,
            catalogue: Catalogue::new(
                Versions::new(deps.database),
                feed,
                Arc::clone(&deps.clock),
                Arc::clone(&registry),
                counted.clone(),
                config.kept_versions,
            ),
            room: Arc::new(crate::flow::Room::new(config.queue_total, counted.clone())),
            clock: deps.clock,
            lease_ttl: deps.lease_ttl,
            admission: deps.state.admission,
            health: deps.state.health,
            hints: deps.state.hints,
            registry,
            table: crate::flow::Table::default(),
            observed: crate::flow::Observed::default(),
            returns: crate::flow::Returns::default(),
            counted,
            instance,
            config,
        });
        core.start(&deps.lifecycle);
        Ok(Self {
            core,
            lifecycle: deps.lifecycle,
        })
    }

    /// The service for forwarders.
    #[must_use]
    pub fn server(&self) -> SchedulerServer<SchedulerService> {
        let service = SchedulerService::new(Arc::clone(&self.core), self.lifecycle.stopping());
        SchedulerServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// The way to the service for a forwarder in this process.
    #[must_use]
    pub fn beside(&self, caller: Role) -> Rpc {
        let core = Arc::clone(&self.core);
        let acquire = move |request: AcquireRequest| {
            let core = Arc::clone(&core);
            async move { core.acquire(&request).await.map_err(Status::from) }
        };
        let core = Arc::clone(&self.core);
        let leases = move |batches: ReceiverStream<LeaseUpdates>| {
            let acks = SchedulerService::acknowledge(&core, batches.map(Ok));
            async move { Ok(acks) }
        };
        local(self.server(), caller)
            .offering(caller, ACQUIRE, acquire)
            .offering(caller, LEASES, leases)
    }

    /// The service for admins.
    #[must_use]
    pub fn admin_server(&self) -> SchedulerAdminServer<AdminService> {
        SchedulerAdminServer::new(AdminService::new(Arc::clone(&self.core)))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// Whether the catalogue was read from the database; an empty one counts.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.core.catalogue.is_loaded()
    }

    /// Requests that wait in this process.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.core.room.len()
    }
}
