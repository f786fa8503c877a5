//! One metric registry per role, rendered at `/metrics`.
//!
//! Names are `switchboard_<noun>_<unit>`; labels are bounded: nothing that a caller writes becomes a label.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, text::encode},
    metrics::{MetricType, TypedMetric, histogram::Histogram},
    registry::{Metric, Registry},
};

/// A role's registry. Clones share it. The lock is taken at registration and at a scrape only.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registry::with_prefix("switchboard"))))
    }
}

impl Metrics {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metric under `switchboard_<name>`; counters get their `_total` from the encoder.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.0.lock().register(name, help, metric.clone());
        metric
    }

    /// The text of a scrape.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a `String` cannot fail.
        let _ = encode(&mut text, &self.0.lock());
        text
    }
}

/// How long things took: a histogram in seconds, as Prometheus wants it. The only place that turns time into floating point.
#[derive(Clone, Debug)]
pub struct Durations(Histogram);

impl Durations {
    /// Buckets that end at these durations, in rising order; a last one takes the rest.
    #[must_use]
    pub fn new(ends: impl IntoIterator<Item = Duration>) -> Self {
        Self(Histogram::new(
            ends.into_iter().map(|end| end.as_secs_f64()),
        ))
    }

    /// So many buckets: the first ends at `first`, each other one at `factor` times the end of the one before.
    #[must_use]
    pub fn exponential(first: Duration, factor: u32, count: usize) -> Self {
        let next = |end: &Duration| Some(end.saturating_mul(factor));
        Self::new(std::iter::successors(Some(first), next).take(count))
    }

    /// Counts one.
    pub fn observe(&self, took: Duration) {
        self.0.observe(took.as_secs_f64());
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_seconds_by_their_buckets() {
        let metrics = Metrics::new();
        let buckets = Durations::exponential(Duration::from_millis(1), 2, 3);
        let waits = metrics.register("wait_seconds", "Waits", buckets);
        for micros in [900, 1_500, 3_000_000] {
            waits.observe(Duration::from_micros(micros));
        }
        let text = metrics.render();
        for line in [
            "# TYPE switchboard_wait_seconds histogram",
            "switchboard_wait_seconds_bucket{le=\"0.001\"} 1",
            "switchboard_wait_seconds_bucket{le=\"0.002\"} 2",
            "switchboard_wait_seconds_bucket{le=\"0.004\"} 2",
            "switchboard_wait_seconds_bucket{le=\"+Inf\"} 3",
            "switchboard_wait_seconds_sum 3.0024",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
