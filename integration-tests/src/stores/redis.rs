//! A Redis of its own, on a Unix socket, without persistence.

use std::path::PathBuf;

use super::watched::{Signal, Watched};
use super::{directory, program};

/// A running `redis-server`; dropping it ends it.
#[derive(Debug)]
pub struct Redis {
    watched: Watched,
    socket: PathBuf,
}

impl Redis {
    /// Starts one and waits until it accepts connections.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let server = program("redis-server", &[])?;
        let directory = directory("sb-redis-")?;
        let socket = directory.join("redis.sock");
        let (path, home) = (
            socket.display().to_string(),
            directory.display().to_string(),
        );
        let settings = [
            ("--port", "0"),
            ("--unixsocket", &path),
            ("--unixsocketperm", "700"),
            ("--save", ""),
            ("--appendonly", "no"),
            ("--daemonize", "no"),
            ("--maxmemory-policy", "noeviction"),
            ("--dir", &home),
        ];
        let mut command = vec![server.display().to_string()];
        for (name, value) in settings {
            command.extend([name.to_owned(), value.to_owned()]);
        }
        let ready = "ready to accept connections at";
        let watched = Watched::start(&command, &directory, Signal::Kill, ready).await?;
        Ok(Self { watched, socket })
    }

    /// `redis+unix:///path`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    /// Path of the socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// Freezes it: connections stay open, new ones are taken by the kernel, nothing is answered.
    ///
    /// # Errors
    /// When its watchdog does not answer; so for all methods here.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.watched.signal(Signal::Stop).await
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self) -> anyhow::Result<()> {
        self.watched.signal(Signal::Continue).await
    }

    /// `kill -9`: connections break, everything is forgotten.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.watched.signal(Signal::Kill).await
    }

    /// Starts it again, empty, at the same URL.
    ///
    /// # Errors
    /// As [`pause`](Self::pause), or when it does not start.
    pub async fn restart(&self) -> anyhow::Result<()> {
        self.watched.restart().await
    }

    /// `FLUSHALL`, over a connection of its own.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn flush_all(&self) -> anyhow::Result<()> {
        let client = ::redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        ::redis::cmd("FLUSHALL")
            .query_async::<()>(&mut connection)
            .await?;
        Ok(())
    }

    /// Process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.watched.pid()
    }
}
