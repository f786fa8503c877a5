//! Who rests, how long, and what callers are told (SCHED-9, SCHED-11; CASES B13, C34, D12).

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::common::v1::{Actor, Limits};
use switchboard_proto::scheduler::v1::{
    AttemptOutcome, Blame, FailureKind, ListAuditRequest, Release, ResetCooldownsRequest,
};

use crate::world::{
    Node, Shape, World, account, asked, asked_with, granted, one_model, outcome, until,
};

fn two() -> String {
    one_model(
        &(account("a", "") + &account("b", "")),
        "targets: [{account: a, model: up}, {account: b, model: up, tier: 1}]",
    )
}

/// Serves one request and ends it like that.
async fn end(node: &Node, outcome: AttemptOutcome) {
    let asked = asked();
    let answer = node.acquire(asked.clone()).await;
    let release = Release {
        outcome: Some(outcome),
        held: answer.lease,
        ..Release::default()
    };
    node.release(&asked.request_id, release).await;
}

fn limited(account: &str, seconds: u64) -> AttemptOutcome {
    AttemptOutcome {
        status: 429,
        retry_after_ms: Some(seconds * 1_000),
        ..outcome(account, FailureKind::RateLimited, Blame::Account)
    }
}

async fn serves(node: &Node) -> String {
    let asked = asked();
    let answer = node.acquire(asked.clone()).await;
    node.release(&asked.request_id, Release::default()).await;
    granted(&answer).to_owned()
}

#[tokio::test]
async fn an_account_rests_as_long_as_its_429_says() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&two()).await;
    assert_eq!(serves(&node).await, "a");
    end(&node, limited("a", 60)).await;
    assert_eq!(serves(&node).await, "b");
    world.pass(59_999);
    assert_eq!(serves(&node).await, "b");
    world.pass(1);
    assert_eq!(serves(&node).await, "a");
}

#[tokio::test]
async fn when_all_rest_the_caller_is_told_when_the_first_one_is_back() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&two()).await;
    end(&node, limited("a", 90)).await;
    end(&node, limited("b", 60)).await;
    let refused = node.refused(asked()).await;
    assert_eq!(refused.reason, Reason::RateLimitExceeded);
    assert_eq!(refused.retry_after_secs(), Some(60));
    world.pass(500);
    // Whole seconds, rounded up.
    assert_eq!(node.refused(asked()).await.retry_after_secs(), Some(60));
}

#[tokio::test]
async fn when_all_rest_for_one_kind_of_reason_the_caller_is_told_it() {
    use FailureKind::{Address, Credential, Overloaded, Quota, RateLimited};
    for (a, b, reason) in [
        (Credential, Credential, Reason::UpstreamCredentialsExhausted),
        (Quota, Credential, Reason::UpstreamCredentialsExhausted),
        (RateLimited, RateLimited, Reason::RateLimitExceeded),
        (RateLimited, Credential, Reason::RateLimitExceeded),
        (Address, Address, Reason::UpstreamFailed),
        (Address, Credential, Reason::NoAccount),
        (Overloaded, Overloaded, Reason::NoAccount),
        (Quota, Overloaded, Reason::NoAccount),
    ] {
        let world = World::timed(&Shape::default()).await;
        let node = world.node();
        node.apply(&two()).await;
        for (account, failure) in [("a", a), ("b", b)] {
            let failed = AttemptOutcome {
                retry_after_ms: Some(20_000),
                ..outcome(account, failure, Blame::Account)
            };
            end(&node, failed).await;
        }
        let refused = node.refused(asked()).await;
        assert_eq!(refused.reason, reason, "{a:?} {b:?}");
        assert!(refused.retry_after_secs() >= Some(20), "{refused:?}");
    }
}

#[tokio::test]
async fn of_a_models_and_its_accounts_rest_the_longer_one_says_why() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    let text = one_model(&account("a", ""), "targets: [{account: a, model: up}]");
    node.apply(&text).await;
    let request = asked();
    node.acquire(request.clone()).await;
    // While one request runs, others may fail in their own ways.
    for failed in [
        outcome("a", FailureKind::Credential, Blame::Account),
        AttemptOutcome {
            blame: Blame::Model as i32,
            ..limited("a", 60)
        },
    ] {
        let release = Release {
            outcome: Some(failed),
            ..Release::default()
        };
        node.release(&asked().request_id, release).await;
    }
    assert_eq!(
        node.refused(asked()).await.reason,
        Reason::RateLimitExceeded
    );
}

#[tokio::test]
async fn the_only_account_left_rests_no_longer_than_the_cap() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&two()).await;
    end(&node, limited("a", 500)).await;
    end(&node, limited("b", 500)).await;
    assert_eq!(node.refused(asked()).await.retry_after_secs(), Some(60));
    world.pass(60_000);
    assert_eq!(serves(&node).await, "b");
}

