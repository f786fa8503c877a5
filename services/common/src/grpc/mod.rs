//! The one way in which services meet: generated clients over one boxed transport.
//!
//! [`Rpc`] is either the neighbour's server in the same process ([`local`]) or a balanced set of network channels
//! ([`remote`]); both carry the caller's [`Role`], deadlines and the trace context alike, so there is one code path for
//! both topologies. What each request asks is a [`Method`], which a neighbour is asked without encoding anything. Servers on
//! a socket go through [`serve`], which proves the role and applies the role table.

mod config;
mod context;
mod errors;
mod listener;
mod local;
mod method;
mod remote;
mod role;
mod rpc;
mod server;
mod token;

pub use config::GrpcConfig;
pub use context::{continue_trace, inject_trace, span_id, trace_id};
pub use errors::complete_errors;
pub use listener::{Address, Bound, Listener, Reserved};
pub use local::local;
pub use method::{Answers, Method, within};
pub use remote::{check_peer, not_sent, remote};
pub use role::{Role, caller, may_call};
pub use rpc::Rpc;
pub use server::{serve, serve_public, with_reflection};
pub use token::ServiceTokens;

/// Largest message, bytes: a 32 MiB body and what stands around it.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Largest message of a model's answer, bytes: twice the largest answer that the forwarder's settings can allow, since a
/// translation into another dialect makes it longer. An answer that was paid for must not fail at the last hop.
pub const MAX_ANSWER: usize = 256 * 1024 * 1024;
