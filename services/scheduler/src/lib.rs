//! Catalogue versions, traffic control and the choice of an account.
//!
//! Owns: the catalogue (accounts, models, the groups' supply side, with billing's sheets embedded) as versions in SQL.
//! Decides: which account serves a request, and when; whose limits are full; who waits and in which order; what a failure means
//! for its account.
//!
//! Invariants: a request runs on one version from start to end; never more slots granted than a limit while the state store
//! keeps its memory; a refused request consumes nothing; a waiter holds its place in the queue and nothing else; a caller that
//! left takes nothing.
//!
//! It does not know callers' keys, money, prompts or credentials, and asks no other service.

mod component;
mod config;
mod domain;
mod error;
mod flow;
mod grpc;
mod metrics;
mod store;

pub use component::{Component, Deps};
pub use config::Config;
pub use error::Error;
pub use grpc::{AdminService, SchedulerService};
