//! The contract of the hot state, on every backend; and what happens when the store is away.
//!
//! Redis is `SWITCHBOARD_TEST_REDIS_URL`, else a server of the test's own, from the installed binary. Without either the
//! memory twin alone is tested.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
// The contract runs as one future of many tests.
#![recursion_limit = "256"]

mod admission;
mod bed;
mod cache;
mod contract;
mod health;
mod hints;
mod outage;
mod property;
mod purses;
