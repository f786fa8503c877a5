//! The edge's bounds (SEC-4).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The edge's settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Largest request body after decoding, bytes; more is 413.
    pub body_limit: u64,
    /// Bytes of request bodies held by this process at once; beyond them new requests get 503.
    pub bodies_total: u64,
    /// Requests in flight at once; beyond them new ones get 503.
    pub requests_in_flight: usize,
    /// Connections at once; beyond them new ones wait to be accepted.
    pub connections: usize,
    /// All headers of a request together, bytes. OpenAI's clients may send 64 KiB.
    pub header_bytes: usize,
    /// Headers of a request at most.
    pub header_count: usize,
    /// How long a connection may take to send a request's headers.
    #[serde(with = "switchboard_common::settings::duration")]
    pub header_timeout: Duration,
    /// How long a body may pause between two pieces.
    #[serde(with = "switchboard_common::settings::duration")]
    pub body_timeout: Duration,
    /// Bytes of a refused body that are still read, so that the caller sees the refusal and not a reset connection.
    pub refused_bytes: u64,
    /// How long a refused body is read on.
    #[serde(with = "switchboard_common::settings::duration")]
    pub refused_timeout: Duration,
    /// Addresses (CIDR) whose `x-forwarded-for` counts.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// How often a request is offered to another forwarder when nothing of it was sent.
    pub forwarder_tries: u32,
    /// Whole answers of at least this many bytes are compressed for callers that accept it.
    pub compress_from: u16,
}

impl Config {
    /// What is wrong with it, if anything: a bound of 0 would refuse every request.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let nothing = [
            ("body_limit", self.body_limit == 0),
            ("bodies_total", self.bodies_total == 0),
            ("requests_in_flight", self.requests_in_flight == 0),
            ("connections", self.connections == 0),
            ("header_bytes", self.header_bytes == 0),
            ("header_count", self.header_count == 0),
            ("header_timeout", self.header_timeout.is_zero()),
            ("body_timeout", self.body_timeout.is_zero()),
        ];
        let (name, _) = nothing.into_iter().find(|(_, nothing)| *nothing)?;
        Some(format!("edge.{name} is 0; expected more"))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            body_limit: 32 * 1024 * 1024,
            bodies_total: 1024 * 1024 * 1024,
            requests_in_flight: 20_000,
            connections: 20_000,
            header_bytes: 128 * 1024,
            header_count: 200,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            refused_bytes: 64 * 1024 * 1024,
            refused_timeout: Duration::from_secs(10),
            trusted_proxies: Vec::new(),
            forwarder_tries: 3,
            compress_from: 1024,
        }
    }
}
