//! The HTTP edge: OpenAI-compatible HTTP in, `inference.v1` out, bytes back.
//!
//! It owns nothing: no database, no schedule, no bill. It reads a request's path, its headers and the key's place, makes
//! the request id, and hands the body on; it parses no body. What comes back are bytes to write; when a stream breaks
//! after its head went out, or the forwarder itself is lost, the edge writes the dialect's own error event, because only
//! it is still there to do so.
//!
//! Admin gRPC (`switchboard.*.v1.*Admin/*`) comes in on the same listener: the admin is proved, the frames pass unparsed.

mod admin;
mod api;
mod body;
mod caller;
mod component;
mod compression;
mod config;
mod connection;
mod error;
mod linger;
mod observed;
mod relay;
mod response;
mod unread;

pub use admin::Admins;
pub use component::{Component, Deps};
pub use config::Config;
pub use error::Error;
