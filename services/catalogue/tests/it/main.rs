//! The catalogue language from outside: a whole file, its mistakes, its warnings, its JSON form.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod input;
mod mistakes;
mod reference;
mod whole;
