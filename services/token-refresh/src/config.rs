//! Settings of the token-refresh role.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_common::{feed::FeedConfig, settings};

use crate::error::Error;

/// Settings of the token-refresh role.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long a query for a credential may take.
    #[serde(with = "settings::duration")]
    pub query_timeout: Duration,
    /// What callers are told to wait when the database cannot be asked.
    #[serde(with = "settings::duration")]
    pub retry_after: Duration,
    /// Generations of a credential that are kept, the current one included.
    pub generations: u32,
    /// The change feed.
    #[serde(skip)]
    pub feed: FeedConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            query_timeout: Duration::from_secs(2),
            retry_after: Duration::from_secs(1),
            generations: 3,
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
            ("query_timeout", self.query_timeout.is_zero()),
            ("generations", self.generations == 0),
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
