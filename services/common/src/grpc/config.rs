//! Bounds of every gRPC client and server.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bounds of every gRPC client and server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpcConfig {
    /// HTTP/2 window of one stream, bytes: what a stalled reader may leave in flight. `streams_per_connection` times as much
    /// is what a connection may; it has no bound of its own, by which stalled readers would block everyone on it.
    pub stream_window: u32,
    /// Streams that one connection carries; beyond them further connections are opened.
    pub streams_per_connection: u32,
    /// Connections to one peer at most.
    pub connections_per_peer: u32,
    /// How long a connection may take to open.
    #[serde(with = "crate::settings::duration")]
    pub connect_timeout: Duration,
    /// HTTP/2 pings on a connection.
    #[serde(with = "crate::settings::duration")]
    pub keep_alive: Duration,
    /// A peer that does not answer a ping for this long is gone.
    #[serde(with = "crate::settings::duration")]
    pub keep_alive_timeout: Duration,
    /// Life of a service token.
    #[serde(with = "crate::settings::duration")]
    pub token_life: Duration,
}

impl GrpcConfig {
    /// What is wrong with it, if anything.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let nothing = [
            ("stream_window", self.stream_window == 0),
            ("streams_per_connection", self.streams_per_connection == 0),
            ("connections_per_peer", self.connections_per_peer == 0),
            ("connect_timeout", self.connect_timeout.is_zero()),
            ("keep_alive", self.keep_alive.is_zero()),
            ("keep_alive_timeout", self.keep_alive_timeout.is_zero()),
            ("token_life", self.token_life.is_zero()),
        ];
        let (name, _) = nothing.into_iter().find(|(_, nothing)| *nothing)?;
        Some(format!("grpc.{name} is 0; expected more"))
    }
}

impl Default for GrpcConfig {
    fn default() -> Self {
        Self {
            stream_window: 64 * 1024,
            streams_per_connection: 1_000,
            connections_per_peer: 16,
            connect_timeout: Duration::from_secs(2),
            keep_alive: Duration::from_secs(20),
            keep_alive_timeout: Duration::from_secs(10),
            token_life: Duration::from_secs(300),
        }
    }
}
