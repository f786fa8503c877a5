//! How a process runs (OPS-1): one section a service, documented defaults, file < environment < flags.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use switchboard_common::{
    db::DatabaseConfig,
    feed::FeedConfig,
    grpc::{Address, GrpcConfig, Role},
    telemetry::TelemetryConfig,
};
use switchboard_migrations::Owner;
use switchboard_state::StateConfig;

use crate::data_dir::DataDir;

mod check;

pub use check::Error;

/// All settings of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where it listens.
    pub listen: Listen,
    /// Where keys, databases and the journal lie. `switchboard-data`.
    pub data_dir: Option<PathBuf>,
    /// 32 bytes as hexadecimal digits, the same for all roles. `master.key` in the data directory.
    pub master_key_file: Option<PathBuf>,
    /// The bootstrap admin's token. `admin.token` in the data directory.
    pub admin_token_file: Option<PathBuf>,
    /// Facts.
    pub database: DatabaseSettings,
    /// Hot state.
    pub redis: RedisSettings,
    /// Where the other roles are.
    pub peers: Peers,
    /// How a process ends.
    pub shutdown: Shutdown,
    /// Every gRPC client and server.
    pub grpc: GrpcConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// How changes are tailed and followed.
    pub feed: FeedConfig,
    /// The state store.
    pub state: StateConfig,
    /// The edge.
    pub edge: switchboard_edge::Config,
    /// The upstream-forwarder.
    pub forwarder: switchboard_forwarder::Config,
    /// Auth.
    pub auth: switchboard_auth::Config,
    /// The scheduler.
    pub scheduler: switchboard_scheduler::Config,
    /// Token-refresh.
    #[serde(rename = "token-refresh")]
    pub token_refresh: switchboard_token_refresh::Config,
    /// Billing.
    pub billing: switchboard_billing::Config,
}

/// Listeners (CON-4). Port 0 takes a free one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// The API (edge), and `/livez`, `/readyz`, `/metrics` of every role. `127.0.0.1:8080`.
    pub http: Option<Address>,
    /// Public inference over gRPC (forwarder). `127.0.0.1:8081`.
    pub grpc: Option<Address>,
    /// gRPC for the other roles. None where all roles run in one process, else `127.0.0.1:0`.
    pub internal: Option<Address>,
}

impl Listen {
    /// Where a process with these roles listens: as was set, else by default.
    #[must_use]
    pub fn of(&self, roles: &[Role]) -> Self {
        let local = |port| Some(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
        let has_neighbours = !is_whole(roles) && roles != [Role::Edge];
        Self {
            http: self.http.clone().or(local(8_080)),
            grpc: (self.grpc.clone().or(local(8_081))).filter(|_| roles.contains(&Role::Forwarder)),
            internal: (self.internal.clone()).or(local(0).filter(|_| has_neighbours)),
        }
    }
}

/// Whether all roles are among these.
pub(crate) fn is_whole(roles: &[Role]) -> bool {
    Role::ALL.iter().all(|role| roles.contains(role))
}

/// Whether any of these roles keeps facts in SQL.
pub(crate) fn have_facts(roles: &[Role]) -> bool {
    let owns = |role: &Role| !matches!(role, Role::Edge | Role::Forwarder);
    roles.iter().any(owns)
}

/// Whether any of these roles keeps hot state.
pub(crate) fn have_state(roles: &[Role]) -> bool {
    let keeps = |role: &Role| matches!(role, Role::Auth | Role::Scheduler | Role::Billing);
    roles.iter().any(keeps)
}

/// Where facts lie.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseSettings {
    /// `postgres://user:password@host/database`. Empty: SQLite files in the data directory.
    pub url: String,
    /// Connections of one role of this process at most.
    pub max_connections: u32,
    /// How long a start waits for PostgreSQL to answer; without an answer the program ends with exit code 3.
    #[serde(with = "switchboard_common::settings::duration")]
    pub start_timeout: Duration,
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            url: String::new(),
            max_connections: 10,
            start_timeout: Duration::from_secs(10),
        }
    }
}

/// Where hot state lies.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisSettings {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` or `redis+unix:///path`; several with commas for a Cluster or
    /// Sentinels. Empty: memory, for one process.
    pub url: String,
}

/// Addresses of the other roles' internal listeners (`http://host:port`, `host:port`, `unix:/path`); several are balanced.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Peers {
    /// Auth.
    pub auth: Vec<String>,
    /// The scheduler.
    pub scheduler: Vec<String>,
    /// The upstream-forwarder.
    pub forwarder: Vec<String>,
    /// Token-refresh.
    #[serde(rename = "token-refresh")]
    pub token_refresh: Vec<String>,
    /// Billing.
    pub billing: Vec<String>,
}

