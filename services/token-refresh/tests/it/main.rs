//! The vault through its generated clients, on SQLite and, where the test runner gives a server, on PostgreSQL.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

mod secrecy;
mod vault;
mod world;
