//! What auth counts. Labels are closed sets: nothing that a caller writes becomes one.

use std::time::Duration;

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use switchboard_common::metrics::{Durations, Metrics};

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Source {
    /// The key's form alone.
    Form,
    /// Keys remembered as unknown.
    Memory,
    /// The state store.
    State,
    /// SQL.
    Database,
    /// An old entry, since the database could not be asked.
    Grace,
}

/// What the answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    /// A known key.
    Known,
    /// No such key.
    Unknown,
    /// It could not be checked.
    Unavailable,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AnswerLabels {
    pub(crate) source: Source,
    pub(crate) outcome: Outcome,
}

/// Auth's metrics. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    answers: Family<AnswerLabels, Counter>,
    /// Look-ups in the database right now.
    pub(crate) lookups: Gauge,
    /// Time of a look-up's query.
    pub(crate) lookup_seconds: Durations,
    /// Reads and writes of the state store that failed; the database is asked instead.
    pub(crate) cache_failures: Counter,
}

impl Meters {
    /// Registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            answers: metrics.register(
                "auth_answers",
                "Checked keys by where the answer came from",
                Family::default(),
            ),
            lookups: metrics.register(
                "auth_lookups_running",
                "Look-ups of keys in the database right now",
                Gauge::default(),
            ),
            lookup_seconds: metrics.register(
                "auth_lookup_seconds",
                "Time of a look-up's query",
                Durations::exponential(Duration::from_micros(100), 4, 8),
            ),
            cache_failures: metrics.register(
                "auth_cache_failures",
                "Reads and writes of the state store that failed",
                Counter::default(),
            ),
        }
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, source: Source, outcome: Outcome) {
        self.answers
            .get_or_create(&AnswerLabels { source, outcome })
            .inc();
    }
}
