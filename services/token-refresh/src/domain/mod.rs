//! The rules of the vault, without IO: how a secret is sealed, and how a catalogue's credentials differ from what is stored.

pub(crate) mod plan;
pub(crate) mod seal;
