//! The calls as a whole: rules and stores brought together. One file a call, and one for each thing that lives longer.

mod acquire;
mod advance;
mod catalogue;
mod core;
mod health;
mod leases;
mod rates;
mod refusal;
mod responses;
mod room;
mod table;
mod undo;

pub use catalogue::Catalogue;
pub use core::Core;
pub use health::Observed;
pub use responses::Responses;
pub use room::Room;
pub use table::Table;
pub use undo::Returns;
