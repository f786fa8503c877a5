//! Hot state behind small traits: slots and rates ([`admission`]), open holds ([`purses`]), [`health`], auth's second
//! [`cache`] level and wake-up [`hints`]; on Redis for many processes, in memory for one.
//!
//! Invariants: never more granted than a limit while the store keeps its memory; a refused request consumes nothing; asking
//! twice is asking once; what was released stays released. Everything here can be lost: leases come back with their renewals,
//! holds with their touches, values are loaded again from SQL.
//!
//! It keeps no truth and takes no decision: who waits is the scheduler's, what things cost is billing's.

pub mod admission;
pub mod cache;
pub mod config;
pub mod error;
pub mod health;
pub mod hints;
pub mod purses;

mod average;
mod bucket;
mod guard;
mod memory;
mod redis;
mod state;

pub use config::{Policies, Policy, StateConfig};
pub use error::Error;
pub use state::{Breaker, Gauges, State, Status};
