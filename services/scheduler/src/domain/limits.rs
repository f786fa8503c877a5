//! Whose limits count, at which level (FLOW-1, FLOW-2): from ceilings to the slots and buckets that a request must pass.
//!
//! A limit per second or minute is a token bucket. In requests it holds `burst`, by default one second's worth and at least 1;
//! in tokens it holds a minute's worth, since it admits while anything is left and is corrected to what was used afterwards.

use std::sync::Arc;

use switchboard_state::admission::{BucketSpec, BucketUnit, Scope, SlotSpec};

/// Ceilings; an absent one is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Requests per second.
    pub requests_per_second: Option<u64>,
    /// Requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Requests at once.
    pub concurrency: Option<u64>,
    /// What a bucket of requests holds.
    pub burst: Option<u64>,
}

impl Ceilings {
    /// Whether there is any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.concurrency.is_some() || self.rates()
    }

    /// Whether there is any on rates.
    #[must_use]
    pub fn rates(&self) -> bool {
        self.requests_per_second.is_some()
            || self.requests_per_minute.is_some()
            || self.tokens_per_minute.is_some()
    }
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// All of the tenant.
    Tenant,
    /// The user.
    User,
    /// The key.
    Key,
    /// The group's callers.
    Group,
    /// The user, at this group.
    GroupUser,
    /// The public model.
    Model,
    /// The upstream account.
    Account,
}

impl Level {
    /// As callers read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User | Self::GroupUser => "user",
            Self::Key => "key",
            Self::Group => "group",
            Self::Model => "model",
            Self::Account => "account",
        }
    }

    const fn scope(self) -> Scope {
        match self {
            Self::Tenant => Scope::Tenant,
            Self::User => Scope::User,
            Self::Key => Scope::Key,
            Self::Group => Scope::Group,
            Self::GroupUser => Scope::GroupUser,
            Self::Model | Self::Account => Scope::Pool,
        }
    }
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Requests per second.
    RequestsPerSecond,
    /// Requests per minute.
    RequestsPerMinute,
    /// Tokens per minute.
    TokensPerMinute,
}

impl Rate {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests per second",
            Self::RequestsPerMinute => "requests per minute",
            Self::TokensPerMinute => "tokens per minute",
        }
    }

    /// What the caller's headers count.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::RequestsPerSecond | Self::RequestsPerMinute => "requests",
            Self::TokensPerMinute => "tokens",
        }
    }
}

/// What a bucket of a take stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Whose it is.
    pub level: Level,
    /// What it counts.
    pub rate: Rate,
    /// The ceiling, in the rate's own unit.
    pub limit: u64,
}

/// Slots and buckets of one place, and what each bucket stands for.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// One of each.
    pub slots: Vec<SlotSpec>,
    /// Whose each slot is.
    pub slot_levels: Vec<Level>,
    /// Buckets to take from.
    pub buckets: Vec<BucketSpec>,
    /// What each bucket is.
    pub labels: Vec<Label>,
}

impl Needs {
    /// Adds one owner's ceilings. `tokens` is what the request is expected to use.
    pub fn add(&mut self, level: Level, id: &str, ceilings: &Ceilings, tokens: u64) {
        if !ceilings.any() {
            return;
        }
        let id: Arc<str> = id.into();
        if let Some(limit) = ceilings.concurrency {
            self.slots.push(SlotSpec {
                scope: level.scope(),
                id: Arc::clone(&id),
                limit,
            });
            self.slot_levels.push(level);
        }
        self.add_rates(level, &id, ceilings, tokens);
    }

    /// Adds one owner's rates alone.
    pub fn add_rates(&mut self, level: Level, id: &Arc<str>, ceilings: &Ceilings, tokens: u64) {
        let burst = |per_second: u64| ceilings.burst.unwrap_or(per_second).max(1);
        if let Some(limit) = ceilings.requests_per_second {
            let per_minute = limit.saturating_mul(60);
            self.bucket(
                level,
                id,
                Rate::RequestsPerSecond,
                limit,
                per_minute,
                burst(limit),
                1,
            );
        }
        if let Some(limit) = ceilings.requests_per_minute {
            self.bucket(
                level,
                id,
                Rate::RequestsPerMinute,
                limit,
                limit,
                burst(limit / 60),
                1,
            );
        }
        if let Some(limit) = ceilings.tokens_per_minute {
            self.bucket(
                level,
                id,
                Rate::TokensPerMinute,
                limit,
                limit,
                limit.max(1),
                tokens.max(1),
            );
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one row of a table, written three times above"
    )]
    fn bucket(
        &mut self,
        level: Level,
        id: &Arc<str>,
        rate: Rate,
        limit: u64,
        rate_per_minute: u64,
        capacity: u64,
        cost: u64,
    ) {
        // Buckets of one owner are told apart by what they count: their ids differ.
        let id = match rate {
            Rate::RequestsPerSecond => format!("{id}#s").into(),
            Rate::RequestsPerMinute | Rate::TokensPerMinute => Arc::clone(id),
        };
        self.buckets.push(BucketSpec {
            scope: level.scope(),
            id,
            unit: match rate {
                Rate::TokensPerMinute => BucketUnit::Tokens,
                Rate::RequestsPerSecond | Rate::RequestsPerMinute => BucketUnit::Requests,
            },
            rate_per_minute,
            capacity,
            cost,
        });
        self.labels.push(Label { level, rate, limit });
    }
}

/// The id of a user at a group; a key that belongs to no user counts as one of its own.
#[must_use]
pub fn group_user(group: &str, user: &str, key: &str) -> String {
    let who = if user.is_empty() { key } else { user };
    format!("{group}\u{1f}{who}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Ceilings = Ceilings {
        requests_per_second: Some(5),
        requests_per_minute: Some(120),
        tokens_per_minute: Some(1_000),
        concurrency: Some(3),
        burst: None,
    };

    #[test]
    fn each_ceiling_becomes_a_slot_or_a_bucket_of_its_level() {
        let mut needs = Needs::default();
        needs.add(Level::Key, "k1", &ALL, 250);
        assert_eq!(needs.slots.len(), 1);
        assert_eq!(
            (needs.slots[0].scope, needs.slots[0].limit),
            (Scope::Key, 3)
        );
        let shape: Vec<_> = needs
            .buckets
            .iter()
            .map(|b| (b.unit, b.rate_per_minute, b.capacity, b.cost))
            .collect();
        assert_eq!(
            shape,
            [
                // One second's worth: five, and two of 120 a minute.
                (BucketUnit::Requests, 300, 5, 1),
                (BucketUnit::Requests, 120, 2, 1),
                (BucketUnit::Tokens, 1_000, 1_000, 250),
            ]
        );
        assert_ne!(needs.buckets[0].id, needs.buckets[1].id);
        assert_eq!(needs.labels[1].limit, 120);
    }

    #[test]
    fn a_burst_is_what_was_written_and_never_nothing() {
        let burst = |burst, requests_per_minute| {
            let mut needs = Needs::default();
            let ceilings = Ceilings {
                burst,
                requests_per_minute: Some(requests_per_minute),
                ..Ceilings::default()
            };
            needs.add(Level::Tenant, "", &ceilings, 0);
            needs.buckets[0].capacity
        };
        assert_eq!(burst(Some(20), 6), 20);
        assert_eq!(burst(None, 6), 1);
    }

    #[test]
    fn no_ceilings_need_nothing() {
        let mut needs = Needs::default();
        needs.add(Level::User, "ana", &Ceilings::default(), 10);
        assert!(needs.slots.is_empty() && needs.buckets.is_empty());
    }
}
