//! The parts of the harness, each alone.

mod chaos;
mod collector;
mod stores;
