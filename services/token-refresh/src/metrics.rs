//! What the vault counts. No account becomes a label.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family},
};
use switchboard_common::metrics::Metrics;

use crate::error::Fault;

/// How a request for a credential ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Outcome {
    Given,
    Missing,
    Refused,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

/// The vault's metrics. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Meters(Family<Labels, Counter>);

impl Meters {
    /// Registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self(metrics.register(
            "credential_requests",
            "Requests of forwarders for a credential by outcome",
            Family::default(),
        ))
    }

    /// Counts a request.
    pub(crate) fn asked<T>(&self, result: &Result<T, Fault>) {
        let outcome = match result {
            Ok(_) => Outcome::Given,
            Err(Fault::NotFound(_) | Fault::Disabled(_)) => Outcome::Missing,
            Err(Fault::Role) => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        self.0.get_or_create(&Labels { outcome }).inc();
    }
}
