//! Billing's settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_common::{feed::FeedConfig, settings::duration};

/// Billing's settings. Times are texts such as `5ms`, `60s`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long settlements are gathered before they are committed together.
    #[serde(with = "duration")]
    pub gather: Duration,
    /// Settlements in one transaction at most.
    pub batch: usize,
    /// Settlements of all streams that wait for a transaction at most; beyond them streams are not read.
    pub queue: usize,
    /// Settlements and touches of one stream that are not acknowledged at most.
    pub unacknowledged: usize,
    /// How long a transaction may take before it is tried again.
    #[serde(with = "duration")]
    pub commit_timeout: Duration,
    /// How long a request waits for the database before it is refused with 503.
    #[serde(with = "duration")]
    pub read_timeout: Duration,
    /// How long a request that would be refused, or whose answer would be cut short, waits for what other requests hold to come
    /// back: an answer that just ended is settled a moment later. More than `gather` and a commit; 0: not at all.
    #[serde(with = "duration")]
    pub hold_patience: Duration,
    /// A request of which nothing was heard for this long is settled provisionally (BILL-5).
    #[serde(with = "duration")]
    pub silence: Duration,
    /// No silence counts within this long after our own start, the database's recovery, the state store's loss.
    #[serde(with = "duration")]
    pub reaper_grace: Duration,
    /// How often silent holds are looked for.
    #[serde(with = "duration")]
    pub reaper_interval: Duration,
    /// A hold that is silent for longer than this is an error of `ledger verify`. More than `silence` + `reaper_grace`.
    #[serde(with = "duration")]
    pub hold_limit: Duration,
    /// Output that is expected of a model of which nothing is known yet, tokens.
    pub expected_output: u64,
    /// Output that a strict hold covers where neither request nor model names a maximum, tokens.
    pub undeclared_output: u64,
    /// The least output that a strict hold may pay for, tokens; below it the request is refused.
    pub least_output: u64,
    /// Models whose usual output is remembered at most.
    pub remembered_models: usize,
    /// Tenants and groups whose budgets are kept in memory at most.
    pub cached_owners: u64,
    /// Sheets that are kept in memory at most.
    pub cached_sheets: usize,
    /// Budgets are read again after this long when no change was told.
    #[serde(with = "duration")]
    pub terms_refresh: Duration,
    /// Without the database, budgets this old still serve.
    #[serde(with = "duration")]
    pub terms_grace: Duration,
    /// The change feed.
    #[serde(skip)]
    pub feed: FeedConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(25),
            batch: 256,
            queue: 8_192,
            unacknowledged: 4_096,
            commit_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(2),
            hold_patience: Duration::from_millis(100),
            silence: Duration::from_secs(60),
            reaper_grace: Duration::from_secs(60),
            reaper_interval: Duration::from_secs(5),
            hold_limit: Duration::from_secs(150),
            expected_output: 4_096,
            undeclared_output: 16_384,
            least_output: 256,
            remembered_models: 1_024,
            cached_owners: 100_000,
            cached_sheets: 100_000,
            terms_refresh: Duration::from_secs(60),
            terms_grace: Duration::from_secs(300),
            feed: FeedConfig::default(),
        }
    }
}

impl Config {
    /// What is wrong with it, if anything.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let positive = [
            ("batch", self.batch),
            ("queue", self.queue),
            ("unacknowledged", self.unacknowledged),
            ("remembered_models", self.remembered_models),
            ("cached_sheets", self.cached_sheets),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Some(format!("billing.{name} is 0; expected at least 1"));
        }
        if self.cached_owners == 0 {
            return Some("billing.cached_owners is 0; expected at least 1".to_owned());
        }
        if self.reaper_interval.is_zero() {
            return Some("billing.reaper_interval is 0; expected more, such as `5s`".to_owned());
        }
        (self.hold_limit <= self.silence + self.reaper_interval).then(|| {
            "billing.hold_limit must be more than billing.silence + billing.reaper_interval, else holds that are being \
             settled are reported as errors"
                .to_owned()
        })
    }
}
