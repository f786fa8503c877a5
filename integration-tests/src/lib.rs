//! Scenarios, harness, client acceptance, bench.

pub mod chaos;
pub mod collector;
pub mod stores;
