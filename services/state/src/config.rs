//! Settings of the state store. Every default stands here.

use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::{error::Error, redis::Address};

/// The longest lease that the stored layout keeps.
pub const MAX_LEASE_TTL: Duration = Duration::from_secs(300);

/// What happens when the shared store does not answer (OPS-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The operation fails; the request is refused with 503.
    Closed,
    /// The process goes on by itself with limit ÷ `replicas`.
    LocalShare,
    /// The operation passes without a limit.
    Open,
}

/// One policy per concern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policies {
    /// Concurrency slots of tenants and accounts. `local_share`.
    pub slots: Policy,
    /// Requests and tokens per time. `local_share`.
    pub rates: Policy,
    /// Holds against balances and budgets. `local_share`: each process spends its share of the last values it was given.
    pub holds: Policy,
    /// Auth's shared cache. `open`: look-ups go to the database. `local_share` is the same with a private cache.
    pub cache: Policy,
    /// Averages and cooldowns. `open`: nothing is known. `local_share`: what this process saw itself.
    pub health: Policy,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            slots: Policy::LocalShare,
            rates: Policy::LocalShare,
            holds: Policy::LocalShare,
            cache: Policy::Open,
            health: Policy::Open,
        }
    }
}

/// Settings of the state store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// Of the Redis backend: `redis://[USER:PASSWORD@]HOST:PORT[/DB]`, `rediss://…`, `redis+unix:///PATH`; of a Cluster or of
    /// Sentinels several, with commas between. Absent: memory, for one process. It may bear a password and is never printed.
    #[serde(skip)]
    pub url: Option<SecretString>,
    /// Whether `url` names nodes of a Redis Cluster. `false`.
    pub cluster: bool,
    /// Whether `url` names Sentinels, and of which master. Absent: it does not.
    pub sentinel_master: Option<String>,
    /// First part of every key and channel: the layout's version. `sb:1:`.
    pub prefix: String,
    /// Longest wait for one operation. `50ms`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub timeout: Duration,
    /// Longest wait for a connection. `1s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub connect_timeout: Duration,
    /// Failures in a row after which operations fail at once. `5`.
    pub breaker_failures: u32,
    /// How often a broken store is asked whether it is back, and a working one whether it kept its memory. `500ms`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub probe_interval: Duration,
    /// Processes that share the limits while the store is away. `1`.
    pub replicas: u32,
    /// Policies while the store is away.
    pub on_failure: Policies,
    /// How long a lease lives without a renewal, at most `5m`. `30s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub lease_ttl: Duration,
    /// How often leases are renewed. `10s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub lease_renew: Duration,
    /// How long a released request refuses late grants, renewals and touches. `60s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub tombstone: Duration,
    /// Without samples health loses half of what it says in this time. `60s`.
    #[serde(with = "switchboard_common::settings::duration")]
    pub health_half_life: Duration,
    /// Most bytes of the memory cache, and of each process's own cache under `local_share`. `67108864` (64 MiB).
    pub cache_max_bytes: u64,
    /// Longest draft kept with a hold, bytes; a longer one leaves the last. `65536`.
    pub draft_max_bytes: usize,
    /// Most releases, voids and settlements kept for a store that is away. Beyond it the oldest go: their leases end and
    /// their holds fall silent by themselves. `100000`.
    pub backlog: usize,
}

impl Default for StateConfig {
    fn default() -> Self {
        Self {
            url: None,
            cluster: false,
            sentinel_master: None,
            prefix: "sb:1:".into(),
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            breaker_failures: 5,
            probe_interval: Duration::from_millis(500),
            replicas: 1,
            on_failure: Policies::default(),
            lease_ttl: Duration::from_secs(30),
            lease_renew: Duration::from_secs(10),
            tombstone: Duration::from_secs(60),
            health_half_life: Duration::from_secs(60),
            cache_max_bytes: 64 << 20,
            draft_max_bytes: 64 << 10,
            backlog: 100_000,
        }
    }
}

impl StateConfig {
    /// Checks what serde cannot: the first setting that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = if self.prefix.is_empty() || self.prefix.contains(['{', '}']) {
            "state.prefix: expected a text without braces, such as `sb:1:`"
        } else if self.cluster && self.sentinel_master.is_some() {
            "state.cluster, state.sentinel_master: expected at most one of them"
        } else if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            "state.timeout, state.connect_timeout: expected more than nothing, such as `50ms`"
        } else if self.probe_interval.is_zero() {
            "state.probe_interval: expected more than nothing, such as `500ms`"
        } else if self.breaker_failures == 0 {
            "state.breaker_failures: expected at least 1"
        } else if self.replicas == 0 {
            "state.replicas: expected at least 1, the number of processes that share the limits"
        } else if self.lease_ttl.is_zero() || self.lease_ttl > MAX_LEASE_TTL {
            "state.lease_ttl: expected more than nothing and at most `5m`"
        } else if self.lease_renew.is_zero() || self.lease_renew >= self.lease_ttl {
            "state.lease_renew: expected less than state.lease_ttl, such as a third of it"
        } else if self.tombstone.is_zero() || self.tombstone > MAX_LEASE_TTL {
            "state.tombstone: expected more than nothing and at most `5m`"
        } else if self.health_half_life.is_zero() {
            "state.health_half_life: expected more than nothing, such as `60s`"
        } else {
            return match self.url {
                Some(_) => Address::new(self).map(drop),
                None => Ok(()),
            };
        };
        Err(Error::config(wrong))
    }
}
