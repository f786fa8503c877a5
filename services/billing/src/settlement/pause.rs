//! Waiting out what may pass.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Longer and longer, and one line in the log.
#[derive(Debug, Default)]
pub(super) struct Pause {
    times: u32,
}

impl Pause {
    /// How often it waited.
    pub(super) fn times(&self) -> u32 {
        self.times
    }

    /// Waits, longer than the last time; the first time is logged.
    pub(super) async fn wait(&mut self, what: &str, error: &(impl std::fmt::Display + ?Sized)) {
        if self.times == 0 {
            tracing::warn!(%error, "{what}");
        }
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.times.min(6))
            .min(LONGEST_PAUSE);
        self.times = self.times.saturating_add(1);
        tokio::time::sleep(pause).await;
    }
}
