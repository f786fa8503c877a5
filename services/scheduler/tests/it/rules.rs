//! A tenant's own choice of accounts (ROUTE-4).

use std::collections::BTreeSet;

use switchboard_common::error::Reason;
use switchboard_proto::{
    common::v1::TargetRule,
    scheduler::v1::{AcquireRequest, AcquireResponse, Blame, FailureKind, Release},
};
use tokio::task::JoinSet;

use crate::world::{Node, Shape, World, account, asked, granted, one_model, outcome, until};

/// `pin`, `forbid` and `weights`, words apart by blanks.
fn ruled(pin: &str, forbid: &str, weights: &[(&str, u32)]) -> AcquireRequest {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    AcquireRequest {
        route: Some(TargetRule {
            pin: words(pin),
            forbid: words(forbid),
            weights: weights
                .iter()
                .map(|(account, weight)| ((*account).to_owned(), *weight))
                .collect(),
        }),
        ..asked()
    }
}

/// Accounts `a`, `b`, `c` with one slot each; `c` is drained.
async fn three(world: &World) -> Node {
    let node = world.node();
    let accounts: String = ["a", "b", "c"]
        .map(|name| account(name, ", concurrency: 1"))
        .concat();
    node.apply(&one_model(
        &accounts,
        "targets: [{account: a, model: up, weight: 1000000}, {account: b, model: up}, {account: c, model: up, weight: 0}]",
    ))
    .await;
    node
}

fn candidates(answer: &AcquireResponse) -> BTreeSet<&str> {
    answer
        .candidates
        .iter()
        .map(|candidate| candidate.account.as_str())
        .collect()
}

/// Account, weight, and the outcome of the rule's filter of each target.
fn told(answer: &AcquireResponse) -> Vec<(String, u64, bool, String)> {
    let decision: serde_json::Value = serde_json::from_str(&answer.decision_json).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut targets: Vec<_> = decision["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| {
            let filters = target["filters"].as_array().unwrap();
            let rule = filters
                .iter()
                .find(|filter| filter["filter"] == "tenant")
                .unwrap();
            (
                text(&target["account"]),
                target["weight"].as_u64().unwrap(),
                rule["pass"].as_bool().unwrap(),
                text(&rule["detail"]),
            )
        })
        .collect();
    targets.sort();
    targets
}

fn line(account: &str, weight: u64, pass: bool, detail: &str) -> (String, u64, bool, String) {
    (account.to_owned(), weight, pass, detail.to_owned())
}

async fn release(node: &Node, asked: &AcquireRequest, answer: AcquireResponse) {
    let release = Release {
        held: answer.lease,
        ..Release::default()
    };
    node.release(&asked.request_id, release).await;
}

#[tokio::test]
async fn a_tenant_pins_and_forbids_accounts_and_the_decision_tells_it() {
    let world = World::small(&Shape::default()).await;
    let node = three(&world).await;
    let pinned = ruled("b", "", &[]);
    let answer = node.acquire(pinned.clone()).await;
    assert_eq!((granted(&answer), candidates(&answer)), ("b", ["b"].into()));
    let elsewhere = "the tenant is pinned to other accounts";
    assert_eq!(
        told(&answer),
        [
            line("a", 1_000_000, false, elsewhere),
            line("b", 1, true, "pinned"),
            line("c", 0, false, elsewhere),
        ]
    );
    release(&node, &pinned, answer).await;
    let forbidding = ruled("", "a", &[]);
    let answer = node.acquire(forbidding.clone()).await;
    assert_eq!(candidates(&answer), ["b"].into());
    assert_eq!(
        told(&answer)[0],
        line("a", 1_000_000, false, "the tenant forbids this account")
    );
    release(&node, &forbidding, answer).await;
    let refused = node.refused(ruled("a", "a", &[])).await;
    assert_eq!(refused.reason, Reason::NoAccount);
    assert!(
        refused.message.contains("the tenant's own routes"),
        "{}",
        refused.message
    );
    assert_eq!(world.held().await, 0);
    let free = node.acquire(asked()).await;
    assert_eq!(
        candidates(&free),
        ["a", "b"].into(),
        "others are served as ever"
    );
}

#[tokio::test]
async fn a_tenants_weights_stand_in_place_of_the_targets() {
    let world = World::small(&Shape::default()).await;
    let node = three(&world).await;
    let drained = ruled("", "", &[("a", 0), ("c", 1_000_000)]);
    let answer = node.acquire(drained.clone()).await;
    assert_eq!(
        (granted(&answer), candidates(&answer)),
        ("c", ["b", "c"].into())
    );
    assert_eq!(
        told(&answer),
        [
            line("a", 0, true, "weight 0 in place of 1000000"),
            line("b", 1, true, ""),
            line("c", 1_000_000, true, "weight 1000000 in place of 0"),
        ]
    );
    release(&node, &drained, answer).await;
    let answer = node.acquire(asked()).await;
    assert_eq!(candidates(&answer), ["a", "b"].into());
}

#[tokio::test]
async fn a_request_moves_on_by_its_tenants_rule() {
    let world = World::small(&Shape::default()).await;
    let node = three(&world).await;
    let asked = ruled("", "b", &[("c", 1)]);
    let answer = node.acquire(asked.clone()).await;
    assert_eq!(candidates(&answer), ["a", "c"].into());
    let failed = outcome(granted(&answer), FailureKind::Server, Blame::Nobody);
    let left = if granted(&answer) == "a" { "c" } else { "a" };
    // `c` serves this tenant alone, `b` never, whoever names it.
    let (next, _) = node.advance(&asked, failed, &["b", left], 1).await;
    assert_eq!(next.as_deref(), Some(left));
}

#[tokio::test]
async fn who_waits_for_its_own_account_holds_up_nobody_and_gets_no_other() {
    let world = World::small(&Shape::default()).await;
    let node = three(&world).await;
    let holder = ruled("b", "", &[]);
    let held = node.acquire(holder.clone()).await;
    let (waiter, waits) = (ruled("b", "", &[]), node.clone());
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { waits.acquire(waiter).await });
    until("one waits", async || node.component.waiters() == 1).await;
    let other = asked();
    let answer = node.acquire(other.clone()).await;
    assert_eq!((granted(&answer), answer.queued_us), ("a", 0));
    // `a` is free from here on and by far the heavier.
    release(&node, &other, answer).await;
    release(&node, &holder, held).await;
    let served = waiting.join_next().await.unwrap().unwrap();
    assert_eq!(granted(&served), "b");
    assert!(served.queued_us > 0);
}
