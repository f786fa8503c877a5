//! What requests taught about accounts and their models (SCHED-3, SCHED-9): moving averages and cooldowns.
//!
//! Averages are exponential, α = 0.2, moved at most once a second by that second's mean, so that 1,000 requests a second do not
//! forget in 5 ms. Without samples they drift back to neutral. Choosing by them is the scheduler's.

use std::{collections::HashMap, sync::Arc, time::Duration};

use switchboard_common::ids::AccountName;

use crate::error::Error;

/// The weight of the newest second.
pub const ALPHA: f64 = 0.2;

/// What health is kept of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The account.
    pub account: AccountName,
    /// The upstream's model; absent: the account itself.
    pub model: Option<Arc<str>>,
}

/// What some attempts at a target taught.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Where.
    pub target: Target,
    /// Attempts that succeeded.
    pub ok: u32,
    /// Attempts that failed by the target's fault.
    pub failed: u32,
    /// Sum of the times to first content of `first_tokens` attempts, microseconds.
    pub first_token_us: u64,
    /// How many attempts that sum is of.
    pub first_tokens: u32,
}

/// Takes a target out of use for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// Which.
    pub target: Target,
    /// For how long, at least.
    pub hold: Duration,
    /// Double the hold with each cooldown since the last success, up to this. Absent: the hold as it is.
    pub backoff_max: Option<Duration>,
    /// Why: a short word for people, such as `rate_limited`.
    pub reason: Arc<str>,
}

/// What a cooldown came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooled {
    /// In use again from then on, Unix milliseconds on the asker's clock.
    pub until_ms: i64,
    /// Cooldowns since the last success, this one included; such that come while it is cooled anyway count once.
    pub strikes: u32,
}

/// A target's health.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TargetHealth {
    /// Share of failures, 0 to 1, already drifted towards 0.
    pub error_rate: f64,
    /// Average time to first content, microseconds; absent while unknown.
    pub ttft_us: Option<f64>,
    /// How much the averages still say, 1 fresh to 0: halves with every half-life without samples.
    pub freshness: f64,
    /// Attempts seen.
    pub samples: u64,
    /// Out of use until then, Unix milliseconds on the asker's clock; 0: not.
    pub cooled_until_ms: i64,
    /// Why it is out of use; empty: it is not.
    pub reason: Arc<str>,
    /// Cooldowns since the last success.
    pub strikes: u32,
    /// When it was last observed, Unix milliseconds on the asker's clock; 0: never.
    pub last_ms: i64,
}

/// Health of all targets.
#[async_trait::async_trait]
pub trait Health: Send + Sync {
    /// Adds what was seen. Batched by the caller.
    async fn observe(&self, observations: &[Observation]) -> Result<(), Error>;

    /// Cools a target. Of two holds the later counts.
    async fn cool(&self, cooldown: &Cooldown) -> Result<Cooled, Error>;

    /// Lifts the cooldowns of one account's targets, or of all; answers how many.
    async fn reset(&self, account: Option<&AccountName>) -> Result<u32, Error>;

    /// Everything that is known. Meant to be asked once a second, not per request.
    async fn snapshot(&self) -> Result<HashMap<Target, TargetHealth>, Error>;
}
