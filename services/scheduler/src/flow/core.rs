//! What all calls share.

use std::{sync::Arc, time::Duration};

use switchboard_common::{clock::SharedClock, lifecycle::Lifecycle};
use switchboard_state::{admission::Admission, health::Health, hints::Hints};

use super::{
    catalogue::Catalogue, health::Observed, responses::Responses, room::Room, table::Table,
    undo::Returns,
};
use crate::{config::Config, domain::known::Registry, metrics::Counted};

/// The scheduler's parts.
pub struct Core {
    /// Settings.
    pub config: Config,
    /// Wall time.
    pub clock: SharedClock,
    /// How long a lease lives without a renewal.
    pub lease_ttl: Duration,
    /// Slots and buckets.
    pub admission: Arc<dyn Admission>,
    /// Averages and cooldowns.
    pub health: Arc<dyn Health>,
    /// Wake-ups between processes.
    pub hints: Arc<dyn Hints>,
    /// What is known now.
    pub registry: Arc<Registry>,
    /// The versions.
    pub catalogue: Catalogue,
    /// Who keeps which response.
    pub responses: Responses,
    /// Who waits.
    pub room: Arc<Room>,
    /// Who holds.
    pub table: Table,
    /// What attempts taught since the last refresh.
    pub observed: Observed,
    /// What is to be given back by calls that were dropped.
    pub returns: Returns,
    /// Metrics.
    pub counted: Counted,
    /// Tells own hints from others'.
    pub instance: uuid::Uuid,
}

impl Core {
    /// Starts everything that runs without being asked.
    pub fn start(self: &Arc<Self>, lifecycle: &Lifecycle) {
        let run = |name, task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            lifecycle.spawn(name, task);
        };
        // The catalogue and wake-ups are needed by whoever still waits; returns until all callers are gone.
        let stopping = lifecycle.stopping();
        let killed = lifecycle.killed();
        let core = Arc::clone(self);
        let end = stopping.clone();
        run(
            "catalogue tail",
            Box::pin(async move {
                tokio::select! { () = core.catalogue.tail() => {}, () = end.cancelled() => {} }
            }),
        );
        let core = Arc::clone(self);
        let end = stopping.clone();
        run(
            "health refresh",
            Box::pin(async move {
                tokio::select! { () = core.refresh_health() => {}, () = end.cancelled() => {} }
            }),
        );
        let core = Arc::clone(self);
        let end = stopping.clone();
        run(
            "release hints",
            Box::pin(async move {
                tokio::select! { () = core.hear_hints() => {}, () = end.cancelled() => {} }
            }),
        );
        let core = Arc::clone(self);
        let end = stopping.clone();
        run(
            "response sweep",
            Box::pin(async move {
                tokio::select! { () = core.responses.sweep() => {}, () = end.cancelled() => {} }
            }),
        );
        let core = Arc::clone(self);
        run(
            "returns",
            Box::pin(async move { core.give_returns(&stopping, &killed).await }),
        );
    }
}
