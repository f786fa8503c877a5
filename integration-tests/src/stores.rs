//! Real PostgreSQL and Redis for tests and benches, started from the installed binaries in temporary directories.
//!
//! One PostgreSQL cluster serves a whole test process (starting one costs seconds), each [`Stores`] has a database of
//! its own in it, and a Redis of its own. Both listen on Unix sockets only, so there is no port to collide on; where a
//! test needs TCP it puts a [`ChaosProxy`] in front.
//!
//! Nothing stays behind: a watchdog (see `watched`) ends each server and removes its directory when its owner drops
//! it, and also when the test process panics, exits or is killed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chaos::ChaosProxy;

mod postgres;
mod redis;
mod watched;

pub use postgres::Postgres;
pub use redis::Redis;
pub use watched::{Signal, Watched};

/// Whether commits survive a crash of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// `fsync` off: fast, and enough where only processes are killed.
    #[default]
    Processes,
    /// As in production: for measurements.
    Machine,
}

/// The stores of one system under test.
#[derive(Debug)]
pub struct Stores {
    /// URL of a fresh, empty database, over the Unix socket.
    pub database_url: String,
    /// URL of a fresh Redis, over the Unix socket.
    pub redis_url: String,
    /// The Redis process: it can be paused, killed, emptied, started again.
    pub redis: Redis,
    postgres: &'static Postgres,
    database: String,
}

static NEXT_DATABASE: AtomicU64 = AtomicU64::new(1);

impl Stores {
    /// Starts what is needed and waits until both accept connections.
    ///
    /// # Errors
    /// When a binary is missing (the error says which) or a server does not start.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(Durability::default()).await
    }

    /// The same, with PostgreSQL's durability chosen.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(durability: Durability) -> anyhow::Result<Self> {
        let (postgres, redis) = tokio::try_join!(Postgres::shared(durability), Redis::start())?;
        let database = format!("test_{}", NEXT_DATABASE.fetch_add(1, Ordering::Relaxed));
        postgres.create_database(&database).await?;
        Ok(Self {
            database_url: postgres.url(&database),
            redis_url: redis.url(),
            redis,
            postgres,
            database,
        })
    }

    /// A proxy before PostgreSQL, and the URL of this database through it.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn database_proxy(&self) -> anyhow::Result<(ChaosProxy, String)> {
        let proxy = ChaosProxy::start(self.postgres.socket())?;
        let url = format!("postgres://postgres@{}/{}", proxy.addr(), self.database);
        Ok((proxy, url))
    }

    /// A proxy before Redis, and its URL through it.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn redis_proxy(&self) -> anyhow::Result<(ChaosProxy, String)> {
        let proxy = ChaosProxy::start(self.redis.socket())?;
        let url = format!("redis://{}", proxy.addr());
        Ok((proxy, url))
    }

    /// Ends all sessions of this database, as an administrator or a restart would.
    ///
    /// # Errors
    /// When PostgreSQL refuses.
    pub async fn end_database_sessions(&self) -> anyhow::Result<()> {
        self.postgres.end_sessions(&self.database).await
    }

    /// Removes the database and ends Redis. Without it the database stays until the process ends.
    ///
    /// # Errors
    /// When PostgreSQL refuses.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.postgres.drop_database(&self.database).await
    }
}

/// Finds a program: in `PATH`, else in the newest of the given directories.
fn program(name: &str, elsewhere: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(elsewhere.iter().cloned());
    directories
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            anyhow::anyhow!("`{name}` is not installed: `make test` installs what it needs")
        })
}

/// A directory for a server, with a path short enough for Unix sockets (a socket's is at most 107 bytes).
fn directory(prefix: &str) -> anyhow::Result<PathBuf> {
    let base = std::env::temp_dir();
    let base = if base.as_os_str().len() > 60 {
        Path::new("/tmp").to_owned()
    } else {
        base
    };
    let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(base)?;
    // The watchdog removes it: it also lives on when this process is killed.
    Ok(directory.keep())
}
