//! The waiting room (FLOW-4).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use switchboard_common::error::Reason;
use switchboard_proto::{
    common::v1::{Dialect, Endpoint, Limits},
    scheduler::v1::Release,
};
use switchboard_scheduler::Config;
use tokio::task::JoinSet;

use crate::world::{Node, Shape, World, account, asked, asked_with, one_model, until};

fn seven(more: &str) -> String {
    one_model(
        &account("a", ", concurrency: 7"),
        &format!("targets: [{{account: a, model: up}}]{more}"),
    )
}

async fn waiting(node: &Node, count: usize) {
    until(&format!("{count} wait"), async || {
        node.component.waiters() == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_at_seven_slots_are_all_served_and_never_more_than_seven_at_once() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let version = world.node().apply(&seven("")).await;
        let inside = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..200 {
            let (node, inside, most) = (
                world.nodes[caller % 2].clone(),
                Arc::clone(&inside),
                Arc::clone(&most),
            );
            callers.spawn(async move {
                let mut asked = asked();
                asked.catalogue_version = version;
                let answer = node.acquire(asked.clone()).await;
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                let release = Release {
                    held: answer.lease,
                    ..Release::default()
                };
                node.release(&asked.request_id, release).await;
            });
        }
        while let Some(done) = callers.join_next().await {
            done.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 7);
        assert_eq!(world.held().await, 0);
        assert_eq!(world.nodes[0].component.waiters(), 0);
    }
}

#[tokio::test]
async fn waiters_are_served_in_the_order_in_which_they_came() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    node.apply(&seven("")).await;
    let mut holders = Vec::new();
    for _ in 0..7 {
        let asked = asked();
        node.acquire(asked.clone()).await;
        holders.push(asked.request_id);
    }
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut callers = JoinSet::new();
    for caller in 0..20 {
        let (own, served) = (node.clone(), Arc::clone(&served));
        callers.spawn(async move {
            let asked = asked();
            let answer = own.acquire(asked.clone()).await;
            assert!(answer.queued_us > 0);
            served.lock().push(caller);
            asked.request_id
        });
        waiting(&node, caller + 1).await;
    }
    for _ in 0..20 {
        node.release(&holders.remove(0), Release::default()).await;
        holders.push(callers.join_next().await.unwrap().unwrap());
    }
    assert_eq!(*served.lock(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_older_request_that_queues_again_keeps_its_age() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    node.apply(&one_model(
        &account("a", ", concurrency: 1"),
        "targets: [{account: a, model: up}]",
    ))
    .await;
    let holder = asked();
    node.acquire(holder.clone()).await;
    let mut callers = JoinSet::new();
    let now = world.now_ms();
    for (count, age) in [(1, 1_000), (2, 5_000)] {
        let own = node.clone();
        callers.spawn(async move {
            let mut asked = asked();
            asked.arrived_ms = now - age;
            own.acquire(asked).await;
            age
        });
        waiting(&node, count).await;
    }
    node.release(&holder.request_id, Release::default()).await;
    assert_eq!(callers.join_next().await.unwrap().unwrap(), 5_000);
}

#[tokio::test]
async fn a_caller_that_leaves_the_queue_takes_nothing_with_it() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&one_model(
            &account("a", ", concurrency: 1"),
            "targets: [{account: a, model: up}]",
        ))
        .await;
        let holder = asked();
        node.acquire(holder.clone()).await;
        let mut callers = JoinSet::new();
        let mut waiters = Vec::new();
        for count in 1..=2 {
            let own = node.clone();
            let limited = asked_with(|demand| {
                demand.key_limits = Some(Limits {
                    concurrency: Some(5),
                    ..Limits::default()
                });
            });
            waiters.push(limited.request_id.clone());
            let handle = callers.spawn(async move { own.acquire(limited).await });
            waiting(&node, count).await;
            if count == 1 {
                handle.abort();
                waiting(&node, 0).await;
                callers.join_next().await.unwrap().unwrap_err();
                let own = node.clone();
                callers.spawn(async move { own.acquire(asked()).await });
                waiting(&node, 1).await;
            }
        }
        node.release(&holder.request_id, Release::default()).await;
        let answer = callers.join_next().await.unwrap().unwrap();
        assert_eq!(answer.granted, 0);
        drop(callers);
        waiting(&node, 0).await;
    }
}