impl Peers {
    /// Whether there is any.
    #[must_use]
    pub fn are_given(&self) -> bool {
        Role::ALL.iter().any(|role| !self.of(*role).is_empty())
    }

    /// Of a role.
    #[must_use]
    pub fn of(&self, role: Role) -> &[String] {
        match role {
            Role::Auth => &self.auth,
            Role::Scheduler => &self.scheduler,
            Role::Forwarder => &self.forwarder,
            Role::TokenRefresh => &self.token_refresh,
            Role::Billing => &self.billing,
            Role::Edge => &[],
        }
    }
}

/// The phases of an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// How long a process says that it is not ready before it stops accepting: as long as a load balancer takes to notice (OPS-2).
    #[serde(with = "switchboard_common::settings::duration")]
    pub announce: Duration,
    /// How long running streams may take to finish.
    #[serde(with = "switchboard_common::settings::duration")]
    pub grace: Duration,
    /// How long the rest may take: settlements, leases, connections.
    #[serde(with = "switchboard_common::settings::duration")]
    pub last: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            announce: Duration::ZERO,
            grace: Duration::from_secs(600),
            last: Duration::from_secs(10),
        }
    }
}

impl std::fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseSettings")
            .field("url", &redacted(&self.url))
            .field("max_connections", &self.max_connections)
            .field("start_timeout", &self.start_timeout)
            .finish()
    }
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSettings")
            .field("url", &redacted(&self.url))
            .finish()
    }
}

/// A URL, or several, without passwords, for eyes. It need not be right: of what looks wrong less is shown.
#[must_use]
pub fn redacted(url: &str) -> String {
    let several = url.split(',').all(|url| url.contains("://"));
    if several {
        let parts: Vec<_> = url.split(',').map(redacted_one).collect();
        parts.join(",")
    } else {
        // A password may hold a comma.
        redacted_one(url)
    }
}

fn redacted_one(url: &str) -> String {
    let (url, query) = match url.split_once('?') {
        Some((url, _)) => (url, "?***"),
        None => (url, ""),
    };
    let Some((before, host)) = url.rsplit_once('@') else {
        return format!("{url}{query}");
    };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://***@{host}{query}"),
        None => format!("***@{host}{query}"),
    }
}

impl Settings {
    /// For eyes: everything, with secrets as `***`.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        shown.database.url = redacted(&self.database.url);
        shown.redis.url = redacted(&self.redis.url);
        shown
    }

    /// The data directory's path.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir
            .clone()
            .unwrap_or_else(|| PathBuf::from("switchboard-data"))
    }

    /// The settings as they count in a process with these roles: with what else would be a default that depends on others.
    #[must_use]
    pub fn effective(&self, roles: &[Role]) -> Self {
        let dir = self.data_dir();
        let own = |name: &str, here: bool| here.then(|| dir.join(name));
        let mut effective = self.clone();
        effective.listen = self.listen.of(roles);
        effective.master_key_file =
            (self.master_key_file.clone()).or_else(|| own("master.key", is_whole(roles)));
        effective.admin_token_file = (self.admin_token_file.clone())
            .or_else(|| own("admin.token", roles.contains(&Role::Auth)));
        effective.data_dir = Some(dir);
        effective
    }

    /// The sections as the services take them: what is said once for all of them is put where each looks.
    #[must_use]
    pub fn spread(mut self) -> Self {
        self.auth.feed = self.feed.clone();
        self.scheduler.feed = self.feed.clone();
        self.token_refresh.feed = self.feed.clone();
        self.billing.feed = self.feed.clone();
        self.forwarder.feed = self.feed.clone();
        self.forwarder.lease_renew = self.state.lease_renew;
        if !self.redis.url.is_empty() {
            self.state.url = Some(self.redis.url.clone().into());
        }
        self
    }

    /// An owner's database.
    #[must_use]
    pub fn database(&self, owner: Owner, dir: &DataDir) -> DatabaseConfig {
        if self.database.url.is_empty() {
            DatabaseConfig::Sqlite {
                path: dir.database(owner.name()),
                full_sync: matches!(owner, Owner::Billing | Owner::TokenRefresh),
            }
        } else {
            DatabaseConfig::Postgres {
                url: self.database.url.clone(),
                schema: owner.name().replace('-', "_"),
                max_connections: self.database.max_connections,
            }
        }
    }
}

#[cfg(test)]
mod tests;
