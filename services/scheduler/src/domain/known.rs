//! What is known now of accounts and targets: load, waiters, health, cooldowns.
//!
//! Cells are written by the refresh of the shared state (at most a second old) and by what this process did since; a choice
//! only loads atomics. They are hints: slots and buckets are decided by the state store.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use dashmap::DashMap;
use switchboard_common::ids::{AccountName, ModelName};

/// Why something rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// It said 429.
    RateLimited = 1,
    /// It refused the credential.
    Credential = 2,
    /// It refused the credential three times in a row.
    NeedsLogin = 3,
    /// Its quota is used up.
    Quota = 4,
    /// It is overloaded.
    Overloaded = 5,
    /// Its address may not be called.
    Address = 6,
}

impl Why {
    /// As explanations and the shared state write it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::RateLimited => "rate limited",
            Self::Credential => "credential refused",
            Self::NeedsLogin => "credential refused three times: needs login",
            Self::Quota => "quota used up",
            Self::Overloaded => "overloaded",
            Self::Address => "address not allowed",
        }
    }

    /// Whether an administrator has to do something about it: our own credential, or what is paid for.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Credential | Self::NeedsLogin | Self::Quota)
    }

    const ALL: [Self; 6] = [
        Self::RateLimited,
        Self::Credential,
        Self::NeedsLogin,
        Self::Quota,
        Self::Overloaded,
        Self::Address,
    ];

    /// The reason that a text of the shared state means.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.text() == text)
    }
}

/// A cooldown: until when, and why.
#[derive(Debug, Default)]
pub struct Rest {
    until_ms: AtomicI64,
    why: AtomicU8,
    /// The refresh that ran when it was last held here.
    held_in: AtomicU64,
}

impl Rest {
    /// Unix milliseconds at which it ends; 0: none.
    #[must_use]
    pub fn until_ms(&self) -> i64 {
        self.until_ms.load(Relaxed)
    }

    /// Why it rests.
    #[must_use]
    pub fn why(&self) -> Option<Why> {
        let code = self.why.load(Relaxed);
        Why::ALL.into_iter().find(|why| *why as u8 == code)
    }

    /// Takes over a hold, if it ends later than the present one. `refresh` is the one that began last.
    pub fn hold(&self, until_ms: i64, why: Why, refresh: u64) {
        self.held_in.store(refresh, Relaxed);
        if self.until_ms.fetch_max(until_ms, Relaxed) < until_ms {
            self.why.store(why as u8, Relaxed);
        }
    }

    /// Takes over what the shared state said in a refresh, also when that is less; but not over a hold that came while the
    /// refresh ran.
    pub fn set(&self, until_ms: i64, why: Option<Why>, refresh: u64) {
        if self.held_in.load(Relaxed) >= refresh {
            return;
        }
        self.until_ms.store(until_ms, Relaxed);
        if let Some(why) = why {
            self.why.store(why as u8, Relaxed);
        }
    }
}

/// What is known of one account.
#[derive(Debug, Default)]
pub struct AccountKnown {
    used: AtomicI64,
    waiters: AtomicI64,
    asked: AtomicBool,
    /// Its cooldown.
    pub rest: Rest,
}

impl AccountKnown {
    /// Slots in use: as the store last said, and own choices since.
    #[must_use]
    pub fn used(&self) -> i64 {
        self.used.load(Relaxed)
    }

    /// Someone asked for a slot of it: its load is worth looking at.
    pub fn ask(&self) {
        self.asked.store(true, Relaxed);
    }

    /// Whether someone asked since the last time; forgets it.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.asked.load(Relaxed) && self.asked.swap(false, Relaxed)
    }

    /// What the store said just now.
    pub fn set_used(&self, used: i64) {
        self.used.store(used, Relaxed);
    }

    /// A slot was given back here.
    pub fn freed(&self) {
        self.used.fetch_sub(1, Relaxed);
    }

    /// Requests of this process that wait for it.
    #[must_use]
    pub fn waiters(&self) -> i64 {
        self.waiters.load(Relaxed)
    }

    /// So many more wait, or fewer.
    pub fn add_waiters(&self, more: i64) {
        self.waiters.fetch_add(more, Relaxed);
    }
}

