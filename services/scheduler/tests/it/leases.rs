//! Leases: asked twice, released before, renewed, ended (FLOW-2, FLOW-3; CASES B7).

use std::time::Duration;

use switchboard_common::error::Reason;
use switchboard_proto::{
    common::v1::Limits,
    scheduler::v1::{AcquireRequest, Release},
};
use tokio::task::JoinSet;

use crate::world::{Shape, World, account, asked_with, granted, one_model, until};

fn one_slot(queue: &str) -> String {
    one_model(
        &account("a", ", concurrency: 1"),
        &format!("targets: [{{account: a, model: up}}], queue: {queue}"),
    )
}

fn limited() -> AcquireRequest {
    asked_with(|demand| {
        demand.key_limits = Some(Limits {
            concurrency: Some(1),
            ..Limits::default()
        });
    })
}

#[tokio::test]
async fn asking_twice_is_one_lease() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&one_slot("none")).await;
        let asked = limited();
        let mut calls = JoinSet::new();
        for _ in 0..8 {
            let (own, asked) = (node.clone(), asked.clone());
            calls.spawn(async move { own.acquire(asked).await });
        }
        while let Some(answer) = calls.join_next().await {
            let answer = answer.unwrap();
            assert_eq!(granted(&answer), "a");
            assert_eq!(answer.lease.unwrap().account, "a");
        }
        node.release(&asked.request_id, Release::default()).await;
        assert_eq!(world.held().await, 0);
        node.acquire(limited()).await;
    }
}

#[tokio::test]
async fn what_was_released_before_it_was_asked_for_is_not_granted() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&one_slot("none")).await;
        let asked = limited();
        node.release(
            &asked.request_id,
            Release {
                undo: true,
                ..Release::default()
            },
        )
        .await;
        assert_eq!(node.refused(asked).await.reason, Reason::CallerLeft);
        node.acquire(limited()).await;
    }
}

#[tokio::test]
async fn a_lease_that_nobody_renews_ends_and_one_that_is_renewed_does_not() {
    let shape = Shape {
        lease_ttl: Duration::from_secs(30),
        ..Shape::default()
    };
    let world = World::timed(&shape).await;
    let node = world.node();
    node.apply(&one_slot("none")).await;
    let asked = limited();
    let lease = node.acquire(asked.clone()).await.lease.unwrap();
    for _ in 0..5 {
        world.pass(20_000);
        node.renew(&asked.request_id, lease.clone()).await;
        assert_eq!(
            node.refused(limited()).await.reason,
            Reason::ConcurrencyFull
        );
    }
    world.pass(30_001);
    node.acquire(limited()).await;
    until("the gauge follows", async || {
        world.metrics.render().contains("switchboard_slots_held 1")
    })
    .await;
}

#[tokio::test]
async fn a_renewal_puts_back_what_the_store_lost() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    let world = World::timed(&shape).await;
    let (here, there) = (world.nodes[0].clone(), world.nodes[1].clone());
    here.apply(&one_slot("none")).await;
    until("seen there", async || {
        world
            .metrics
            .render()
            .contains("switchboard_catalogue_version 1")
    })
    .await;
    let asked = limited();
    let lease = here.acquire(asked.clone()).await.lease.unwrap();
    // It ended; another process, which knows nothing of it, gets the renewal.
    world.pass(40_000);
    there.renew(&asked.request_id, lease).await;
    assert_eq!(
        here.refused(limited()).await.reason,
        Reason::ConcurrencyFull
    );
}
