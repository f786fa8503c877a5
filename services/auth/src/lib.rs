//! Identity (SPEC §2): who may call. Owns tenants, users, the groups' access side, API keys and admin tokens.
//!
//! Invariants:
//! - A key is stored as a keyed hash only; its text is shown once, when it is made, and never logged (AUTH-2).
//! - What could not be checked is "unavailable", never "unknown" (AUTH-6).
//! - A cached entry bears the change number at which it was read; one that is older than the latest change of its tenant or
//!   group is refused, so no slow reader brings a stale one back (AUTH-5).
//! - Every admin action writes its facts, its audit row and its change rows in one transaction (ADM-4).
//!
//! Not here: whether a caller may do what it asks (the forwarder judges each request, AUTH-4), limits' counters (scheduler)
//! and money (billing).

mod admin;
mod component;
mod config;
pub mod domain;
mod error;
mod grpc;
mod lookup;
mod metrics;
mod store;

pub use component::{Component, Deps};
pub use config::Config;
pub use error::Error;
