//! Limits, budgets and rolling quotas: the shapes that several sections share.

use crate::amount::Amount;
use crate::duration::Duration;
use crate::notation::{record, words};

record! {
    /// Limits on traffic; what is absent is not limited (FLOW-1, FLOW-2).
    Limits {
        /// Requests per second.
        (shown "no limit")
        requests_per_second: Option<u64>,
        /// Requests per minute.
        (shown "no limit")
        requests_per_minute: Option<u64>,
        /// Tokens per minute.
        (shown "no limit")
        tokens_per_minute: Option<u64>,
        /// Requests at once.
        (shown "no limit")
        concurrency: Option<u32>,
        /// What a bucket holds, in requests.
        (shown "one second's worth")
        burst: Option<u64>,
    }
}

record! {
    /// A group's limits: of the whole group, and of each user in it.
    GroupLimits {
        /// Requests per second of the whole group.
        (shown "no limit")
        requests_per_second: Option<u64>,
        /// Requests per minute of the whole group.
        (shown "no limit")
        requests_per_minute: Option<u64>,
        /// Tokens per minute of the whole group.
        (shown "no limit")
        tokens_per_minute: Option<u64>,
        /// Requests at once of the whole group.
        (shown "no limit")
        concurrency: Option<u32>,
        /// What a bucket holds, in requests.
        (shown "one second's worth")
        burst: Option<u64>,
        /// Limits of each user of the group.
        per_user: Option<Limits>,
    }
}

record! {
    /// Named limits for keys.
    LimitProfile {
        /// Unique name.
        name: String,
        /// Requests per second.
        (shown "no limit")
        requests_per_second: Option<u64>,
        /// Requests per minute.
        (shown "no limit")
        requests_per_minute: Option<u64>,
        /// Tokens per minute.
        (shown "no limit")
        tokens_per_minute: Option<u64>,
        /// Requests at once.
        (shown "no limit")
        concurrency: Option<u32>,
        /// What a bucket holds, in requests.
        (shown "one second's worth")
        burst: Option<u64>,
    }
}

impl GroupLimits {
    /// The limits of the whole group.
    pub const fn whole(&self) -> Limits {
        Limits {
            requests_per_second: self.requests_per_second,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            concurrency: self.concurrency,
            burst: self.burst,
        }
    }
}

impl LimitProfile {
    /// The limits it stands for.
    pub const fn limits(&self) -> Limits {
        Limits {
            requests_per_second: self.requests_per_second,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            concurrency: self.concurrency,
            burst: self.burst,
        }
    }
}

words! {
    /// What a budget is counted over.
    BudgetWindow {
        Hour = "hour": "The clock's hour.",
        Day = "day": "The calendar day.",
        Week = "week": "The calendar week, from Monday.",
        Month = "month": "The calendar month.",
        Total = "total": "All time.",
    }
}

record! {
    /// So much money, or so many tokens, in a window (BILL-3).
    Budget {
        /// The window.
        window: BudgetWindow,
        /// USD in the window; one of amount and tokens.
        amount: Option<Amount>,
        /// Tokens in the window; one of amount and tokens.
        tokens: Option<u64>,
        /// Whether the window rolls instead of following the calendar.
        rolling: bool = false,
    }
}

record! {
    /// A quota that renews: so much in each length of time.
    Window {
        /// The window's length.
        length: Duration,
        /// Requests in it.
        requests: Option<u64>,
        /// Tokens in it.
        tokens: Option<u64>,
        /// USD in it.
        amount: Option<Amount>,
    }
}
