//! The edge's metrics: requests by route and status, in flight, bytes of bodies.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use switchboard_common::metrics::Metrics;

/// Labels of a finished request: both sets are closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    status: u16,
}

/// What the edge counts.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    answered: Family<Answered, Counter<u64, AtomicU64>>,
    in_flight: Gauge<i64, AtomicI64>,
    connections: Gauge<i64, AtomicI64>,
}

impl Observed {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            answered: metrics.register(
                "edge_requests",
                "HTTP requests answered, by route and status",
                Family::default(),
            ),
            in_flight: metrics.register(
                "edge_requests_in_flight",
                "HTTP requests whose answer has not ended",
                Gauge::default(),
            ),
            connections: metrics.register(
                "edge_connections",
                "Open HTTP connections",
                Gauge::default(),
            ),
        }
    }

    pub(crate) fn answered(&self, route: &'static str, status: u16) {
        self.answered
            .get_or_create(&Answered { route, status })
            .inc();
    }

    /// Counts a request as in flight until the guard goes; `None`: there are `most` already.
    pub(crate) fn enter(&self, most: usize) -> Option<InFlight> {
        let before = self.in_flight.inc();
        let guard = InFlight(Arc::new(Leaving(self.in_flight.clone())));
        (usize::try_from(before).unwrap_or(0) < most).then_some(guard)
    }

    pub(crate) fn connected(&self) -> InFlight {
        self.connections.inc();
        InFlight(Arc::new(Leaving(self.connections.clone())))
    }
}

/// One request (or connection) that is there.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "held for its drop")]
pub(crate) struct InFlight(Arc<Leaving>);

#[derive(Debug)]
struct Leaving(Gauge<i64, AtomicI64>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.dec();
    }
}
