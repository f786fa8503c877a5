//! Limits at each level (FLOW-1, FLOW-2, FLOW-5; CASES A25, A26).

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    common::v1::Limits,
    scheduler::v1::{AcquireRequest, AcquireResponse, Demand, Release},
};

use crate::world::{Shape, World, account, asked, asked_with, one_model};

type Level = (&'static str, fn(&mut Demand) -> &mut Option<Limits>);

const LEVELS: [Level; 5] = [
    ("tenant", |demand| &mut demand.tenant_limits),
    ("user", |demand| &mut demand.user_limits),
    ("key", |demand| &mut demand.key_limits),
    ("group", |demand| &mut demand.group_limits),
    ("user", |demand| &mut demand.group_user_limits),
];

fn limited(level: Level, limits: Limits) -> AcquireRequest {
    asked_with(|demand| *level.1(demand) = Some(limits))
}

fn plain() -> String {
    one_model(
        &account("a", ""),
        "targets: [{account: a, model: up}], queue: none",
    )
}

fn left(answer: &AcquireResponse, unit: &str) -> u64 {
    answer
        .rate_limits
        .iter()
        .find(|limit| limit.unit == unit)
        .unwrap()
        .remaining
}

/// A header of a refusal.
fn told<'a>(refused: &'a Failure, name: &str) -> Option<&'a str> {
    let mut headers = refused.headers.iter();
    headers
        .find(|(own, _)| own == name)
        .map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn a_slot_that_is_full_tells_the_callers_own_rates() {
    let key = LEVELS[2];
    let limits = |concurrency| Limits {
        tokens_per_minute: Some(1_000),
        concurrency,
        ..Limits::default()
    };
    // The key's own slot, which takes nothing; the account's slot, after the key's rate was asked.
    for (concurrency, at_account, left) in [(Some(1), "", "900"), (None, ", concurrency: 1", "800")]
    {
        let world = World::timed(&Shape::default()).await;
        let node = world.node();
        let model = "targets: [{account: a, model: up}], queue: none";
        node.apply(&one_model(&account("a", at_account), model))
            .await;
        node.acquire(limited(key, limits(concurrency))).await;
        let refused = node.refused(limited(key, limits(concurrency))).await;
        assert_eq!(refused.reason, Reason::ConcurrencyFull);
        assert_eq!(told(&refused, "x-ratelimit-limit-tokens"), Some("1000"));
        assert_eq!(told(&refused, "x-ratelimit-remaining-tokens"), Some(left));
    }
}

#[tokio::test]
async fn a_rate_that_is_used_up_is_refused_by_level_and_name() {
    for (level, reach) in LEVELS {
        for world in World::each(&Shape::default()).await {
            let node = world.node();
            node.apply(&plain()).await;
            let limits = Limits {
                requests_per_minute: Some(6),
                burst: Some(2),
                ..Limits::default()
            };
            let answer = node.acquire(limited((level, reach), limits)).await;
            let state = &answer.rate_limits[0];
            assert_eq!(
                (state.level.as_str(), state.unit.as_str()),
                (level, "requests")
            );
            assert_eq!((state.limit, state.remaining), (6, 1));
            node.acquire(limited((level, reach), limits)).await;
            let refused = node.refused(limited((level, reach), limits)).await;
            assert_eq!(refused.reason, Reason::RateLimitExceeded);
            assert_eq!(
                refused.message,
                format!("the {level}'s limit of 6 requests per minute is used up")
            );
            let header = |name| told(&refused, name);
            assert_eq!(header("x-ratelimit-limit-requests"), Some("6"));
            assert_eq!(header("x-ratelimit-remaining-requests"), Some("0"));
            assert!(header("x-ratelimit-reset-requests").is_some());
            assert_eq!(header("x-ratelimit-limit-tokens"), None);
            // One in ten seconds.
            let secs = refused.retry_after_secs().unwrap();
            assert!((1..=10).contains(&secs), "{secs}");
        }
    }
}

#[tokio::test]
async fn slots_of_each_level_are_counted_and_come_back() {
    for (level, reach) in LEVELS {
        for world in World::each(&Shape::default()).await {
            let node = world.node();
            node.apply(&plain()).await;
            let limits = Limits {
                concurrency: Some(1),
                ..Limits::default()
            };
            let first = limited((level, reach), limits);
            node.acquire(first.clone()).await;
            let refused = node.refused(limited((level, reach), limits)).await;
            assert_eq!(refused.reason, Reason::ConcurrencyFull);
            assert_eq!(
                refused.message,
                format!("all 1 concurrent requests of the {level} are in use")
            );
            assert!(refused.retry_after_secs() >= Some(1));
            node.release(&first.request_id, Release::default()).await;
            node.acquire(limited((level, reach), limits)).await;
        }
    }
}