#[tokio::test]
async fn a_429_without_a_time_rests_five_seconds_and_longer_each_time() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&two()).await;
    let burst = || outcome("a", FailureKind::RateLimited, Blame::Account);
    for seconds in [5, 10, 20] {
        end(&node, burst()).await;
        world.pass(seconds * 1_000 - 1);
        assert_eq!(serves(&node).await, "b", "{seconds}");
        world.pass(1);
        assert_eq!(serves(&node).await, "a", "{seconds}");
    }
}

#[tokio::test]
async fn only_the_one_at_fault_rests() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&two()).await;
    for (failure, blame) in [
        (FailureKind::Request, Blame::Request),
        (FailureKind::Server, Blame::Host),
        (FailureKind::Network, Blame::Host),
        (FailureKind::Timeout, Blame::Host),
        (FailureKind::RateLimited, Blame::Request),
        (FailureKind::Unspecified, Blame::Nobody),
    ] {
        end(&node, outcome("a", failure, blame)).await;
        assert_eq!(serves(&node).await, "a", "{failure:?} {blame:?}");
    }
    for (failure, blame) in [
        (FailureKind::Credential, Blame::Account),
        (FailureKind::Quota, Blame::Account),
        (FailureKind::Address, Blame::Account),
        (FailureKind::Overloaded, Blame::Host),
        (FailureKind::RateLimited, Blame::Model),
    ] {
        end(&node, outcome("a", failure, blame)).await;
        assert_eq!(serves(&node).await, "b", "{failure:?} {blame:?}");
        reset(&node, "a").await;
        assert_eq!(serves(&node).await, "a", "{failure:?} {blame:?}");
    }
}

async fn reset(node: &Node, account: &str) -> u32 {
    let request = ResetCooldownsRequest {
        actor: Some(Actor {
            name: "cli".to_owned(),
            reason: "test".to_owned(),
        }),
        account: account.to_owned(),
    };
    node.admin
        .clone()
        .reset_cooldowns(request)
        .await
        .unwrap()
        .into_inner()
        .lifted
}

#[tokio::test]
async fn an_account_that_is_none_is_not_found_and_nothing_is_written_of_it() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    let text = one_model(&account("a", ""), "targets: [{account: a, model: up}]");
    node.apply(&text).await;
    let request = ResetCooldownsRequest {
        actor: Some(Actor {
            name: "cli".to_owned(),
            reason: "test".to_owned(),
        }),
        account: "typo".to_owned(),
    };
    let refused = node.admin.clone().reset_cooldowns(request).await;
    let failure = Failure::from_status(&refused.unwrap_err());
    assert_eq!(failure.reason, Reason::NotFound);
    assert_eq!(failure.message, "there is no account `typo`");
    let asked = ListAuditRequest { limit: 10 };
    let audit = node.admin.clone().list_audit(asked).await.unwrap();
    let entries = audit.into_inner().entries;
    assert!(
        entries.iter().all(|entry| !entry.detail.contains("typo")),
        "{entries:?}"
    );
}

#[tokio::test]
async fn a_model_at_fault_rests_alone() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    let text = one_model(
        &(account("a", "") + &account("b", "")),
        "targets: [{account: a, model: up}, {account: a, model: other, tier: 1}, {account: b, model: up, tier: 2}]",
    );
    node.apply(&text).await;
    end(
        &node,
        AttemptOutcome {
            blame: Blame::Model as i32,
            ..limited("a", 60)
        },
    )
    .await;
    let answer = node.acquire(asked()).await;
    let candidate = &answer.candidates[answer.granted as usize];
    assert_eq!(
        (
            candidate.account.as_str(),
            candidate.upstream_model.as_str()
        ),
        ("a", "other")
    );
}

#[tokio::test]
async fn an_account_that_is_never_cooled_is_not() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    let accounts = account("a", ", cooldown: {max: 0s}") + &account("b", "");
    node.apply(&one_model(
        &accounts,
        "targets: [{account: a, model: up}, {account: b, model: up, tier: 1}]",
    ))
    .await;
    end(&node, limited("a", 60)).await;
    assert_eq!(serves(&node).await, "a");
}

#[tokio::test]
async fn what_one_process_learnt_the_others_use() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let (here, there) = (world.nodes[0].clone(), world.nodes[1].clone());
        let version = here.apply(&two()).await;
        until("seen there", async || {
            let mut asked = asked();
            asked.catalogue_version = version;
            there.try_acquire(asked).await.is_ok()
        })
        .await;
        end(&here, limited("a", 600)).await;
        until("rests there too", async || serves(&there).await == "b").await;
    }
}

