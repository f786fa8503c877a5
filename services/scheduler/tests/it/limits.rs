//! Limits at each level (FLOW-1, FLOW-2, FLOW-5; CASES A25, A26).

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    common::v1::{Dialect, Limits, TargetRule},
    scheduler::v1::{AcquireRequest, AcquireResponse, Demand, GetRateLimitsRequest, Release},
};

use crate::world::{Shape, World, account, asked, asked_with, one_model, until};

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
    for (concurrency, at_account) in [(Some(1), ""), (None, ", concurrency: 1")] {
        let world = World::timed(&Shape::default()).await;
        let node = world.node();
        let model = "targets: [{account: a, model: up}], queue: none";
        node.apply(&one_model(&account("a", at_account), model))
            .await;
        node.acquire(limited(key, limits(concurrency))).await;
        let refused = node.refused(limited(key, limits(concurrency))).await;
        assert_eq!(refused.reason, Reason::ConcurrencyFull);
        assert_eq!(told(&refused, "x-ratelimit-limit-tokens"), Some("1000"));
        // What the refused request took of its key is given back.
        assert_eq!(told(&refused, "x-ratelimit-remaining-tokens"), Some("900"));
    }
}

/// Sixty requests a minute, of which one is gone after one request.
const RATE: Limits = Limits {
    requests_per_second: None,
    requests_per_minute: Some(60),
    tokens_per_minute: None,
    concurrency: None,
    burst: Some(9),
};

#[tokio::test]
async fn every_refusal_tells_the_callers_rates() {
    let key = LEVELS[2];
    let ask = || limited(key, RATE);
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let model = "targets: [{account: a, model: up}], queue: {depth: 1, wait: 30s}";
        node.apply(&one_model(&account("a", ", concurrency: 1"), model))
            .await;
        let holder = ask();
        node.acquire(holder.clone()).await;
        let own = node.clone();
        let waiter = tokio_util::task::AbortOnDropHandle::new(spawn(async move {
            own.acquire(limited(LEVELS[2], RATE)).await
        }));
        until("one waits", async || node.component.waiters() == 1).await;
        // No bucket was asked: others wait, and this one may not or has no room.
        let mut embedding = ask();
        embedding.dialect = Dialect::OpenaiEmbeddings as i32;
        for (asked, reason) in [
            (ask(), Reason::QueueFull),
            (embedding, Reason::ConcurrencyFull),
        ] {
            let refused = node.refused(asked).await;
            assert_eq!(refused.reason, reason);
            assert_eq!(told(&refused, "x-ratelimit-limit-requests"), Some("60"));
            // What the waiter asked for may be set aside for it.
            let left = told(&refused, "x-ratelimit-remaining-requests");
            assert!(matches!(left, Some("7" | "8")), "{left:?}");
            assert!(refused.retry_after_secs() >= Some(1));
        }
        let held = node.release(&holder.request_id, Release::default());
        held.await;
        waiter.await.unwrap();
        // Nobody may serve this caller.
        let mut pinned = ask();
        pinned.route = Some(TargetRule {
            forbid: vec!["a".to_owned()],
            ..TargetRule::default()
        });
        let refused = node.refused(pinned).await;
        assert_eq!(refused.reason, Reason::NoAccount);
        assert_eq!(told(&refused, "x-ratelimit-limit-requests"), Some("60"));
        assert!(refused.retry_after_secs() >= Some(1));
    }
}

#[tokio::test]
async fn a_models_rate_that_is_used_up_shows_beside_the_callers_own() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    let model = "targets: [{account: a, model: up}], queue: none, limits: {requests_per_minute: 30, burst: 1}";
    node.apply(&one_model(&account("a", ""), model)).await;
    let mut limits = RATE;
    limits.tokens_per_minute = Some(1_000);
    let ask = || limited(LEVELS[2], limits);
    node.acquire(ask()).await;
    let refused = node.refused(ask()).await;
    assert_eq!(
        refused.message,
        "the model's limit of 30 requests per minute is used up: they come back evenly over the minute, and `burst` says how many may come at once"
    );
    // The tightest limit of each unit: the model's requests, the key's tokens.
    assert_eq!(told(&refused, "x-ratelimit-limit-requests"), Some("30"));
    assert_eq!(told(&refused, "x-ratelimit-remaining-requests"), Some("0"));
    assert_eq!(told(&refused, "x-ratelimit-limit-tokens"), Some("1000"));
    assert_eq!(told(&refused, "x-ratelimit-remaining-tokens"), Some("900"));

    // Each dialect by its own names.
    let mut anthropic = ask();
    anthropic.dialect = Dialect::AnthropicMessages as i32;
    let refused = node.refused(anthropic).await;
    assert_eq!(told(&refused, "x-ratelimit-limit-tokens"), None);
    let left = told(&refused, "anthropic-ratelimit-tokens-remaining");
    assert_eq!(left, Some("900"));
}

#[tokio::test]
async fn rates_are_told_without_taking_anything() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let model = "targets: [{account: a, model: up}], queue: none, limits: {requests_per_minute: 30, burst: 5}";
        node.apply(&one_model(&account("a", ""), model)).await;
        let asked = limited(LEVELS[2], RATE);
        node.acquire(asked.clone()).await;
        let mut look = GetRateLimitsRequest {
            demand: asked.demand,
            model: "m".to_owned(),
            catalogue_version: 0,
        };
        let mut scheduler = node.scheduler.clone();
        for _ in 0..2 {
            let told = scheduler.get_rate_limits(look.clone()).await.unwrap();
            let told: Vec<_> = told
                .into_inner()
                .rate_limits
                .into_iter()
                .map(|state| (state.level, state.limit, state.remaining))
                .collect();
            assert_eq!(
                told,
                [("key".to_owned(), 60, 8), ("model".to_owned(), 30, 4)]
            );
        }
        look.model.clear();
        let own = scheduler.get_rate_limits(look.clone()).await.unwrap();
        assert_eq!(own.into_inner().rate_limits.len(), 1);
        look.demand = None;
        let wrong = scheduler.get_rate_limits(look).await.unwrap_err();
        assert_eq!(Failure::from_status(&wrong).reason, Reason::InvalidRequest);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own caller")]
fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
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
                format!(
                    "the {level}'s limit of 6 requests per minute is used up: they come back evenly over the minute, and `burst` says how many may come at once"
                )
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
            "the model's limit of 6 requests per minute is used up: they come back evenly over the minute, and `burst` says how many may come at once"
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
