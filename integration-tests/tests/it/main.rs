//! The harness's own tests and the scenarios.

mod harness;
