//! The catalogue's versions in SQL.

mod versions;

pub use versions::{Next, Stored, Version, Versions};
