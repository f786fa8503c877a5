//! One call to the store: its time limit, `EVALSHA` with `EVAL` behind it, and the breaker.
//!
//! The breaker opens after so many failures in a row; from then on calls fail at once. Only the probe closes it, after the
//! store was connected to anew and everything that waited was brought in (see `guard::recovery`).

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::RwLock;
use redis::{
    ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind, ToRedisArgs, Value, cmd,
};

use super::{
    connection::{Address, Connection, Server},
    script::{Script, Scripts},
};
use crate::{config::StateConfig, error::Error};

/// The way to the store.
pub(crate) struct Link {
    pub(crate) scripts: Scripts,
    pub(crate) prefix: String,
    address: Address,
    timeout: Duration,
    connection: RwLock<Option<Connection>>,
    most_failures: u32,
    failures_in_a_row: AtomicU32,
    failures: AtomicU64,
    open: AtomicBool,
}

/// Arguments of a script, in the making.
#[derive(Default)]
pub(crate) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    pub(crate) fn add(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        argument.write_redis_args(&mut self.0);
        self
    }
}

impl Link {
    pub(crate) fn new(config: &StateConfig) -> Result<Self, Error> {
        Ok(Self {
            scripts: Scripts::new(),
            prefix: config.prefix.clone(),
            address: Address::new(config)?,
            timeout: config.timeout,
            connection: RwLock::new(None),
            most_failures: config.breaker_failures,
            failures_in_a_row: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            // Until the first connection stands.
            open: AtomicBool::new(true),
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Fails when the breaker is open.
    pub(crate) fn closed(&self) -> Result<(), Error> {
        if self.is_open() {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(Error::unavailable("it did not answer lately"));
        }
        Ok(())
    }

    /// Connects anew and looks at the server; calls go on failing until [`Link::close_breaker`].
    pub(crate) async fn reconnect(&self) -> Result<Server, Error> {
        let mut connection = self.address.connect().await.map_err(reason)?;
        let server = self.inspect(&mut connection).await?;
        *self.connection.write() = Some(connection);
        Ok(server)
    }

    /// Looks at the server over the connection in use.
    pub(crate) async fn look(&self) -> Result<Server, Error> {
        let connection = self.connection.read().clone();
        let Some(mut connection) = connection else {
            return Err(Error::unavailable("not connected"));
        };
        let looked = self.inspect(&mut connection).await;
        self.count(looked.is_ok());
        looked
    }

    async fn inspect(&self, connection: &mut Connection) -> Result<Server, Error> {
        let mut info = cmd("INFO");
        info.arg("default");
        match tokio::time::timeout(self.timeout, connection.send(&info)).await {
            Ok(Ok(info)) => Ok(Server::of(&info)),
            Ok(Err(error)) => Err(reason(error)),
            Err(_) => Err(Error::unavailable("no answer in time")),
        }
    }

    pub(crate) fn close_breaker(&self) {
        self.failures_in_a_row.store(0, Ordering::Release);
        if self.open.swap(false, Ordering::AcqRel) {
            tracing::info!("state store answers");
        }
    }

    /// Runs a script on keys of one hash slot, unless the breaker is open.
    pub(crate) async fn call<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &Arguments,
    ) -> Result<T, Error> {
        self.closed()?;
        self.call_anyway(script, keys, arguments).await
    }

    /// Runs a script even when the breaker is open: for the probe.
    pub(crate) async fn call_anyway<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &Arguments,
    ) -> Result<T, Error> {
        let connection = self.connection.read().clone();
        let answer = match connection {
            None => Err(Error::unavailable("not connected")),
            Some(connection) => {
                let running = evaluate(connection, script, keys, arguments);
                match tokio::time::timeout(self.timeout, running).await {
                    Ok(answer) => answer
                        .and_then(|value| Ok(T::from_redis_value(value)?))
                        .map_err(reason),
                    Err(_) => Err(Error::unavailable("no answer in time")),
                }
            }
        };
        self.count(answer.is_ok());
        answer
    }

    /// Publishes a message; that nobody hears it is no failure.
    pub(crate) async fn publish(&self, channel: &str, payload: &[u8]) -> Result<(), Error> {
        self.closed()?;
        let connection = self.connection.read().clone();
        let Some(mut connection) = connection else {
            return Err(Error::unavailable("not connected"));
        };
        let mut publish = cmd("PUBLISH");
        publish.arg(channel).arg(payload);
        match tokio::time::timeout(self.timeout, connection.send(&publish)).await {
            Ok(sent) => sent.map(|_| ()).map_err(reason),
            Err(_) => Err(Error::unavailable("no answer in time")),
        }
    }

    fn count(&self, answered: bool) {
        if answered {
            // A write only when there is something to forget: this line is on every call's path.
            if self.failures_in_a_row.load(Ordering::Relaxed) != 0 {
                self.failures_in_a_row.store(0, Ordering::Relaxed);
            }
            return;
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let in_a_row = self.failures_in_a_row.fetch_add(1, Ordering::AcqRel) + 1;
        if in_a_row >= self.most_failures && !self.open.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                failures = in_a_row,
                "state store does not answer, policies stand in"
            );
        }
    }
}

/// `EVALSHA`, then `EVAL` where the server does not know the script. `SCRIPT LOAD` is never needed.
async fn evaluate(
    mut connection: Connection,
    script: &Script,
    keys: &[&str],
    arguments: &Arguments,
) -> RedisResult<Value> {
    let command = |name: &str, what: &str| {
        let mut command = cmd(name);
        command.arg(what).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        for argument in &arguments.0 {
            command.arg(argument);
        }
        command
    };
    match connection.send(&command("EVALSHA", &script.hash)).await {
        Err(error) if is_unknown(&error) => connection.send(&command("EVAL", script.code)).await,
        answer => answer,
    }
}

/// Whether the script, or the command itself (some proxies pass only `EVAL`), is unknown there.
fn is_unknown(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => true,
        _ => {
            let text = error.to_string().to_ascii_lowercase();
            text.contains("unknown command") || text.contains("noperm")
        }
    }
}

fn reason(error: RedisError) -> Error {
    // Kind and code alone: details may quote arguments.
    let code = error.code().unwrap_or_default();
    Error::unavailable(format!("{:?} {code}", error.kind()))
}
