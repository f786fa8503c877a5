//! Settings of the token-refresh role.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_common::{feed::FeedConfig, settings};

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
