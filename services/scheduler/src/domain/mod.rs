//! The scheduler's rules, as plain values and functions: what is supplied, which target may serve, how good it is, in which
//! order targets are tried, what a failure teaches, whose limits count.
//!
//! Nothing here does IO, reads a clock or makes a random number: time and randomness are parameters.

pub mod choice;
pub mod compile;
pub mod cooldown;
pub mod decision;
pub mod declared;
pub mod document;
pub mod draw;
pub mod filter;
pub mod known;
pub mod limits;
pub mod outcome;
pub mod rule;
pub mod score;
pub mod supply;

#[cfg(test)]
pub mod fixture;
