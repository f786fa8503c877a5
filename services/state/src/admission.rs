//! Concurrency slots, leases and rate buckets (FLOW-1, FLOW-2, FLOW-3).
//!
//! Two kinds of place hold them. A tenant's place has the slots and buckets of its users, keys and groups; a pool's place has
//! those of one upstream account or one public model. A take touches one place, checks everything first and then takes all or
//! nothing. Whoever holds is known by request id and attempt, so that asking twice is one slot.
//!
//! This module knows nothing of queues: a caller that is refused decides itself whether it waits.

use std::{fmt, sync::Arc, time::Duration};

use switchboard_common::ids::{AccountName, ModelName, RequestId, TenantName};

use crate::error::Error;

/// Whose limit it is, within a tenant's or pool's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All of a tenant.
    Tenant,
    /// One user of it.
    User,
    /// One key of it.
    Key,
    /// A group's callers within it.
    Group,
    /// One user at one group.
    GroupUser,
    /// The pool itself: an account's or a model's.
    Pool,
}

impl Scope {
    /// One letter, part of the stored names.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Tenant => 't',
            Self::User => 'u',
            Self::Key => 'k',
            Self::Group => 'g',
            Self::GroupUser => 'm',
            Self::Pool => 'p',
        }
    }
}

/// One concurrency limit to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// Whose limit it is.
    pub scope: Scope,
    /// Who of them: a user's e-mail, a key's id, a group's name; empty for the tenant.
    pub id: Arc<str>,
    /// Most slots at one time.
    pub limit: u64,
}

/// What a bucket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BucketUnit {
    /// Admits when the whole cost is there.
    Requests,
    /// The same, in a bucket of its own: for a limit per second beside one per minute.
    RequestsPerSecond,
    /// Admits while at least one token is left and takes min(cost, what is left); corrected at the end, below zero if need be.
    Tokens,
}

impl BucketUnit {
    /// One letter, part of the stored names.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Requests => 'r',
            Self::RequestsPerSecond => 's',
            Self::Tokens => 't',
        }
    }
}

/// One token bucket to pass. In one take, scope, id and unit name it: none may come twice.
///
/// A bucket starts full, refills steadily and never holds more than its capacity. Rates above 10⁹ a minute and capacities or
/// costs above 10⁸ count as these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSpec {
    /// Whose limit it is.
    pub scope: Scope,
    /// Who of them; empty for the tenant or the pool itself.
    pub id: Arc<str>,
    /// What it counts.
    pub unit: BucketUnit,
    /// Refill per minute. A limit per second is sixty times itself.
    pub rate_per_minute: u64,
    /// The burst: what a full bucket holds, at least 1.
    pub capacity: u64,
    /// What this request takes.
    pub cost: u64,
}

/// How full a bucket is after the take, for the caller's `x-ratelimit-*` headers (FLOW-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BucketState {
    /// What is left, whole units, at least 0.
    pub remaining: u64,
    /// What a full bucket holds.
    pub limit: u64,
    /// Milliseconds until it is full again, rounded up.
    pub reset_ms: u64,
}

/// Asks for a tenant's slots and buckets.
#[derive(Clone, Debug)]
pub struct TenantTake {
    /// The place.
    pub tenant: TenantName,
    /// Who asks.
    pub request: RequestId,
    /// Slots to take, one of each.
    pub slots: Vec<SlotSpec>,
    /// Buckets to take from.
    pub buckets: Vec<BucketSpec>,
    /// How long the slots are held without a renewal. At most five minutes.
    pub ttl: Duration,
}

/// What refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// A concurrency limit.
    Slot,
    /// A rate.
    Bucket,
}

/// The answer to a [`TenantTake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantGrant {
    /// All of it is held.
    Granted {
        /// One state for each bucket of the take, in its order.
        buckets: Vec<BucketState>,
    },
    /// Nothing was taken.
    Refused {
        /// Which slot or bucket of the take was the first to refuse.
        index: usize,
        /// Whether `index` counts slots or buckets.
        kind: LimitKind,
        /// When asking again may help.
        retry_after_ms: u64,
        /// One state for each bucket of the take, in its order.
        buckets: Vec<BucketState>,
    },
    /// The request was already released: a late take holds nothing.
    Gone,
}

/// What stands behind an account's or model's limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pool {
    /// An upstream account.
    Account(AccountName),
    /// A public model.
    Model(ModelName),
}

impl Pool {
    /// The name without its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Account(name) => name.as_str(),
            Self::Model(name) => name.as_str(),
        }
    }

    /// One letter, part of the stored names.
    pub(crate) const fn letter(&self) -> char {
        match self {
            Self::Account(_) => 'a',
            Self::Model(_) => 'm',
        }
    }
}

impl From<AccountName> for Pool {
    fn from(name: AccountName) -> Self {
        Self::Account(name)
    }
}

impl From<ModelName> for Pool {
    fn from(name: ModelName) -> Self {
        Self::Model(name)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.letter(), self.name())
    }
}

