//! One metric registry per role, rendered at `/metrics`.
//!
//! Names are `switchboard_<noun>_<unit>`; labels are bounded: nothing that a caller writes becomes a label.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::encode,
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
