//! What the forwarder counts. Labels are bounded: a model is a catalogue name or `other`, a code is the error table's.

use std::{sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use switchboard_common::metrics::{Durations, Metrics};

/// A request that ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Ended {
    /// Catalogue name of the model, or `other`.
    pub(crate) model: String,
    /// What the caller got.
    pub(crate) status: u16,
    /// Wire code; empty: none.
    pub(crate) code: &'static str,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Failed {
    /// The account.
    pub(crate) account: String,
    /// How.
    pub(crate) kind: &'static str,
}

/// The model's name as a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByModel {
    /// Catalogue name of the model.
    pub(crate) model: String,
}

/// See the module's page. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    pub(crate) requests: Family<Ended, Counter>,
    pub(crate) failures: Family<Failed, Counter>,
    pub(crate) first_token: Family<ByModel, Durations>,
    pub(crate) total: Family<ByModel, Durations>,
    pub(crate) retries: Counter,
    pub(crate) unpriced: Counter,
    pub(crate) prompts_counted: Counter,
    pub(crate) unbound: Counter,
    pub(crate) in_flight: Gauge,
    pub(crate) buffered: Gauge,
    pub(crate) bodies: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) idle_connections: Gauge,
    pub(crate) journal_bytes: Gauge<u64, AtomicU64>,
    pub(crate) unsettled: Gauge<u64, AtomicU64>,
    pub(crate) journal_damaged: Counter,
}

/// 1 ms to about 17 minutes.
fn seconds() -> Durations {
    Durations::exponential(Duration::from_millis(1), 2, 21)
}

impl Meters {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            requests: metrics.register(
                "forwarder_requests",
                "Requests that ended, by model, status and error code",
                Family::default(),
            ),
            failures: metrics.register(
                "upstream_failures",
                "Attempts that failed, by account and kind",
                Family::default(),
            ),
            first_token: metrics.register(
                "first_token_seconds",
                "From the request's arrival to its first content",
                Family::new_with_constructor(seconds as fn() -> Durations),
            ),
            total: metrics.register(
                "request_seconds",
                "From the request's arrival to its end",
                Family::new_with_constructor(seconds as fn() -> Durations),
            ),
            retries: metrics.register(
                "upstream_retries",
                "Attempts after the first one of a request",
                Counter::default(),
            ),
            unpriced: metrics.register(
                "unpriced_requests",
                "Requests refused because the model has no price",
                Counter::default(),
            ),
            prompts_counted: metrics.register(
                "forwarder_prompts_counted",
                "Requests whose input was counted while they ran, or after their process had died",
                Counter::default(),
            ),
            unbound: metrics.register(
                "unbound_responses",
                "Responses of which it could not be written down who keeps them",
                Counter::default(),
            ),
            in_flight: metrics.register(
                "forwarder_in_flight_requests",
                "Requests that run now",
                Gauge::default(),
            ),
            buffered: metrics.register(
                "forwarder_buffered_bytes",
                "Bytes of answers that wait for their callers",
                Gauge::default(),
            ),
            bodies: metrics.register(
                "forwarder_request_body_bytes",
                "Bytes of request bodies in flight",
                Gauge::default(),
            ),
            connections: metrics.register(
                "upstream_connections",
                "Open connections to upstreams, idle ones included",
                Gauge::default(),
            ),
            idle_connections: metrics.register(
                "upstream_idle_connections",
                "Connections to upstreams that wait for a request",
                Gauge::default(),
            ),
            journal_bytes: metrics.register(
                "journal_size_bytes",
                "Size of the journal",
                Gauge::default(),
            ),
            unsettled: metrics.register(
                "journal_unacknowledged_settlements",
                "Settlements that billing has not acknowledged",
                Gauge::default(),
            ),
            journal_damaged: metrics.register(
                "journal_damaged_records",
                "Records that could not be read at start",
                Counter::default(),
            ),
        }
    }
}
