//! Translation between dialects, judged from outside: by fixtures and their snapshots, by validators written from what the
//! dialects' documents say, and by laws that generated conversations and answers must keep.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod fixtures;
mod generated;
mod json;
mod matrix;
mod round;
mod valid;
mod wire;
