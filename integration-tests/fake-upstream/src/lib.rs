//! A scripted upstream for tests and benches: an OpenAI-compatible server on loopback that does exactly what a
//! [`Script`] says, request by request, and records what it saw.
//!
//! Invariants:
//! - a request counts as ended *before* its last byte is handed to the connection, so that a caller which starts
//!   its next request the moment it has the whole answer never makes `max_in_flight` too high;
//! - nothing waits on the clock unless a script asks for a delay: tests steer the upstream with a [`Gate`];
//! - a request's record always gets an [`Outcome`], also when the caller leaves.
//!
//! It does not check keys or the meaning of requests, speaks no TLS, and shares no code with the gateway's own
//! dialects, so that a mistake there cannot cancel itself out here.

mod answer;
mod body;
mod directive;
mod fast;
mod format;
pub mod frames;
mod gate;
mod late;
mod log;
mod plan;
mod request;
mod script;
mod server;
mod shapes;
mod wire;

pub use format::{Framing, Usage, UsageShape, Writes};
pub use gate::Gate;
pub use late::{Late, late};
pub use log::{Log, Outcome, Record, Served, Stats};
pub use script::Script;
pub use server::{FakeUpstream, nobody_listens};
