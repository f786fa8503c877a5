//! Settings of the scheduler. Every default stands here.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_common::feed::FeedConfig;

/// Settings of the scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How its change feed is tailed, which bounds how late another process's version is seen.
    #[serde(skip)]
    pub feed: FeedConfig,
    /// Requests that may wait in this process, all models together. `10000`.
    pub queue_total: usize,
    /// How often the first of a line looks again when no hint comes. `250ms`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub queue_poll: Duration,
    /// How long an account lets newcomers step back after a waiter asked for it. `1s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub waiter_mark: Duration,
    /// How often health and load of the shared state are taken over. `500ms`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub health_refresh: Duration,
    /// The longest rest of an account without which a model has nobody left. `60s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub last_account_cooldown: Duration,
    /// Versions kept compiled besides the current one; older ones are loaded again when a pinned request needs them. `16`.
    pub kept_versions: usize,
    /// Candidates asked for a slot in one pass. `64`.
    pub tries: usize,
    /// Candidates told to the forwarder. `32`.
    pub candidates: usize,
    /// How long it is remembered which account keeps a response: so long it can be continued and asked for. `30d`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub response_ttl: Duration,
    /// Responses of which that is kept in memory; others are looked up. `100000`.
    pub responses_known: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            feed: FeedConfig::default(),
            queue_total: 10_000,
            queue_poll: Duration::from_millis(250),
            waiter_mark: Duration::from_secs(1),
            health_refresh: Duration::from_millis(500),
            last_account_cooldown: Duration::from_secs(60),
            kept_versions: 16,
            tries: 64,
            candidates: 32,
            response_ttl: Duration::from_secs(30 * 24 * 3_600),
            responses_known: 100_000,
        }
    }
}

impl Config {
    /// Checks what serde cannot.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), crate::Error> {
        let wrong = if self.queue_poll.is_zero() {
            "scheduler.queue_poll: expected more than nothing, such as `250ms`"
        } else if self.health_refresh.is_zero() || self.health_refresh > Duration::from_secs(1) {
            "scheduler.health_refresh: expected more than nothing and at most `1s`"
        } else if self.tries == 0 || self.candidates == 0 {
            "scheduler.tries, scheduler.candidates: expected at least 1"
        } else {
            return Ok(());
        };
        Err(crate::Error::Config(wrong))
    }
}
