//! Responses are served by the account that keeps them (SCHED-6, SCHED-7, FWD-9).

use std::time::Duration;

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::scheduler::v1::{
    AcquireRequest, BindResponseRequest, Blame, FailureKind, FindResponseRequest, Release,
    ResponseBinding,
};
use switchboard_scheduler::Config;
use tokio::task::JoinSet;

use crate::world::{Node, Shape, World, account, asked, granted, one_model, outcome, until};

const DAY_MS: i64 = 24 * 3_600 * 1_000;

fn kept_by(account: &str) -> ResponseBinding {
    ResponseBinding {
        account: account.to_owned(),
        public_model: "m".to_owned(),
        ..ResponseBinding::default()
    }
}

impl Node {
    async fn bind(&self, tenant: &str, id: &str, binding: ResponseBinding) -> Result<(), Failure> {
        let asked = BindResponseRequest {
            tenant: tenant.to_owned(),
            response_id: id.to_owned(),
            binding: Some(binding),
        };
        let bound = self.scheduler.clone().bind_response(asked).await;
        bound
            .map(drop)
            .map_err(|status| Failure::from_status(&status))
    }

    async fn find(&self, tenant: &str, id: &str) -> Option<ResponseBinding> {
        let asked = FindResponseRequest {
            tenant: tenant.to_owned(),
            response_id: id.to_owned(),
        };
        let found = self.scheduler.clone().find_response(asked).await.unwrap();
        found.into_inner().binding
    }
}

fn continues(id: &str) -> AcquireRequest {
    AcquireRequest {
        response_id: id.to_owned(),
        ..asked()
    }
}

/// Accounts `a` and `b` of one slot each; nearly all goes to `a`.
async fn two(node: &Node, status: &str) {
    let accounts = account("a", ", concurrency: 1")
        + &account("b", &format!(", concurrency: 1, status: {status}"));
    node.apply(&one_model(
        &accounts,
        "targets: [{account: a, model: up, weight: 1000000}, {account: b, model: up}]",
    ))
    .await;
}

#[tokio::test]
async fn a_continuation_goes_to_the_account_that_keeps_the_response_and_nowhere_else() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let node = world.node();
        two(&node, "active").await;
        node.bind("acme", "resp_1", kept_by("b")).await.unwrap();
        for _ in 0..20 {
            let asked = continues("resp_1");
            let answer = node.acquire(asked.clone()).await;
            assert_eq!(granted(&answer), "b");
            assert_eq!(answer.candidates.len(), 1);
            let decision: serde_json::Value = serde_json::from_str(&answer.decision_json).unwrap();
            assert_eq!(decision["layer"], "response");
            let of_a = decision["targets"].as_array().unwrap();
            let of_a = of_a.iter().find(|target| target["account"] == "a").unwrap();
            let filters = of_a["filters"].as_array().unwrap();
            let filter = filters.iter().find(|one| one["filter"] == "response");
            assert_eq!(filter.unwrap()["pass"], false);
            node.release(&asked.request_id, Release::default()).await;
        }
        // Another process reads it.
        let other = &world.nodes[1];
        until("the other one has the catalogue", async || {
            other.try_acquire(asked()).await.is_ok()
        })
        .await;
        assert_eq!(other.find("acme", "resp_1").await, Some(kept_by("b")));
        assert_eq!(granted(&other.acquire(continues("resp_1")).await), "b");
    }
}

#[tokio::test]
async fn a_continuation_with_a_model_of_other_accounts_is_told_that_waiting_does_not_help() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    two(&node, "active").await;
    node.bind("acme", "resp_1", kept_by("c")).await.unwrap();
    node.bind("acme", "resp_2", kept_by("b")).await.unwrap();
    let refused = node.refused(continues("resp_1")).await;
    assert_eq!(refused.reason, Reason::PreviousResponseUnavailable);
    assert!(
        refused.message.contains("does not serve model `m`"),
        "{refused}"
    );
    two(&node, "disabled").await;
    let refused = node.refused(continues("resp_2")).await;
    assert!(refused.message.contains("at the moment"), "{refused}");
}

#[tokio::test]
async fn a_response_that_is_unknown_or_another_tenants_is_not_found() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        two(&node, "active").await;
        node.bind("globex", "resp_1", kept_by("b")).await.unwrap();
        for id in ["resp_1", "resp_2", "../resp_1", "a\0b"] {
            let refused = node.refused(continues(id)).await;
            assert_eq!(refused.reason, Reason::PreviousResponseNotFound, "{id:?}");
            assert_eq!(refused.param.as_deref(), Some("previous_response_id"));
            assert_eq!(node.find("acme", id).await, None);
        }
        assert_eq!(world.held().await, 0);
        let refused = node.bind("acme", "../x", kept_by("a")).await.unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidRequest);
    }
}