/// Asks for one slot of an account (or model) and for its buckets.
#[derive(Clone, Debug)]
pub struct AccountTake {
    /// The place.
    pub account: Pool,
    /// Who asks.
    pub request: RequestId,
    /// Number of the attempt: each attempt holds its own slot.
    pub attempt: u32,
    /// Most slots at one time; absent: any number, which is still counted.
    pub limit: Option<u64>,
    /// Buckets to take from, normally of [`Scope::Pool`].
    pub buckets: Vec<BucketSpec>,
    /// Whether it steps back while others wait (see [`Admission::mark_waiters`]).
    pub newcomer: bool,
    /// How long the slot is held without a renewal. At most five minutes.
    pub ttl: Duration,
}

/// The answer to an [`AccountTake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountGrant {
    /// The slot is held.
    Granted {
        /// Slots in use, this one included.
        used: u64,
        /// One state for each bucket of the take, in its order.
        buckets: Vec<BucketState>,
    },
    /// No slot is free.
    Full {
        /// Slots in use.
        used: u64,
        /// When asking again may help.
        retry_after_ms: u64,
        /// One state for each bucket of the take, in its order.
        buckets: Vec<BucketState>,
    },
    /// Others wait for it and the asker is a newcomer.
    WaitersFirst,
    /// A rate refused.
    RateLimited {
        /// Which bucket of the take.
        index: usize,
        /// When it has enough.
        retry_after_ms: u64,
        /// One state for each bucket of the take, in its order.
        buckets: Vec<BucketState>,
    },
    /// This attempt was already released: a late take holds nothing.
    Gone,
}

/// What becomes of the buckets at a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// What was taken stays taken.
    Keep,
    /// Nothing was served: all of it goes back.
    Refund,
    /// So many tokens were used: token buckets are corrected to it, below zero if need be; requests stay counted.
    Used(u64),
}

/// Ends what a request holds in one place. Valid before, during and after the take it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// In its tenant's place.
    Tenant {
        /// The place.
        tenant: TenantName,
        /// Who held.
        request: RequestId,
        /// What becomes of the buckets.
        correction: Correction,
    },
    /// In a pool's place.
    Account {
        /// The place.
        account: Pool,
        /// Who held.
        request: RequestId,
        /// Which attempt; absent: all of them.
        attempt: Option<u32>,
        /// What becomes of the buckets.
        correction: Correction,
    },
}

/// Keeps what a request holds in one place, or puts it back when the store lost it, even over the limit (FLOW-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// In its tenant's place.
    Tenant {
        /// The place.
        tenant: TenantName,
        /// Who holds.
        request: RequestId,
        /// The slots that were taken.
        slots: Vec<(Scope, Arc<str>)>,
    },
    /// In a pool's place.
    Account {
        /// The place.
        account: Pool,
        /// Who holds.
        request: RequestId,
        /// Which attempt.
        attempt: u32,
    },
}

/// What a batch of renewals found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Renewed {
    /// Leases that the store no longer had and has again.
    pub restored: u64,
    /// Leases that were released before: they stay released.
    pub gone: u64,
}

/// Where slots and buckets lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place<'a> {
    /// A tenant's users, keys and groups.
    Tenant(&'a TenantName),
    /// One account or model.
    Pool(&'a Pool),
}

/// Slots, leases and buckets of all tenants, accounts and models.
#[async_trait::async_trait]
pub trait Admission: Send + Sync {
    /// Takes all slots and buckets of the take, or nothing. A second take of a request that holds changes nothing.
    async fn take_tenant(&self, take: &TenantTake) -> Result<TenantGrant, Error>;

    /// Takes a slot and the buckets of one account, or nothing. A second take of an attempt that holds changes nothing.
    async fn take_account(&self, take: &AccountTake) -> Result<AccountGrant, Error>;

    /// Makes newcomers step back at this account for `ttl`.
    async fn mark_waiters(&self, account: &Pool, ttl: Duration) -> Result<(), Error>;

    /// Ends leases. What is released stays released for the tombstone's life, whatever comes late. When it fails, the leases
    /// end by themselves.
    async fn release(&self, releases: &[Release]) -> Result<(), Error>;

    /// Like [`Admission::release`], but leaves no tombstone: the request asks again later. For one that goes back to a queue,
    /// where it holds nothing (FLOW-4). A request that was released before stays released.
    async fn give_back(&self, releases: &[Release]) -> Result<(), Error>;

    /// Extends leases to `ttl` from now.
    async fn renew(&self, renewals: &[Renewal], ttl: Duration) -> Result<Renewed, Error>;

    /// How full buckets are, in the order of the question; takes nothing. For refusals that asked no bucket (FLOW-5). What a
    /// spec says of cost does not matter.
    async fn buckets(
        &self,
        place: Place<'_>,
        specs: &[BucketSpec],
    ) -> Result<Vec<BucketState>, Error>;

    /// Slots in use, in the order of the question.
    async fn usage(&self, accounts: &[Pool]) -> Result<Vec<u64>, Error>;

    /// Leases alive in all places. Looks at every place: for gauges and tests, not for the hot path.
    async fn held(&self) -> Result<u64, Error>;
}
