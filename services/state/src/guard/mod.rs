//! What happens while the shared store is away (OPS-5), per concern: `closed`, `local_share` or `open`.
//!
//! Calls go to Redis; what it does not answer is answered here, by the policy. Under `local_share` the memory twin goes on with
//! limit ÷ replicas. Ends (releases, voids, settlements) that did not reach the store wait in a bounded backlog. When the
//! store is back, [`recovery`] brings in the backlog and what is held here, and only then opens the way again.

pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod cache;
pub(crate) mod health;
pub(crate) mod purses;
pub(crate) mod recovery;
