//! Money: prices and costs, holds, settlement, the ledger, usage rows, verification (SPEC §10).
//!
//! It owns sheets, balances, budgets, the ledger and usage in SQL; open holds are copies in the state store. Nobody else prices
//! anything: one rating function, integers of nano-USD, no floating point.
//!
//! Invariants, each checked by `VerifyLedger`: a request is settled once, whatever is repeated, crashed or delivered twice, and a
//! provisional settlement is replaced once, as a difference; every transaction's lines sum to zero; a balance is the sum of its
//! entries; a window is the sum of the usage rows that it covers; each settlement has its usage row.
//!
//! It refuses a model without a price, never sees a prompt or an answer, and asks no other service.
#![deny(
    clippy::float_arithmetic,
    clippy::float_cmp,
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod component;
mod config;
mod domain;
mod error;
mod grpc;
mod observation;
mod purse;
mod reaper;
mod refresh;
mod reservation;
mod settlement;
mod sheets;
mod store;
mod terms_cache;

pub use component::{Component, Deps};
pub use config::Config;
pub use error::Error;
pub use grpc::{AdminService, BillingService};
