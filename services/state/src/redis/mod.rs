//! The Redis backend, for many processes.
//!
//! Every operation is one script on keys of one hash slot (`{t:TENANT}`, `{a:ACCOUNT}`, `{m:MODEL}`, `{c}`, `{h}`), on the
//! server's clock. Batches run one script per slot, side by side on one connection. This layer reports failures; what then
//! happens is decided in `guard`.

pub(crate) mod admission;
pub(crate) mod cache;
mod connection;
pub(crate) mod health;
pub(crate) mod hints;
mod index;
pub(crate) mod link;
pub(crate) mod purses;
mod script;

pub(crate) use connection::Address;
