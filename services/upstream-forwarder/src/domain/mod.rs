//! What the forwarder decides, as plain functions over plain values: no IO, no tasks, no clock of its own.

pub(crate) mod admission;
pub(crate) mod catalogue;
pub(crate) mod declared;
pub(crate) mod glob;
pub(crate) mod outcome;
pub(crate) mod retry;
pub(crate) mod settlement;
