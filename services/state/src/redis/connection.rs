//! Connecting: one server, a Sentinel's master, or a Cluster; and what the server must be like.

use std::time::Duration;

use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    io::tcp::TcpSettings,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use secrecy::ExposeSecret;

use crate::{config::StateConfig, error::Error};

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Address {
    nodes: Vec<ConnectionInfo>,
    kind: Kind,
    timeout: Duration,
    connect_timeout: Duration,
}

#[derive(Clone)]
enum Kind {
    Single,
    Cluster,
    Sentinel(String),
}

/// A connection that many share; clones are cheap.
#[derive(Clone)]
pub(crate) enum Connection {
    Single(ConnectionManager),
    Master(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends one command. Its time is not bounded here.
    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let sent: RedisFuture<'_, Value> = match self {
            Self::Single(connection) => connection.req_packed_command(command),
            Self::Master(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        };
        // An error that the server answers with is an error.
        sent.await?.extract_error()
    }
}

impl Address {
    pub(crate) fn new(config: &StateConfig) -> Result<Self, Error> {
        let Some(url) = &config.url else {
            return Err(Error::config(
                "redis.url: expected the Redis to use, such as `redis://127.0.0.1:6379`",
            ));
        };
        let nodes = url
            .expose_secret()
            .split(',')
            .map(|url| {
                let info = url.trim().into_connection_info().map_err(|_| {
                    // The text may bear a password: it stays out of the error.
                    Error::config(
                        "redis.url: expected `redis://HOST:PORT`, `rediss://HOST:PORT` or `redis+unix:///PATH`",
                    )
                })?;
                Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Self {
            nodes,
            kind: if config.cluster {
                Kind::Cluster
            } else {
                config
                    .sentinel_master
                    .clone()
                    .map_or(Kind::Single, Kind::Sentinel)
            },
            timeout: config.timeout,
            connect_timeout: config.connect_timeout,
        })
    }

    fn first(&self) -> RedisResult<Client> {
        match self.nodes.first() {
            Some(node) => Client::open(node.clone()),
            None => Err((redis::ErrorKind::InvalidClientConfig, "no address").into()),
        }
    }

    /// A fresh connection.
    pub(crate) async fn connect(&self) -> RedisResult<Connection> {
        let connecting = self.connect_unbounded();
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err((redis::ErrorKind::Io, "no connection in time").into()),
        }
    }

    async fn connect_unbounded(&self) -> RedisResult<Connection> {
        match &self.kind {
            Kind::Single => {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(self.connect_timeout))
                    .set_response_timeout(Some(self.timeout))
                    .set_min_delay(Duration::from_millis(20))
                    .set_max_delay(Duration::from_millis(200))
                    .set_number_of_retries(2)
                    .set_pipeline_buffer_size(1_024);
                let client = self.first()?;
                Ok(Connection::Single(
                    ConnectionManager::new_with_config(client, config).await?,
                ))
            }
            Kind::Cluster => {
                let client = ClusterClient::builder(self.nodes.clone())
                    .connection_timeout(self.connect_timeout)
                    .response_timeout(self.timeout)
                    .tcp_settings(TcpSettings::default().set_nodelay(true))
                    .retries(1)
                    .build()?;
                Ok(Connection::Cluster(client.get_async_connection().await?))
            }
            Kind::Sentinel(master) => {
                let mut sentinels = self.sentinels(master)?;
                let config = redis::AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(self.connect_timeout))
                    .set_response_timeout(Some(self.timeout));
                let master = sentinels.get_async_connection_with_config(&config).await?;
                Ok(Connection::Master(master))
            }
        }
    }

    /// What the first URL says of user, password and database is the master's.
    fn sentinels(&self, master: &str) -> RedisResult<SentinelClient> {
        let addresses = self.nodes.iter().map(|node| node.addr().clone());
        let mut builder =
            SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
                .set_client_to_redis_tcp_settings(TcpSettings::default().set_nodelay(true));
        if let Some(first) = self.nodes.first() {
            let settings = first.redis_settings();
            builder = builder.set_client_to_redis_db(settings.db());
            if let Some(username) = settings.username() {
                builder = builder.set_client_to_redis_username(username);
            }
            if let Some(password) = settings.password() {
                builder = builder.set_client_to_redis_password(password);
            }
        }
        builder.build()
    }

    /// A client to hear messages with.
    pub(crate) async fn listener(&self) -> RedisResult<redis::aio::PubSub> {
        match &self.kind {
            // Any node of a Cluster hears what is published at any other.
            Kind::Single | Kind::Cluster => self.first()?.get_async_pubsub().await,
            Kind::Sentinel(master) => {
                let mut sentinels = self.sentinels(master)?;
                sentinels.async_get_client().await?.get_async_pubsub().await
            }
        }
    }
}

/// What `INFO` tells of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    /// Changes with every start; those of all nodes in a Cluster.
    pub(crate) run_ids: Vec<String>,
    unfit: Option<String>,
}

impl Server {
    /// Reads an answer to `INFO`, of one node or of many.
    pub(crate) fn of(info: &Value) -> Self {
        let mut texts = Vec::new();
        collect(info, &mut texts);
        let mut server = Self::default();
        for text in &texts {
            server.read(text);
        }
        server.run_ids.sort();
        server
    }

    fn read(&mut self, text: &str) {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        if let Some(run_id) = field("run_id") {
            self.run_ids.push(run_id.to_owned());
        }
        let major = field("redis_version")
            .and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if major.is_some_and(|major| major < 7) {
            self.unfit = Some("redis.url: expected Redis 7 or newer".into());
        }
        let bounded = field("maxmemory").is_some_and(|bytes| bytes != "0");
        let policy = field("maxmemory_policy").unwrap_or("noeviction");
        if bounded && policy != "noeviction" {
            self.unfit = Some(format!(
                "redis.url: this Redis evicts keys (maxmemory-policy {policy}), and with them slots and holds; \
                 run `CONFIG SET maxmemory-policy noeviction` and set it in its configuration"
            ));
        }
    }

    /// Refuses a server that may forget what it was told.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.unfit
            .as_ref()
            .map_or(Ok(()), |unfit| Err(Error::config(unfit.as_str())))
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        Value::Map(entries) => entries.iter().for_each(|(_, value)| collect(value, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_server_that_evicts_is_refused_unless_its_memory_has_no_bound() {
        let evicts = "redis_version:7.0.15\r\nrun_id:a\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n";
        let refusal = Server::of(&info(evicts)).check().unwrap_err().to_string();
        assert!(
            refusal.contains("allkeys-lru") && refusal.contains("noeviction"),
            "{refusal}"
        );
        let unbounded = evicts.replace("1000", "0");
        assert!(Server::of(&info(&unbounded)).check().is_ok());
        let keeps = evicts.replace("allkeys-lru", "noeviction");
        assert!(Server::of(&info(&keeps)).check().is_ok());
        let one_of_two = Value::Map(vec![
            (Value::Int(1), info(&keeps)),
            (Value::Int(2), info(evicts)),
        ]);
        assert!(Server::of(&one_of_two).check().is_err());
    }

    #[test]
    fn an_old_server_is_refused() {
        assert!(
            Server::of(&info("redis_version:6.2.1\r\n"))
                .check()
                .is_err()
        );
    }

    #[test]
    fn a_wrong_url_is_refused_without_printing_it() {
        let config = StateConfig {
            url: Some("redis:/bob:hunter2@".into()),
            ..StateConfig::default()
        };
        let refusal = Address::new(&config).err().unwrap().to_string();
        assert!(refusal.contains("redis.url") && !refusal.contains("hunter2"));
    }
}
