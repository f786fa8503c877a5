//! The scheduler through its generated clients: on SQLite and memory, and, where the test runner gives servers, on PostgreSQL and
//! Redis.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod choice;
mod cooldown;
mod leases;
mod limits;
mod queue;
mod responses;
mod rules;
mod versions;
mod world;
