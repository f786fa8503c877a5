//! Groups: products, where demand (keys) and supply (accounts) meet (GROUP-1).

use std::collections::BTreeMap;

use crate::amount::{Multiplier, Percent};
use crate::limits::{Budget, GroupLimits, Window};
use crate::notation::{record, words};
use crate::scalar::Cidr;

words! {
    /// A group's class on shared supply (FLOW-6).
    Class {
        Standard = "standard": "Served in turn.",
        Reserved = "reserved": "A share of each account is kept for it.",
        Idle = "idle": "Takes what is free.",
    }
}

words! {
    /// What a group is billed by.
    Billing {
        Tokens = "tokens": "Tokens, by the price sheet.",
        Requests = "requests": "Requests, by the sheet's per_request.",
        Subscription = "subscription": "The tenant's subscription windows.",
    }
}

words! {
    /// How candidates are drawn (SCHED-4).
    Policy {
        WeightedScore = "weighted_score": "By weight and score.",
        PowerOfTwo = "power_of_two": "The better of two drawn by weight.",
    }
}

record! {
    /// One product.
    Group {
        /// Unique name.
        name: String,
        /// Models it offers: names, or patterns with `*`.
        (shown "all")
        models: Option<Vec<String>>,
        /// This group's own names for models.
        names: BTreeMap<String, String>,
        /// Accounts that serve it.
        (shown "all")
        accounts: Option<Vec<String>>,
        /// Its class on shared supply.
        class: Class = Class::Standard,
        /// The share of each account that is kept for it; only with `class: reserved`.
        share: Option<Percent>,
        /// What it is billed by.
        billing: Billing = Billing::Tokens,
        /// What prices are multiplied by.
        (shown "1")
        multiplier: Option<Multiplier>,
        /// Its own prices instead of a multiplier.
        price_list: Option<String>,
        /// A target whose expected cost leaves less is not used.
        minimum_margin: Option<Percent>,
        /// Addresses that callers may come from.
        (shown "all")
        allow_ips: Option<Vec<Cidr>>,
        /// Limits of the whole group, and of each user in it.
        limits: Option<GroupLimits>,
        /// Budgets of the whole group.
        budgets: Vec<Budget>,
        /// How targets are chosen.
        scheduling: Option<Scheduling>,
    }
}

record! {
    /// How targets are chosen.
    Scheduling {
        /// How candidates are drawn.
        policy: Policy = Policy::WeightedScore,
        /// Weights of the score's factors.
        weights: Option<ScoreWeights>,
    }
}

record! {
    /// Weights of the score's factors, each 0 or more (SCHED-3).
    ScoreWeights {
        /// The account's soft priority.
        priority: f64 = 1.0,
        /// Free slots.
        load: f64 = 1.0,
        /// A short queue.
        queue: f64 = 0.7,
        /// Few errors.
        error: f64 = 0.8,
        /// A quick first token.
        ttft: f64 = 0.5,
        /// Quota that resets soon.
        reset: f64 = 0.3,
        /// Quota that is left.
        headroom: f64 = 0.3,
        /// A low cost.
        cost: f64 = 0.3,
    }
}

record! {
    /// Windows that are sold to tenants.
    Subscription {
        /// Unique name.
        name: String,
        /// So much in each window.
        windows: Vec<Window>,
    }
}
