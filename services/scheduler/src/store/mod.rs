//! The scheduler's facts in SQL: the catalogue's versions, who keeps which response.

mod responses;
mod versions;

pub use responses::{Binding, Bound, Responses};
pub use versions::{Next, Stored, Version, Versions};
