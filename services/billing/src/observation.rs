//! Billing's metrics (OBS-2). Labels are bounded: outcomes and kinds.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use switchboard_common::metrics::{Durations, Metrics};

/// What happened.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OutcomeLabel {
    pub(crate) outcome: &'static str,
}

/// Of which kind.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct KindLabel {
    pub(crate) kind: &'static str,
}

/// What billing counts.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) settlements: Family<OutcomeLabel, Counter>,
    pub(crate) lag: Durations,
    pub(crate) batches: Counter,
    pub(crate) failed_batches: Counter,
    pub(crate) queue: Gauge,
    pub(crate) holds_open: Gauge,
    pub(crate) reservations: Family<OutcomeLabel, Counter>,
    pub(crate) reaped: Family<OutcomeLabel, Counter>,
    pub(crate) dead_letters: Family<KindLabel, Counter>,
    pub(crate) unpriced: Family<KindLabel, Counter>,
    pub(crate) charge: Counter,
    pub(crate) cost: Counter,
    pub(crate) tokens: Family<KindLabel, Counter>,
    pub(crate) state_failures: Counter,
}

/// Where the buckets of a settlement's lag end, milliseconds.
const LAG_MS: [u64; 12] = [
    2, 5, 10, 20, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000,
];

impl Observation {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            settlements: metrics.register(
                "settlements",
                "Settlements by what became of them",
                Family::default(),
            ),
            lag: metrics.register(
                "settlement_lag_seconds",
                "From a settlement's arrival to its commit",
                Durations::new(LAG_MS.map(Duration::from_millis)),
            ),
            batches: metrics.register(
                "settlement_batches",
                "Transactions of settlements that were committed",
                Counter::default(),
            ),
            failed_batches: metrics.register(
                "settlement_failures",
                "Transactions of settlements that failed",
                Counter::default(),
            ),
            queue: metrics.register(
                "settlement_queue_items",
                "Settlements that wait for a transaction",
                Gauge::default(),
            ),
            holds_open: metrics.register(
                "holds_open",
                "Open holds of all tenants",
                Gauge::default(),
            ),
            reservations: metrics.register(
                "reservations",
                "Asked holds by outcome",
                Family::default(),
            ),
            reaped: metrics.register(
                "holds_reaped",
                "Silent holds by what became of them",
                Family::default(),
            ),
            dead_letters: metrics.register(
                "dead_letters",
                "Settlements that were put aside, by kind",
                Family::default(),
            ),
            unpriced: metrics.register(
                "unpriced",
                "Requests and attempts without a sheet, by kind",
                Family::default(),
            ),
            charge: metrics.register(
                "charge_nanos",
                "Charged to callers, nano-USD; provisional settlements too",
                Counter::default(),
            ),
            cost: metrics.register(
                "cost_nanos",
                "Cost of attempts, nano-USD; provisional settlements too",
                Counter::default(),
            ),
            tokens: metrics.register(
                "billed_tokens",
                "Tokens that callers were charged for, by kind",
                Family::default(),
            ),
            state_failures: metrics.register(
                "hold_state_failures",
                "Settled batches whose values did not reach the state store",
                Counter::default(),
            ),
        }
    }
}
