//! The clock as a parameter, so that tests decide what time it is.
//!
//! Wall time only: for intervals use `tokio::time`, which tests can pause.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// Tells the time of day.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch.
    fn now_us(&self) -> i64;

    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64 {
        self.now_us() / 1_000
    }
}

/// A clock that everyone may hold.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now_us(&self) -> i64 {
        // A clock before 1970 is a broken machine; 0 keeps ids and windows well-formed.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| {
                i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX)
            })
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Starts at `ms` milliseconds since the Unix epoch.
    #[must_use]
    pub fn at_ms(ms: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(ms.saturating_mul(1_000))))
    }

    /// Moves on by `ms` milliseconds.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms.saturating_mul(1_000), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
