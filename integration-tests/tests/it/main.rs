//! The harness's own tests, the scenarios, and what holds for the whole repository.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod architecture;
mod clients;
mod errors;
mod harness;
mod roles;
mod samples;
mod scenarios;