#[tokio::test]
async fn advance_goes_to_the_next_one_that_is_usable_and_frees_the_old() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let accounts = account("a", ", concurrency: 1")
            + &account("b", ", concurrency: 1")
            + &account("c", ", concurrency: 1");
        node.apply(&one_model(
            &accounts,
            "targets: [{account: a, model: up}, {account: b, model: up, tier: 1}, {account: c, model: up, tier: 2}]",
        ))
        .await;
        let first = asked();
        assert_eq!(granted(&node.acquire(first.clone()).await), "a");
        let second = asked();
        assert_eq!(granted(&node.acquire(second.clone()).await), "b");
        let failed = || outcome("a", FailureKind::Server, Blame::Host);
        let (next, _) = node.advance(&first, failed(), &["b", "c"], 1).await;
        assert_eq!(next.as_deref(), Some("c"));
        // Asked again it is the same slot.
        let (again, _) = node.advance(&first, failed(), &["b", "c"], 1).await;
        assert_eq!(again.as_deref(), Some("c"));
        // The slot at the first account is free again.
        let third = asked();
        assert_eq!(granted(&node.acquire(third.clone()).await), "a");
        // Nobody is left: it keeps what it has and learns when to come again.
        let failed = AttemptOutcome {
            account: "c".to_owned(),
            ..failed()
        };
        let (next, retry) = node.advance(&first, failed, &["b"], 2).await;
        assert!(next.is_none() && retry.is_some());
        for request in [&first, &second, &third] {
            node.release(&request.request_id, Release::default()).await;
        }
        assert_eq!(world.held().await, 0);
    }
}

#[tokio::test]
async fn advance_passes_over_what_rests_and_tells_how_long() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.apply(&two()).await;
    let request = asked();
    node.acquire(request.clone()).await;
    end_b(&node, 30).await;
    let failed = outcome("a", FailureKind::Credential, Blame::Account);
    let (next, retry) = node.advance(&request, failed, &["b"], 1).await;
    assert_eq!((next, retry), (None, Some(30_000)));
    // What the failed attempt taught counts as well.
    assert_eq!(
        node.refused(asked()).await.reason,
        Reason::RateLimitExceeded
    );
}

async fn end_b(node: &Node, seconds: u64) {
    let request = asked();
    let release = Release {
        outcome: Some(limited("b", seconds)),
        ..Release::default()
    };
    node.release(&request.request_id, release).await;
}

#[tokio::test]
async fn another_model_at_the_same_account_is_served_on_the_slot_that_is_held() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&one_model(
            &account("a", ", concurrency: 1"),
            "targets: [{account: a, model: up}, {account: a, model: other, tier: 1}]",
        ))
        .await;
        let request = asked();
        let lease = node.acquire(request.clone()).await.lease;
        let failed = outcome("a", FailureKind::Server, Blame::Model);
        let left = [("a", "other")];
        let answer = node
            .advance_lease(&request, failed, &left, 1, lease.clone())
            .await;
        assert_eq!((answer.granted, answer.lease), (Some(0), lease));
        node.release(&request.request_id, Release::default()).await;
        assert_eq!(world.held().await, 0);
    }
}

#[tokio::test]
async fn a_lease_may_move_through_one_process_and_end_at_another() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let (here, there) = (world.nodes[0].clone(), world.nodes[1].clone());
        let accounts = account("a", ", concurrency: 1") + &account("b", ", concurrency: 1");
        let version = here
            .apply(&one_model(
                &accounts,
                "targets: [{account: a, model: up}, {account: b, model: up, tier: 1}], queue: none",
            ))
            .await;
        let mut request = asked_with(|demand| {
            demand.key_limits = Some(Limits {
                concurrency: Some(1),
                ..Limits::default()
            });
        });
        request.catalogue_version = version;
        let lease = here.acquire(request.clone()).await.lease;
        let failed = outcome("a", FailureKind::Server, Blame::Host);
        let moved = there
            .advance_lease(&request, failed, &[("b", "up")], 1, lease)
            .await
            .lease
            .unwrap();
        assert_eq!(
            (moved.account.as_str(), moved.attempt, moved.key_slot),
            ("b", 1, true)
        );
        // The slot at the first account is free, the one at the second is not.
        let mut other = asked();
        other.catalogue_version = version;
        assert_eq!(granted(&here.acquire(other.clone()).await), "a");
        assert_eq!(here.refused(asked()).await.reason, Reason::ConcurrencyFull);
        here.renew(&request.request_id, moved.clone()).await;
        let release = Release {
            held: Some(moved),
            ..Release::default()
        };
        here.release(&request.request_id, release).await;
        here.release(&other.request_id, Release::default()).await;
        assert_eq!(world.held().await, 0);
    }
}
