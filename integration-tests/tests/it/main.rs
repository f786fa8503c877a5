//! The harness's own tests and the scenarios.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod harness;
