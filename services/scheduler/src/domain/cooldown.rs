//! How long the one at fault rests (SCHED-9, SCHED-11).
//!
//! A burst 429 is a short rest, never hours of our own making; a caller's mistake rests nobody; 5xx and network troubles count
//! for health alone. The later of two holds stays ([`super::known::Rest`]).

use std::time::Duration;

use super::{
    known::Why,
    outcome::{Blame, Failed, Outcome},
};

/// What rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The account, with all its models.
    Account,
    /// One model at that account.
    Target,
}

/// A rest to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What rests.
    pub scope: Scope,
    /// How long, at least.
    pub length: Duration,
    /// Doubled with each rest since the last success, up to this; absent: as long as it says.
    pub backoff_max: Option<Duration>,
    /// Why.
    pub why: Why,
}

/// First rest after a 429 that did not say how long.
const RATE_LIMITED: Duration = Duration::from_secs(5);
/// First rest after a refused credential.
const CREDENTIAL: Duration = Duration::from_secs(30);
/// First rest when the quota is used up and nobody said until when.
const QUOTA: Duration = Duration::from_secs(60);
/// Rest of an overloaded upstream that did not say how long.
const OVERLOADED: Duration = Duration::from_secs(30);
/// Rest of an account whose address may not be called: until then, others serve without it being tried each time.
const ADDRESS: Duration = Duration::from_secs(30);
/// Refused credentials since the last success after which only a login helps.
pub const CONFIRMED: u32 = 3;

/// What rests after a failure, and who: the account or the model at it.
#[must_use]
pub fn scope(outcome: &Outcome) -> Option<Scope> {
    let failed = outcome.failed?;
    match outcome.blame {
        Blame::Account => Some(Scope::Account),
        Blame::Model => Some(Scope::Target),
        // A host has no bench of its own: one that says it is overloaded rests with the account that led there.
        Blame::Host if failed == Failed::Overloaded => Some(Scope::Account),
        Blame::Host | Blame::Nobody | Blame::Request => None,
    }
}

/// The rest that a failure earns. `max` is the account's ceiling, zero: it never rests. Where the upstream did not say how
/// long, the rest doubles each time until a success; the count of these is shared state.
#[must_use]
pub fn hold(outcome: &Outcome, max: Duration) -> Option<Hold> {
    let scope = scope(outcome)?;
    let told = outcome.retry_after_ms.map(Duration::from_millis);
    let backoff = Some(max);
    let (length, backoff_max, why) = match (outcome.failed?, told) {
        (Failed::RateLimited, Some(told)) => (told, None, Why::RateLimited),
        (Failed::RateLimited, None) => (RATE_LIMITED, backoff, Why::RateLimited),
        (Failed::Credential, _) => (CREDENTIAL, backoff, Why::Credential),
        (Failed::Quota, Some(told)) => (told, None, Why::Quota),
        (Failed::Quota, None) => (QUOTA, backoff, Why::Quota),
        (Failed::Overloaded, told) => (told.unwrap_or(OVERLOADED), None, Why::Overloaded),
        (Failed::Address, _) => (ADDRESS, None, Why::Address),
        (Failed::Server | Failed::Network | Failed::Timeout | Failed::Request, _) => return None,
    };
    let length = length.min(max);
    (!length.is_zero()).then_some(Hold {
        scope,
        length,
        backoff_max,
        why,
    })
}

