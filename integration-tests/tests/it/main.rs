//! The harness's own tests, the scenarios, and what holds for the whole repository.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::large_futures,
    reason = "tests fail by panicking, and start whole programs in one future"
)]

mod architecture;
mod clients;
mod errors;
mod harness;
mod roles;
mod samples;
mod scenarios;
