//! The forwarder through its generated client, with tiny fakes of its peers and a scripted upstream.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod adapters;
mod admission;
mod answers;
mod declared;
mod dialects;
mod endpoints;
mod every_dialect;
mod failover;
mod gemini;
mod labels;
mod leaving;
mod ledger;
mod lost;
mod messages;
mod peers;
mod rates;
mod responses;
mod rig;
mod seals;
mod secrecy;
mod timeouts;
mod translated;
mod typed;
