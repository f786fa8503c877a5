//! The program: composition of all roles, `serve`, `apply` and the command line.
//!
//! This is the only crate that sees all services. It decides which of them run in this process and how they reach each
//! other; it has no opinion about requests, accounts or bills.

pub mod apply;
pub mod cli;
pub mod composition;
pub mod data_dir;
mod demo;
pub mod migrate;
pub mod serve;
pub mod settings;
