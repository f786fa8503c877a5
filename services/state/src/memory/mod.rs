//! The memory twin: the same traits for one process.
//!
//! It also stands in for Redis while that is away (`local_share`), then with a share of every limit. Locks are per shard of
//! tenants or pools, held for about a microsecond and never across an await.

pub(crate) mod admission;
pub(crate) mod cache;
pub(crate) mod health;
pub(crate) mod hints;
pub(crate) mod place;
pub(crate) mod purses;
mod shards;
mod tombstones;