/// The rest of an account without which a model has nobody left: capped, so that callers are not told hours (SCHED-11).
#[must_use]
pub fn capped(hold: Hold, cap: Duration) -> Hold {
    Hold {
        length: hold.length.min(cap),
        backoff_max: hold.backoff_max.map(|max| max.min(cap)),
        ..hold
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: Duration = Duration::from_secs(600);

    fn failed(kind: Failed, blame: Blame, retry_after_ms: Option<u64>) -> Outcome {
        Outcome {
            status: 0,
            blame,
            failed: Some(kind),
            retry_after_ms,
            first_token_us: None,
        }
    }

    fn rest(kind: Failed, retry_after_ms: Option<u64>) -> Option<(u64, Option<u64>, Why)> {
        hold(&failed(kind, Blame::Account, retry_after_ms), MAX).map(|hold| {
            let backoff = hold.backoff_max.map(|max| max.as_secs());
            (hold.length.as_secs(), backoff, hold.why)
        })
    }

    #[test]
    fn a_429_rests_as_long_as_it_says_else_from_five_seconds_doubling() {
        let limited = Why::RateLimited;
        assert_eq!(
            rest(Failed::RateLimited, Some(60_000)),
            Some((60, None, limited))
        );
        assert_eq!(
            rest(Failed::RateLimited, None),
            Some((5, Some(600), limited))
        );
        assert_eq!(
            rest(Failed::RateLimited, Some(7_200_000)),
            Some((600, None, limited))
        );
    }

    #[test]
    fn a_refused_credential_backs_off_and_an_overloaded_upstream_rests_thirty_seconds() {
        assert_eq!(
            rest(Failed::Credential, None),
            Some((30, Some(600), Why::Credential))
        );
        assert_eq!(
            rest(Failed::Overloaded, None),
            Some((30, None, Why::Overloaded))
        );
        assert_eq!(rest(Failed::Quota, None), Some((60, Some(600), Why::Quota)));
        assert_eq!(rest(Failed::Address, None), Some((30, None, Why::Address)));
    }

    #[test]
    fn the_last_account_left_rests_no_longer_than_the_cap() {
        let cap = Duration::from_secs(60);
        let told = hold(
            &failed(Failed::RateLimited, Blame::Account, Some(500_000)),
            MAX,
        )
        .unwrap();
        assert_eq!(capped(told, cap).length, cap);
        let own = hold(&failed(Failed::RateLimited, Blame::Account, None), MAX).unwrap();
        assert_eq!(capped(own, cap).length, Duration::from_secs(5));
        assert_eq!(capped(own, cap).backoff_max, Some(cap));
    }

    #[test]
    fn server_and_network_troubles_rest_nobody_but_count_for_health() {
        for kind in [Failed::Server, Failed::Network, Failed::Timeout] {
            let outcome = failed(kind, Blame::Host, Some(1_000));
            assert_eq!(hold(&outcome, MAX), None);
            assert_eq!(outcome.health(), Some(false));
        }
    }

    #[test]
    fn blame_decides_who_rests() {
        let scope =
            |blame| hold(&failed(Failed::RateLimited, blame, None), MAX).map(|hold| hold.scope);
        assert_eq!(scope(Blame::Account), Some(Scope::Account));
        assert_eq!(scope(Blame::Model), Some(Scope::Target));
        assert_eq!(scope(Blame::Request), None);
        assert_eq!(scope(Blame::Nobody), None);
    }

    #[test]
    fn a_callers_mistake_says_nothing_about_the_account() {
        let outcome = failed(Failed::Request, Blame::Request, None);
        assert_eq!(outcome.health(), None);
        let left = Outcome {
            failed: None,
            blame: Blame::Nobody,
            ..outcome
        };
        assert_eq!(left.health(), None);
        let served = Outcome {
            status: 200,
            ..left
        };
        assert_eq!(served.health(), Some(true));
    }

    #[test]
    fn an_account_with_max_zero_never_rests() {
        let outcome = failed(Failed::RateLimited, Blame::Account, Some(60_000));
        assert_eq!(hold(&outcome, Duration::ZERO), None);
    }

    proptest! {
        #[test]
        fn no_rest_is_longer_than_the_accounts_ceiling(
            retry in proptest::option::of(0u64..=u64::MAX), max_s in 0u64..100_000
        ) {
            let max = Duration::from_secs(max_s);
            for kind in [Failed::RateLimited, Failed::Credential, Failed::Quota, Failed::Overloaded] {
                if let Some(hold) = hold(&failed(kind, Blame::Account, retry), max) {
                    prop_assert!(hold.length <= max && !hold.length.is_zero());
                    prop_assert!(hold.backoff_max.is_none_or(|backoff| backoff <= max));
                }
            }
        }
    }
}