#[tokio::test]
async fn a_release_wakes_who_waits_in_another_process() {
    let shape = Shape {
        nodes: 2,
        // So long that only a hint can be in time.
        config: Config {
            queue_poll: Duration::from_secs(3_600),
            ..Shape::default().config
        },
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let (here, there) = (world.nodes[0].clone(), world.nodes[1].clone());
        let version = here
            .apply(&one_model(
                &account("a", ", concurrency: 1"),
                "targets: [{account: a, model: up}]",
            ))
            .await;
        let mut holder = asked();
        holder.catalogue_version = version;
        let lease = here.acquire(holder.clone()).await.lease;
        let mut callers = JoinSet::new();
        let own = there.clone();
        callers.spawn(async move {
            let mut asked = asked();
            asked.catalogue_version = version;
            own.acquire(asked).await
        });
        waiting(&there, 1).await;
        // The release comes to the process that did not grant: it knows by what the lease says.
        let release = Release {
            held: lease,
            ..Release::default()
        };
        let third = world.nodes[0].clone();
        third.release(&holder.request_id, release).await;
        callers.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_key_that_is_full_waits_by_itself_and_stands_in_nobodys_way() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&seven("")).await;
        let limited = || {
            asked_with(|demand| {
                demand.key_limits = Some(Limits {
                    concurrency: Some(1),
                    ..Limits::default()
                });
            })
        };
        let holder = limited();
        node.acquire(holder.clone()).await;
        let mut callers = JoinSet::new();
        let own = node.clone();
        callers.spawn(async move { own.acquire(limited()).await });
        waiting(&node, 1).await;
        // Another key is served at once, though it came later.
        node.acquire(asked_with(|demand| demand.key_id = "k2".to_owned()))
            .await;
        assert_eq!(node.component.waiters(), 1);
        node.release(&holder.request_id, Release::default()).await;
        callers.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn who_may_not_wait_is_told_at_once_what_is_full() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let text = |queue: &str| {
        one_model(
            &account(
                "a",
                ", concurrency: 1, dialects: [openai.chat, openai.embeddings, anthropic.messages]",
            ),
            &format!("targets: [{{account: a, model: up}}], queue: {queue}"),
        )
    };
    node.apply(&text("none")).await;
    node.acquire(asked()).await;
    let refused = node.refused(asked()).await;
    assert_eq!(refused.reason, Reason::ConcurrencyFull);
    assert!(refused.retry_after_secs() >= Some(1));

    node.apply(&text("{depth: 1, wait: 30s}")).await;
    let mut embed = asked();
    embed.dialect = Dialect::OpenaiEmbeddings as i32;
    assert_eq!(node.refused(embed).await.reason, Reason::ConcurrencyFull);
    let mut count = asked();
    count.dialect = Dialect::AnthropicMessages as i32;
    count.endpoint = Endpoint::CountTokens as i32;
    assert_eq!(node.refused(count).await.reason, Reason::ConcurrencyFull);

    let mut callers = JoinSet::new();
    let own = node.clone();
    callers.spawn(async move { own.acquire(asked()).await });
    waiting(&node, 1).await;
    let refused = node.refused(asked()).await;
    assert_eq!(refused.reason, Reason::QueueFull);
    assert!(refused.retry_after.is_some());
}

#[tokio::test]
async fn waiting_ends_with_the_deadline() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    node.apply(&one_model(
        &account("a", ", concurrency: 1"),
        "targets: [{account: a, model: up}]",
    ))
    .await;
    node.acquire(asked()).await;
    let mut late = asked();
    late.deadline_ms = world.now_ms() + 50;
    let refused = node.refused(late).await;
    assert_eq!(refused.reason, Reason::ConcurrencyFull);
    assert_eq!(node.component.waiters(), 0);
}

#[tokio::test]
async fn all_queues_together_are_bounded() {
    let shape = Shape {
        config: Config {
            queue_total: 1,
            ..Shape::default().config
        },
        ..Shape::default()
    };
    let world = World::small(&shape).await;
    let node = world.node();
    node.apply(&one_model(
        &account("a", ", concurrency: 1"),
        "targets: [{account: a, model: up}]",
    ))
    .await;
    node.acquire(asked()).await;
    let mut callers = JoinSet::new();
    let own = node.clone();
    callers.spawn(async move { own.acquire(asked()).await });
    waiting(&node, 1).await;
    assert_eq!(node.refused(asked()).await.reason, Reason::QueueFull);
}
