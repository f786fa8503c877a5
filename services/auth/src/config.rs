//! Settings of the auth role.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_common::{feed::FeedConfig, settings};

use crate::error::Error;

/// Settings of the auth role. Every bound and lifetime is here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long an entry of the state store is taken without asking the database.
    #[serde(with = "settings::duration")]
    pub cache_ttl: Duration,
    /// How much longer it is taken while the database cannot be asked (AUTH-6).
    #[serde(with = "settings::duration")]
    pub grace: Duration,
    /// How long an unknown key is remembered as unknown.
    #[serde(with = "settings::duration")]
    pub unknown_ttl: Duration,
    /// How many unknown keys are remembered.
    pub unknown_capacity: u64,
    /// Look-ups in the database at the same time.
    pub lookups: usize,
    /// Look-ups that run or wait; one more is answered with "unavailable" at once.
    pub lookup_queue: usize,
    /// How long a look-up waits for its turn.
    #[serde(with = "settings::duration")]
    pub lookup_wait: Duration,
    /// How long a query of a look-up may take.
    #[serde(with = "settings::duration")]
    pub query_timeout: Duration,
    /// What callers are told to wait when their key could not be checked. For as long, entries in their grace are answered
    /// without trying the database again.
    #[serde(with = "settings::duration")]
    pub retry_after: Duration,
    /// How long a replaced secret stays good (AUTH-2). `0s`: not at all. A secret of a disabled key gets none.
    #[serde(with = "settings::duration")]
    pub rotation_overlap: Duration,
    /// Tenants and groups whose latest change is remembered; beyond it all entries are read again.
    pub floors: usize,
    /// The change feed.
    #[serde(skip)]
    pub feed: FeedConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_ttl: Duration::from_secs(300),
            grace: Duration::from_secs(300),
            unknown_ttl: Duration::from_secs(5),
            unknown_capacity: 100_000,
            lookups: 64,
            lookup_queue: 16_384,
            lookup_wait: Duration::from_secs(2),
            query_timeout: Duration::from_secs(2),
            retry_after: Duration::from_secs(1),
            rotation_overlap: Duration::from_secs(3_600),
            floors: 100_000,
            feed: FeedConfig::default(),
        }
    }
}

impl Config {
    /// Checks what serde cannot.
    ///
    /// # Errors
    /// The first setting that cannot be right.
    pub fn check(&self) -> Result<(), Error> {
        for (name, wrong) in [
            ("cache_ttl", self.cache_ttl.is_zero()),
            ("query_timeout", self.query_timeout.is_zero()),
            ("lookup_wait", self.lookup_wait.is_zero()),
            ("lookups", self.lookups == 0),
            ("lookup_queue", self.lookup_queue == 0),
            ("floors", self.floors == 0),
            ("feed.poll", self.feed.poll.is_zero()),
        ] {
            if wrong {
                return Err(Error::Setting {
                    name,
                    message: "must be above 0",
                });
            }
        }
        Ok(())
    }
}
