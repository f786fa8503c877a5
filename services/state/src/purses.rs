//! Open holds against balances and budgets (BILL-3, BILL-4).
//!
//! The truth is in SQL. Here are copies of its values, absolute and with a version, never incremented; what is available is
//! the value less the open holds. A lost copy answers `Unknown`, the owner loads it again, and nothing counts twice.
//!
//! This module knows nothing of prices, windows or plans: billing names the purses and says what they are worth.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use switchboard_common::ids::{RequestId, TenantName};

use crate::error::Error;

/// Names a balance or one window of one budget, within a tenant. Billing chooses the text; a new window is a new purse.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PurseId(Arc<str>);

impl PurseId {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for PurseId {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for PurseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for PurseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a purse counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nano-USD.
    Nanos,
    /// Tokens of all kinds.
    Tokens,
}

/// How a purse's value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurseKind {
    /// The value is what is there: nano-USD, may be negative.
    Balance,
    /// The value is what was used of the limit.
    Budget {
        /// Most that may be used in the window.
        limit: i64,
        /// When the window ends, Unix milliseconds; its purse is forgotten some time after.
        window_ends_ms: i64,
        /// What it counts.
        unit: Unit,
    },
}

impl PurseKind {
    /// What it counts.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Balance => Unit::Nanos,
            Self::Budget { unit, .. } => *unit,
        }
    }
}

/// One purse to hold against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurseTake {
    /// Which.
    pub purse: PurseId,
    /// How its value is read.
    pub kind: PurseKind,
    /// The hold's wanted size, at least 0 and below 9·10¹⁵. In a touch: what is held.
    pub want: i64,
    /// The least that will do. 1: anything that is left; equal to `want`: all of it.
    pub min: i64,
}

/// Asks for a hold on all purses at once.
///
/// Purses of one unit hold the same amount: min(want, the least available of them).
#[derive(Clone, Debug)]
pub struct HoldTake {
    /// Whose purses.
    pub tenant: TenantName,
    /// Who asks.
    pub request: RequestId,
    /// Purses that must all have it.
    pub takes: Vec<PurseTake>,
}

/// The answer to a [`HoldTake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldGrant {
    /// Held on every purse. A second take of a request that holds answers the same.
    Held {
        /// Nano-USD held on each purse of money; 0 without one.
        amount_nanos: i64,
        /// Tokens held on each purse of tokens; 0 without one.
        tokens: i64,
    },
    /// Nothing is held.
    Short {
        /// Which purse of the take has the least.
        index: usize,
        /// What it has, less the open holds; may be negative.
        available: i64,
        /// What open requests hold of it.
        held: i64,
    },
    /// Nothing is held: the store has no value of these purses of the take. Load them and ask again.
    Unknown {
        /// Their places in the take.
        indexes: Vec<usize>,
    },
    /// The request was already settled or voided: a late take holds nothing.
    Gone,
}

/// A purse's absolute value as of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurseValue {
    /// Which.
    pub purse: PurseId,
    /// The balance, or what was used of the budget.
    pub value: i64,
    /// Raised with every change in SQL; an older one never replaces a newer. Below 9·10¹⁵.
    pub version: u64,
    /// A budget window's end, Unix milliseconds: forgotten ten minutes after. Absent: a balance.
    pub window_ends_ms: Option<i64>,
}

/// Says that a request lives, and brings its hold back when the store lost it.
#[derive(Clone, Debug)]
pub struct TouchItem {
    /// Whose purses.
    pub tenant: TenantName,
    /// Which request.
    pub request: RequestId,
    /// Its purses, `want` being what is held on each.
    pub takes: Vec<PurseTake>,
    /// What to settle when the request falls silent; empty leaves the last one.
    pub draft: Bytes,
}

/// A hold of which nothing was heard for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleHold {
    /// Whose.
    pub tenant: TenantName,
    /// Which request.
    pub request: RequestId,
    /// The last touch's draft; absent when it was never touched.
    pub draft: Option<Bytes>,
    /// Milliseconds since the last touch, or since the take.
    pub silent_ms: u64,
    /// Nano-USD held.
    pub amount_nanos: i64,
    /// Tokens held.
    pub tokens: i64,
}

/// Open holds of all tenants, and copies of the values they stand against.
#[async_trait::async_trait]
pub trait Purses: Send + Sync {
    /// Holds on all purses or on none.
    async fn reserve(&self, take: &HoldTake) -> Result<HoldGrant, Error>;

    /// Stores values that are newer than those in the store.
    async fn load(&self, tenant: &TenantName, values: &[PurseValue]) -> Result<(), Error>;

    /// Gives a hold back. Valid before, during and after the take it undoes: a later take or touch of the request holds
    /// nothing.
    async fn void(&self, tenant: &TenantName, request: RequestId) -> Result<(), Error>;

    /// Ends the holds of settled requests and stores the values that their settlement made, in one step.
    async fn settle(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error>;

    /// Keeps holds from falling silent; makes lost ones again, whatever is available, but never those that were ended.
    async fn touch(&self, touches: &[TouchItem]) -> Result<(), Error>;

    /// At most `limit` holds that were silent for longer than `silent_for_ms`.
    async fn stale(&self, silent_for_ms: u64, limit: usize) -> Result<Vec<StaleHold>, Error>;

    /// Nano-USD in open holds of a tenant.
    async fn held(&self, tenant: &TenantName) -> Result<i64, Error>;

    /// Open holds of all tenants. Looks at every tenant: for gauges and tests, not for the hot path.
    async fn open_holds(&self) -> Result<u64, Error>;
}
