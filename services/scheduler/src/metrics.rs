//! What the scheduler counts. Labels are words of this file.

use std::{sync::atomic::AtomicI64, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use switchboard_common::{
    error::{Failure, Reason},
    metrics::{Durations, Metrics},
};

/// How a call to `Acquire` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the names are the labels' values")]
enum End {
    granted,
    queued_granted,
    rate_limited,
    full,
    queue_full,
    no_account,
    not_found,
    gone,
    failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: End,
}

/// The scheduler's metrics.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Requests that wait here.
    pub queue_waiters: Gauge<i64, AtomicI64>,
    /// Leases that this process granted and that are alive.
    pub slots_held: Gauge<i64, AtomicI64>,
    /// Accounts and targets that rest.
    pub cooldowns_active: Gauge<i64, AtomicI64>,
    /// The version in use.
    pub catalogue_version: Gauge<i64, AtomicI64>,
    queue_seconds: Durations,
    ends: [Counter; 9],
}

impl Counted {
    /// Registers them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let acquire = metrics.register(
            "acquire",
            "Asked for a lease, by how it ended",
            Family::<Labels, Counter>::default(),
        );
        let all = [
            End::granted,
            End::queued_granted,
            End::rate_limited,
            End::full,
            End::queue_full,
            End::no_account,
            End::not_found,
            End::gone,
            End::failed,
        ];
        Self {
            queue_waiters: metrics.register(
                "queue_waiters",
                "Requests that wait for a slot",
                Gauge::default(),
            ),
            slots_held: metrics.register(
                "slots_held",
                "Leases alive, granted by this process",
                Gauge::default(),
            ),
            cooldowns_active: metrics.register(
                "cooldowns_active",
                "Accounts and targets that rest",
                Gauge::default(),
            ),
            catalogue_version: metrics.register(
                "catalogue_version",
                "Number of the catalogue version in use",
                Gauge::default(),
            ),
            queue_seconds: metrics.register(
                "queue_wait_seconds",
                "Time in the queue of requests that waited",
                Durations::exponential(Duration::from_millis(1), 2, 16),
            ),
            ends: all.map(|outcome| acquire.get_or_create_owned(&Labels { outcome })),
        }
    }

    /// A lease was granted after so many microseconds in the queue; absent: it did not wait.
    pub fn granted(&self, queued_us: Option<u64>) {
        match queued_us {
            None => self.count(End::granted),
            Some(us) => {
                self.count(End::queued_granted);
                self.queue_seconds.observe(Duration::from_micros(us));
            }
        }
    }

    /// It was refused.
    pub fn refused(&self, failure: &Failure) {
        self.count(match failure.reason {
            Reason::RateLimitExceeded => End::rate_limited,
            Reason::ConcurrencyFull => End::full,
            Reason::QueueFull => End::queue_full,
            Reason::NoAccount | Reason::UpstreamCredentialsExhausted | Reason::UpstreamFailed => {
                End::no_account
            }
            Reason::ModelNotFound => End::not_found,
            Reason::CallerLeft => End::gone,
            _ => End::failed,
        });
    }

    fn count(&self, end: End) {
        if let Some(counter) = self.ends.get(end as usize) {
            counter.inc();
        }
    }
}
