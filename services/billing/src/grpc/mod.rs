//! The generated services: validate, call, map; nothing else.

mod admin;
mod billing;
mod validation;

pub use admin::AdminService;
pub use billing::BillingService;

pub(crate) use admin::Admin;
pub(crate) use billing::Service;
