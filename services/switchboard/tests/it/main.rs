//! Tests of the program: its command line against admin services that are scripted, and against its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod cli;

mod ending;
mod metrics;
mod reference;
mod requirements;
