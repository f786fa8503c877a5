//! Auth through its generated clients, on SQLite and memory, and, where the test runner gives servers, on PostgreSQL and Redis.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

mod admin;
mod catalogue;
mod changes;
mod keys;
mod outage;
mod world;
