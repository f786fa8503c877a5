//! Logs and traces of a process (OBS-1, OBS-3): JSON lines on stderr, spans by OTLP when a collector is configured.
//!
//! Spans have the target `trace`. While nothing is exported no layer wants them, and they cost nothing. Exporting is
//! batched and never on a request's path.

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use serde::{Deserialize, Serialize};
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::LevelFilter, filter::Targets, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// What is logged and where spans go.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Log filter: a level, or directives such as `info,switchboard_billing=debug`. By default without each step of each
    /// schema migration, which sea-orm tells at `info`.
    pub log: String,
    /// `json` or `text`.
    pub log_format: LogFormat,
    /// OTLP collector over gRPC, such as `http://127.0.0.1:4317`; empty: no spans.
    pub otlp_endpoint: String,
    /// Share of traces that are kept, in per mille. A caller's own sampling decision is followed.
    pub sample_per_mille: u32,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For a person at a terminal.
    Text,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            log: "info,sea_orm_migration=warn".to_owned(),
            log_format: LogFormat::Json,
            otlp_endpoint: String::new(),
            sample_per_mille: 1_000,
        }
    }
}

impl TelemetryConfig {
    /// Checks what serde cannot.
    ///
    /// # Errors
    /// A log filter that is none.
    pub fn check(&self) -> Result<(), Error> {
        self.filter().map(drop)
    }

    fn filter(&self) -> Result<EnvFilter, Error> {
        EnvFilter::try_new(&self.log).map_err(|_| Error::Filter(self.log.clone()))
    }
}

/// Why telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `telemetry.log`.
    #[error("telemetry.log: `{0}` is no filter; expected a level such as `info`")]
    Filter(String),
    /// `telemetry.otlp_endpoint`.
    #[error("telemetry.otlp_endpoint: {0}")]
    Exporter(String),
    /// A subscriber is set already.
    #[error("telemetry is started already in this process")]
    Twice,
}

/// Held by `main`: flushes when the program ends.
#[derive(Debug, Default)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Starts logging and, with a collector, exporting. Must run inside the Tokio runtime.
    ///
    /// # Errors
    /// A setting is wrong, or telemetry was started before.
    pub fn start(config: &TelemetryConfig, service: &str) -> Result<Self, Error> {
        let filter = config.filter()?;
        let provider = if config.otlp_endpoint.is_empty() {
            None
        } else {
            Some(provider(config, service)?)
        };
        // Log lines of a traced request carry its trace id: then they must see the spans.
        let spans = if provider.is_some() {
            "trace=info"
        } else {
            "trace=off"
        };
        let filter =
            filter.add_directive(spans.parse().map_err(|_| Error::Filter(spans.to_owned()))?);
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let lines = match config.log_format {
            LogFormat::Json => lines
                .json()
                .flatten_event(true)
                .with_span_list(false)
                .boxed(),
            LogFormat::Text => lines.boxed(),
        };
        // Without an exporter there must be no layer for it, not an empty one: that would have every span and every
        // event of every crate built, only to be thrown away.
        let mut layers = vec![lines.with_filter(filter).boxed()];
        if let Some(provider) = &provider {
            let exported = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("switchboard"))
                .with_location(false)
                .with_threads(false)
                .with_filter(Targets::new().with_target("trace", LevelFilter::INFO));
            layers.push(exported.boxed());
        }
        tracing_subscriber::registry()
            .with(layers)
            .try_init()
            .map_err(|_| Error::Twice)?;
        Ok(Self { provider })
    }

    /// Sends what is pending, within `limit`.
    pub async fn flush(self, limit: Duration) {
        if let Some(provider) = self.provider {
            // The exporter blocks; it must not hold the runtime, nor the exit for longer than `limit`.
            let flushing = tokio::task::spawn_blocking(move || provider.shutdown());
            let _ = tokio::time::timeout(limit, flushing).await;
        }
    }

    /// Sends what is pending now, and goes on. For tests that read what was exported.
    pub fn force_flush(&self) {
        if let Some(provider) = &self.provider {
            let _ = provider.force_flush();
        }
    }
}

fn provider(config: &TelemetryConfig, service: &str) -> Result<SdkTracerProvider, Error> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&config.otlp_endpoint)
        .with_timeout(Duration::from_secs(5))
        .build()
        .map_err(|error| Error::Exporter(error.to_string()))?;
    let share = f64::from(config.sample_per_mille.min(1_000)) / 1_000.0;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
            share,
        ))))
        .with_resource(
            Resource::builder()
                .with_service_name(service.to_owned())
                .build(),
        )
        .build())
}
