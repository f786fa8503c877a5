//! The generated services: validate, call, map; nothing else.

pub(crate) mod admin;
pub(crate) mod auth;
pub(crate) mod convert;
