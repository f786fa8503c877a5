//! The two gRPC services: read, call, map; nothing else.

mod admin;
mod scheduler;

pub use admin::AdminService;
pub use scheduler::SchedulerService;
