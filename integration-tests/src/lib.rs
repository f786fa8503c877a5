//! The harness: a whole Switchboard under test, in any topology, with its upstream, its stores, a proxy that misbehaves
//! and a collector of traces.
//!
//! A scenario builds a [`stack::Stack`], talks to it as callers and operators do, and ends with
//! [`stack::Stack::finish`], which fails the test on anything left over (DESIGN §8). Scenario code does not name the
//! topology: what differs is behind the stack.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::large_futures,
    reason = "a harness fails its test by panicking, and starts whole programs in one future"
)]

pub mod caller;
pub mod chaos;
pub mod collector;
pub mod setup;
pub mod stack;
pub mod stores;
pub mod tracing_here;
pub mod tunnel;
pub mod wire;
