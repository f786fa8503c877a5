//! `/livez`, `/readyz` and `/metrics` of a role (OPS-2). Ready means: what serving needs is there, no more.

use std::sync::Arc;

use axum::{Router, http::StatusCode, routing::get};
use parking_lot::RwLock;

use crate::metrics::Metrics;

/// A named condition of readiness.
type Check = (&'static str, Arc<dyn Fn() -> bool + Send + Sync>);

/// What a process needs before it may be given requests.
#[derive(Clone, Default)]
pub struct Readiness(Arc<RwLock<Vec<Check>>>);

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.missing()).finish()
    }
}

impl Readiness {
    /// Adds a condition under a name that operators see.
    pub fn require(&self, name: &'static str, met: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.write().push((name, Arc::new(met)));
    }

    /// Conditions that are not met.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        self.0
            .read()
            .iter()
            .filter(|(_, met)| !met())
            .map(|(name, _)| *name)
            .collect()
    }

    /// Whether all are met.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.missing().is_empty()
    }
}

/// The three routes.
pub fn router(readiness: Readiness, metrics: Vec<Metrics>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route(
            "/readyz",
            get(move || {
                let missing = readiness.missing();
                async move {
                    if missing.is_empty() {
                        (StatusCode::OK, "ok\n".to_owned())
                    } else {
                        let text = format!("waiting for: {}\n", missing.join(", "));
                        (StatusCode::SERVICE_UNAVAILABLE, text)
                    }
                }
            }),
        )
        .route(
            "/metrics",
            get(move || {
                let text = merge(metrics.iter().map(Metrics::render));
                async move {
                    (
                        [(
                            "content-type",
                            "application/openmetrics-text; version=1.0.0; charset=utf-8",
                        )],
                        text,
                    )
                }
            }),
        )
}

/// Several roles of one process in one scrape: one end mark.
fn merge(texts: impl Iterator<Item = String>) -> String {
    let mut merged = String::new();
    for text in texts {
        merged.push_str(text.trim_end().trim_end_matches("# EOF"));
    }
    merged.push_str("# EOF\n");
    merged
}