#[tokio::test]
async fn asking_to_remember_again_replaces_what_was_said_and_many_at_once_are_all_written() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let node = world.node();
        let owing = ResponseBinding {
            unsettled: vec![0, 1, 255].into(),
            ..kept_by("a")
        };
        node.bind("acme", "resp_bg", owing.clone()).await.unwrap();
        for node in &world.nodes {
            assert_eq!(node.find("acme", "resp_bg").await, Some(owing.clone()));
        }
        node.bind("acme", "resp_bg", kept_by("a")).await.unwrap();
        for node in &world.nodes {
            assert_eq!(node.find("acme", "resp_bg").await, Some(kept_by("a")));
        }
        let mut binds = JoinSet::new();
        for at in 0..300 {
            let node = node.clone();
            // Some are of the same response.
            let id = format!("resp_{}", at % 250);
            binds.spawn(async move { node.bind("acme", &id, kept_by("b")).await });
        }
        while let Some(bound) = binds.join_next().await {
            bound.unwrap().unwrap();
        }
        for at in 0..250 {
            let found = world.nodes[1].find("acme", &format!("resp_{at}")).await;
            assert_eq!(found, Some(kept_by("b")), "{at}");
        }
    }
}

#[tokio::test]
async fn what_has_expired_is_forgotten() {
    let world = World::timed(&Shape::default()).await;
    let node = world.node();
    node.bind("acme", "resp_1", kept_by("a")).await.unwrap();
    world.pass(30 * DAY_MS - 1);
    assert_eq!(node.find("acme", "resp_1").await, Some(kept_by("a")));
    world.pass(1);
    assert_eq!(node.find("acme", "resp_1").await, None);
}

#[tokio::test]
async fn an_account_that_is_lost_is_told_and_one_that_is_drained_goes_on() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    two(&node, "draining").await;
    node.bind("acme", "resp_1", kept_by("b")).await.unwrap();
    node.bind("acme", "resp_2", kept_by("gone")).await.unwrap();
    assert_eq!(granted(&node.acquire(continues("resp_1")).await), "b");
    let lost = node.refused(continues("resp_2")).await;
    assert_eq!(lost.reason, Reason::PreviousResponseUnavailable);
    two(&node, "disabled").await;
    let lost = node.refused(continues("resp_1")).await;
    assert_eq!(lost.reason, Reason::PreviousResponseUnavailable);
    assert!(lost.retry_after.is_some());
    // Nobody else's matter.
    assert_eq!(granted(&node.acquire(asked()).await), "a");
}

#[tokio::test]
async fn a_full_account_is_waited_for_without_standing_in_others_way() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    two(&node, "active").await;
    node.bind("acme", "resp_1", kept_by("b")).await.unwrap();
    let first = continues("resp_1");
    node.acquire(first.clone()).await;
    let mut second = JoinSet::new();
    let waits = node.clone();
    second.spawn(async move { waits.acquire(continues("resp_1")).await });
    until("it waits", async || node.component.waiters() == 1).await;
    // `a` has a slot for whoever needs no other account.
    let other = asked();
    assert_eq!(granted(&node.acquire(other).await), "a");
    node.release(&first.request_id, Release::default()).await;
    assert_eq!(granted(&second.join_next().await.unwrap().unwrap()), "b");
}

#[tokio::test]
async fn a_short_rest_is_waited_for_and_a_long_one_is_told() {
    let config = Config {
        queue_poll: Duration::from_millis(5),
        ..Shape::default().config
    };
    let world = World::timed(&Shape {
        config,
        ..Shape::default()
    })
    .await;
    let node = world.node();
    two(&node, "active").await;
    node.bind("acme", "resp_1", kept_by("b")).await.unwrap();
    let rest = async |ms: u64| {
        let asked = asked();
        node.acquire(asked.clone()).await;
        let failed = switchboard_proto::scheduler::v1::AttemptOutcome {
            retry_after_ms: Some(ms),
            ..outcome("b", FailureKind::RateLimited, Blame::Account)
        };
        let release = Release {
            outcome: Some(failed),
            ..Release::default()
        };
        node.release(&asked.request_id, release).await;
    };
    rest(20_000).await;
    let mut waiter = JoinSet::new();
    let waits = node.clone();
    waiter.spawn(async move { waits.acquire(continues("resp_1")).await });
    until("it waits", async || node.component.waiters() == 1).await;
    world.pass(20_001);
    let answer = waiter.join_next().await.unwrap().unwrap();
    assert_eq!(granted(&answer), "b");
    rest(120_000).await;
    let lost = node.refused(continues("resp_1")).await;
    assert_eq!(lost.reason, Reason::PreviousResponseUnavailable);
    assert!(
        lost.retry_after
            .is_some_and(|after| after > Duration::from_secs(30))
    );
}