/// What is known of one upstream model at one account.
#[derive(Debug, Default)]
pub struct TargetKnown {
    /// Errors per million attempts, a moving average.
    error_millionths: AtomicU32,
    /// Time to first token in microseconds, a moving average; 0: unknown.
    first_token_us: AtomicU64,
    /// Its cooldown.
    pub rest: Rest,
}

impl TargetKnown {
    /// Share of attempts that failed, 0 to 1.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        f64::from(self.error_millionths.load(Relaxed)) / 1e6
    }

    /// Time to first token in microseconds; absent: unknown.
    #[must_use]
    pub fn first_token_us(&self) -> Option<u64> {
        match self.first_token_us.load(Relaxed) {
            0 => None,
            us => Some(us),
        }
    }

    /// Takes over averages of the shared state.
    pub fn set_averages(&self, error_rate: f64, first_token_us: Option<u64>) {
        let millionths = (error_rate.clamp(0.0, 1.0) * 1e6).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=1,000,000"
        )]
        self.error_millionths.store(millionths as u32, Relaxed);
        self.first_token_us
            .store(first_token_us.unwrap_or(0), Relaxed);
    }
}

/// All cells, by name.
///
/// Bounded by the catalogue's accounts and targets and by what the state store still knows of: see [`Registry::forget`].
#[derive(Debug, Default)]
pub struct Registry {
    accounts: DashMap<AccountName, Arc<AccountKnown>>,
    targets: DashMap<(AccountName, ModelName), Arc<TargetKnown>>,
}

impl Registry {
    /// An account's cell, made when missing.
    #[must_use]
    pub fn account(&self, account: &AccountName) -> Arc<AccountKnown> {
        Arc::clone(&self.accounts.entry(account.clone()).or_default())
    }

    /// A target's cell, made when missing.
    #[must_use]
    pub fn target(&self, account: &AccountName, model: &ModelName) -> Arc<TargetKnown> {
        let key = (account.clone(), model.clone());
        Arc::clone(&self.targets.entry(key).or_default())
    }

    /// A target's cell, if there is one.
    #[must_use]
    pub fn find_target(
        &self,
        account: &AccountName,
        model: &ModelName,
    ) -> Option<Arc<TargetKnown>> {
        let key = (account.clone(), model.clone());
        self.targets.get(&key).map(|cell| Arc::clone(&cell))
    }

    /// Visits all accounts.
    pub fn each_account(&self, mut visit: impl FnMut(&AccountName, &AccountKnown)) {
        for entry in &self.accounts {
            visit(entry.key(), entry.value());
        }
    }

    /// Visits all targets.
    pub fn each_target(&self, mut visit: impl FnMut(&AccountName, &ModelName, &TargetKnown)) {
        for entry in &self.targets {
            visit(&entry.key().0, &entry.key().1, entry.value());
        }
    }

    /// Drops the cells that no version points at and of which `alive` says that nobody knows anything.
    pub fn forget(&self, alive: impl Fn(&AccountName, &ModelName) -> bool) {
        self.targets
            .retain(|(account, model), cell| Arc::strong_count(cell) > 1 || alive(account, model));
        self.accounts.retain(|_, cell| Arc::strong_count(cell) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_holds_stays() {
        let rest = Rest::default();
        rest.hold(5_000, Why::RateLimited, 0);
        rest.hold(3_000, Why::Overloaded, 0);
        assert_eq!(rest.until_ms(), 5_000);
        assert_eq!(rest.why(), Some(Why::RateLimited));
        rest.hold(9_000, Why::Quota, 0);
        assert_eq!((rest.until_ms(), rest.why()), (9_000, Some(Why::Quota)));
    }

    #[test]
    fn a_refresh_lifts_what_was_held_before_it_and_not_what_came_meanwhile() {
        let rest = Rest::default();
        rest.hold(5_000, Why::RateLimited, 3);
        rest.set(0, None, 4);
        assert_eq!(rest.until_ms(), 0);
        rest.hold(6_000, Why::RateLimited, 4);
        rest.set(0, None, 4);
        assert_eq!(rest.until_ms(), 6_000);
    }

    #[test]
    fn every_reason_survives_the_shared_state() {
        for why in Why::ALL {
            assert_eq!(Why::from_text(why.text()), Some(why));
        }
    }
}
