//! The rules of identity, without IO: the form of keys, what identities are made of, how a file differs from what is stored,
//! and which readings are still fresh.

pub mod freshness;
pub mod identity;
pub mod key;
pub mod plan;
pub mod validate;
