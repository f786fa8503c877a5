//! The edge over its socket, without anybody behind it: what it refuses by itself, and how callers see that.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod refusals;
mod rig;
