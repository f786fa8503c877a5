//! The upstream through a real HTTP client.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod answers;
mod client;
mod counting;
mod fast;
mod faults;
mod writes;
