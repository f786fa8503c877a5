//! What every role needs and no role owns: settings, telemetry, lifecycle, the gRPC transport, the error table, ids,
//! money, the clock, secrets, databases, audit rows and the change feed.
//!
//! Entry rule: a thing comes in when two services need it and it has no opinion of its own about callers, accounts or
//! bills. Nothing here knows what a request is for.

pub mod audit;
pub mod clock;
pub mod db;
pub mod deflate;
pub mod error;
pub mod feed;
pub mod grpc;
pub mod http2;
pub mod ids;
pub mod lifecycle;
pub mod metrics;
pub mod money;
pub mod probes;
pub mod rate_limit;
pub mod seal;
pub mod secret;
pub mod settings;
pub mod telemetry;
