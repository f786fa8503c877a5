//! Money's rules as plain functions: no IO, no clock, no tasks.
//!
//! Amounts are integers of nano-USD throughout; what would overflow is an error, never a wrap and never a panic.

pub(crate) mod booking;
pub(crate) mod budget;
pub(crate) mod expectation;
pub(crate) mod hold;
pub(crate) mod ledger;
pub(crate) mod rating;
pub(crate) mod window;