#[tokio::test]
async fn tokens_are_corrected_to_what_was_used() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&plain()).await;
    let limits = Limits {
        tokens_per_minute: Some(1_000),
        ..Limits::default()
    };
    let key = LEVELS[2];
    let used = async |tokens: u64| {
        let asked = limited(key, limits);
        let answer = node.acquire(asked.clone()).await;
        let release = Release {
            used_tokens: Some(tokens),
            held: answer.lease.clone(),
            ..Release::default()
        };
        node.release(&asked.request_id, release).await;
        left(&answer, "tokens")
    };
    // Estimated at 100, used 600: the second sees what the first used, the third finds nothing.
    assert_eq!(used(600).await, 900);
    assert_eq!(used(600).await, 300);
    let refused = node.refused(limited(key, limits)).await;
    assert_eq!(refused.reason, Reason::RateLimitExceeded);
    // 200 below zero, at a thousand a minute: a little more than twelve seconds.
    assert!((12..=13).contains(&refused.retry_after_secs().unwrap()));
}

#[tokio::test]
async fn an_undone_request_gives_its_limits_back() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&plain()).await;
        let limits = Limits {
            requests_per_minute: Some(1),
            burst: Some(1),
            concurrency: Some(1),
            ..Limits::default()
        };
        let first = limited(LEVELS[2], limits);
        node.acquire(first.clone()).await;
        node.release(
            &first.request_id,
            Release {
                undo: true,
                ..Release::default()
            },
        )
        .await;
        node.acquire(limited(LEVELS[2], limits)).await;
    }
}

#[tokio::test]
async fn a_refused_request_consumes_nothing_of_any_limit() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&one_model(
            &account("a", ", concurrency: 1"),
            "targets: [{account: a, model: up}], queue: none",
        ))
        .await;
        let limits = Limits {
            requests_per_minute: Some(60),
            burst: Some(2),
            concurrency: Some(2),
            ..Limits::default()
        };
        let holder = asked();
        node.acquire(holder.clone()).await;
        for _ in 0..10 {
            // The account is full: what the key gave is given back.
            let refused = node.refused(limited(LEVELS[2], limits)).await;
            assert_eq!(refused.reason, Reason::ConcurrencyFull);
        }
        node.release(&holder.request_id, Release::default()).await;
        let answer = node.acquire(limited(LEVELS[2], limits)).await;
        assert_eq!(left(&answer, "requests"), 1);
    }
}

#[tokio::test]
async fn a_models_own_limits_count_for_all_callers() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&one_model(
            &account("a", ""),
            "targets: [{account: a, model: up}], queue: none, limits: {requests_per_minute: 6, burst: 3, concurrency: 1}",
        ))
        .await;
        let first = asked();
        let answer = node.acquire(first.clone()).await;
        assert_eq!(answer.rate_limits[0].level, "model");
        let other = asked_with(|demand| demand.tenant = "other".to_owned());
        assert_eq!(node.refused(other).await.reason, Reason::ConcurrencyFull);
        node.release(
            &first.request_id,
            Release {
                held: answer.lease,
                ..Release::default()
            },
        )
        .await;
        for _ in 0..2 {
            let next = asked();
            node.acquire(next.clone()).await;
            node.release(&next.request_id, Release::default()).await;
        }
        let refused = node.refused(asked()).await;
        assert_eq!(refused.reason, Reason::RateLimitExceeded);
        assert_eq!(
            refused.message,
            "the model's limit of 6 requests per minute is used up"
        );
    }
}

#[tokio::test]
async fn an_accounts_own_rate_passes_it_over() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let accounts =
            account("a", ", limits: {requests_per_minute: 1, burst: 1}") + &account("b", "");
        node.apply(&one_model(
            &accounts,
            "targets: [{account: a, model: up}, {account: b, model: up, tier: 1}], queue: none",
        ))
        .await;
        assert_eq!(crate::world::granted(&node.acquire(asked()).await), "a");
        assert_eq!(crate::world::granted(&node.acquire(asked()).await), "b");
    }
}
