//! The conductor: carries a request from admission to settlement (SPEC §6, DESIGN §4).
//!
//! It owns nothing but its journal. It asks auth who calls, billing for money, the scheduler for an account, the vault for
//! a secret; it talks to upstreams; it tells billing and the scheduler what became of it. The edge and callers on gRPC get
//! the same product from the same pipeline.
//!
//! Invariants:
//! - a request runs on one version of the catalogue, from start to end;
//! - what was taken (hold, lease) is given back or settled exactly once, whatever happens, panics included;
//! - nothing reaches the caller before the first content; after it nothing is retried;
//! - every queue, buffer, cache, body and retry is bounded by [`Config`].
//!
//! It refuses what cannot be settled: without a journal that can be written there are no new requests.

mod adapter;
mod asked;
mod asks;
mod caller;
mod component;
mod config;
mod courier;
mod domain;
mod grpc;
mod journal;
mod metrics;
mod pipe;
mod pipeline;
mod principals;
mod roster;
mod routes;
mod supply;
mod tokens;
mod upstream;
mod usage;
mod vault;
mod warnings;

pub use adapter::{Adapter, Adapters, Credential, Draft, Reading, Unusable, carry_credential};
pub use component::{Component, Deps, Error, Gauges, Peers};
pub use config::{Config, Principals as PrincipalsConfig, Upstream as UpstreamConfig};
pub use grpc::Inference;
pub use journal::JournalConfig;
