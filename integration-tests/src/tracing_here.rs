//! Logs and traces of everything that runs inside the test process, started once for all its tests: a process has one
//! subscriber, and the exporter must outlive the runtimes of single tests.

use std::sync::OnceLock;

use switchboard_common::telemetry::{LogFormat, Telemetry, TelemetryConfig};

use crate::collector::Collector;

/// The process's collector and what exports to it.
pub struct TracingHere {
    /// What was exported.
    pub collector: Collector,
    telemetry: Telemetry,
    _runtime: tokio::runtime::Runtime,
}

impl std::fmt::Debug for TracingHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TracingHere")
    }
}

impl TracingHere {
    /// The one of this process. `SWITCHBOARD_TEST_LOG` is a log filter; without it nothing is logged.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn get() -> &'static Self {
        static HERE: OnceLock<TracingHere> = OnceLock::new();
        HERE.get_or_init(|| {
            // A thread of its own: a runtime cannot be entered inside another.
            std::thread::scope(|scope| scope.spawn(start).join().expect("tracing starts"))
        })
    }

    /// Sends on what has ended so far.
    pub fn flush(&self) {
        self.telemetry.force_flush();
    }
}

fn start() -> TracingHere {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("tracing")
        .enable_all()
        .build()
        .expect("a runtime");
    let entered = runtime.enter();
    let collector = Collector::start().expect("a collector");
    let config = TelemetryConfig {
        log: std::env::var("SWITCHBOARD_TEST_LOG").unwrap_or_else(|_| "off".to_owned()),
        log_format: LogFormat::Text,
        otlp_endpoint: collector.endpoint(),
        sample_per_mille: 1_000,
    };
    let telemetry = Telemetry::start(&config, "switchboard-tests").expect("telemetry starts once");
    drop(entered);
    TracingHere {
        collector,
        telemetry,
        _runtime: runtime,
    }
}
