//! The vault (SPEC §9): upstream credentials, encrypted at rest, for forwarders alone.
//!
//! Invariants:
//! - A secret lies in the database only sealed (XChaCha20-Poly1305, a nonce of its own, bound to account and generation,
//!   CRED-1), and leaves through one method, to the role forwarder (SEC-1).
//! - No secret is in a log, an error, an audit row or a `Debug` text.
//! - A new secret is a new generation; the last three are kept (CRED-5). Whoever found a generation refused asks for a newer one.
//!
//! Not here: which account is used (scheduler), and how a secret is put into a request (forwarder).

mod component;
mod config;
mod domain;
mod error;
mod grpc;
mod metrics;
mod store;
mod vault;

pub use component::{Component, Deps};
pub use config::Config;
pub use error::Error;
