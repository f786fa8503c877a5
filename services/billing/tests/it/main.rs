//! Billing through its generated clients, on SQLite and memory, and on PostgreSQL and Redis where the test runner gives them.
#![recursion_limit = "256"]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod admin;
mod bench;
mod fixtures;
mod holds;
mod listing;
mod outages;
mod patience;
mod reaping;
mod settling;
mod verifying;
