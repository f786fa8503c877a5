//! The state store lost under load: requests go on as declared, and what is counted is right afterwards.

use std::time::Duration;

use fake_upstream::{Gate, Script, Usage};
use serde_json::json;
use switchboard_common::grpc::Role;
use switchboard_integration_tests::caller::{Caller, chat, streamed};
use switchboard_integration_tests::setup::{Setup, upstream_key};
use switchboard_integration_tests::stack::{Builder, Stack, eventually};
use switchboard_state::config::Policy;
use tokio::task::JoinSet;

scenarios! { [split] {
    a_paused_store_delays_nobody_for_long_and_its_limits_become_shares,
    a_killed_store_comes_back_empty_and_everything_is_put_back,
    an_emptied_store_under_load_counts_right_afterwards,
    a_closed_policy_refuses_instead,
} }

/// Slots of the account: with two sharing processes each grants half of them.
fn setup() -> Setup {
    Setup::simple()
        .account("a", "concurrency: 4")
        .model(
            "m",
            "price: {input: 0, output: 1.00}, targets: [{account: a, model: up-m}], queue: none",
        )
        .tenant("acme", "balance: 1.00")
}

fn quick(builder: Builder) -> Builder {
    builder.settings(|settings| {
        // A slow machine is no store that is away.
        settings.state.timeout = Duration::from_millis(500);
        settings.state.probe_interval = Duration::from_millis(50);
        settings.state.replicas = 2;
    })
}

/// How many of so many calls at once are served; the others are refused for the right reason.
async fn served_of(stack: &Stack, caller: &Caller, count: usize) -> usize {
    let gate = Gate::new();
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(1, 100)).gate(&gate));
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let caller = caller.clone();
        calls.spawn(async move {
            let mut body = chat("m");
            body["max_tokens"] = json!(100);
            caller.ask(&body).await
        });
    }
    let before = gate.arrived();
    let mut refused = 0;
    loop {
        tokio::select! {
            // All of them may be refused: slots of the calls before come back a moment after their answers.
            Some(answer) = calls.join_next() => {
                let answer = answer.unwrap().expect(429);
                assert_eq!(answer.code(), "concurrency_full");
                refused += 1;
            }
            () = gate.reached(before + count - refused) => break,
        }
    }
    gate.open();
    let answers = calls.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    answers.len()
}

async fn degraded(stack: &Stack, so: bool) {
    let state = stack.state().unwrap();
    eventually("the state store's loss or return is seen", async || {
        state.status().degraded == so
    })
    .await;
}

async fn a_paused_store_delays_nobody_for_long_and_its_limits_become_shares(builder: Builder) {
    let stack = quick(builder).setup(setup()).start().await;
    let caller = stack.caller("k");
    assert_eq!(served_of(&stack, &caller, 10).await, 4);
    let redis = &stack.stores.as_ref().unwrap().redis;
    redis.pause().await.unwrap();
    degraded_everywhere(&stack, &caller).await;
    eventually("half of four are granted: local_share", async || {
        let served = served_of(&stack, &caller, 10).await;
        assert!(served <= 2, "{served}");
        served == 2
    })
    .await;
    redis.resume().await.unwrap();
    degraded(&stack, false).await;
    stack.upstream.default(Script::tokens(1));
    eventually("all four slots are granted again", async || {
        served_of(&stack, &caller, 10).await == 4
    })
    .await;
    stack.finish().await;
}

/// Calls until the calls themselves show that the store is away.
async fn degraded_everywhere(stack: &Stack, caller: &Caller) {
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(1, 1)));
    for _ in 0..10 {
        let answer = caller.chat("m").await;
        // A slot whose release waits for the store that does not answer is free a moment later.
        if answer.status != 200 {
            assert_eq!(answer.expect(429).code(), "concurrency_full");
        }
    }
    degraded(stack, true).await;
}

async fn a_killed_store_comes_back_empty_and_everything_is_put_back(builder: Builder) {
    let stack = quick(builder).setup(setup()).start().await;
    let caller = stack.caller("k");
    let gate = Gate::new();
    stack.upstream.default(
        Script::tokens(3)
            .usage(Usage::of(1, 3))
            .gate_after(1, &gate),
    );
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = caller.open(&streamed("m")).await;
        stream.deltas(1).await;
        streams.push(stream);
    }
    let redis = &stack.stores.as_ref().unwrap().redis;
    redis.kill().await.unwrap();
    degraded(&stack, true).await;
    redis.restart().await.unwrap();
    degraded(&stack, false).await;
    // Renewals and touches put leases and holds back, without anybody asking.
    let state = stack.state().unwrap();
    eventually("the leases are back", async || {
        state
            .gauges()
            .await
            .is_ok_and(|gauges| gauges.held_leases >= 3 && gauges.open_holds >= 3)
    })
    .await;
    gate.open();
    for stream in streams {
        assert!(
            stream.rest().await.done(),
            "no stream is cut for a lost lease"
        );
    }
    stack.rows(3).await;
    let tenant = stack.tenant("acme").await;
    assert_eq!(
        (tenant.balance_nanos, tenant.held_nanos),
        (1_000_000_000 - 9_000, 0)
    );
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(1, 1)));
    caller.chat("m").await.expect(200);
    stack.finish().await;
}

async fn an_emptied_store_under_load_counts_right_afterwards(builder: Builder) {
    let setup = setup()
        .account("a", "")
        .key("k", "budgets: [{window: day, amount: 0.50}]");
    let stack = quick(builder).forwarders(2).setup(setup).start().await;
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(1, 1_000)));
    let caller = stack.caller("k");
    let redis = &stack.stores.as_ref().unwrap().redis;
    let mut served = 0;
    for round in 0..4 {
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let caller = caller.clone();
            calls.spawn(async move {
                let mut body = chat("m");
                body["max_tokens"] = json!(1_000);
                caller.ask(&body).await.status
            });
        }
        redis.flush_all().await.unwrap();
        let statuses = calls.join_all().await;
        served += statuses.iter().filter(|status| **status == 200).count();
        assert!(
            statuses.iter().all(|status| *status == 200),
            "round {round}: {statuses:?}"
        );
    }
    stack.rows(served).await;
    let spent = i64::try_from(served).unwrap() * 1_000_000;
    let tenant = stack.tenant("acme").await;
    assert_eq!(tenant.balance_nanos, 1_000_000_000 - spent);
    let budget = &tenant.budgets[0];
    assert_eq!(
        budget.used_nanos, spent,
        "loaded again as it is, never added up"
    );
    // What the store says is what SQL says: the day's budget ends where it should.
    degraded(&stack, false).await;
    let left = 500 - served;
    let mut more = 0;
    eventually("the budget is used up", async || {
        let mut body = chat("m");
        body["max_tokens"] = json!(1_000);
        let answer = caller.ask(&body).await;
        more += usize::from(answer.status == 200);
        answer.status == 429
    })
    .await;
    assert!(more <= left, "{more} served where {left} were left");
    assert!(stack.upstream.log().max_in_flight_of(&upstream_key("a")) > 0);
    eventually("all rows are there", async || {
        stack
            .metric(
                Role::Forwarder,
                "switchboard_journal_unacknowledged_settlements",
            )
            .await
            == 0
    })
    .await;
    stack.finish().await;
}

async fn a_closed_policy_refuses_instead(builder: Builder) {
    let builder = quick(builder).settings(|settings| {
        settings.state.on_failure.slots = Policy::Closed;
        settings.state.on_failure.rates = Policy::Closed;
        settings.state.on_failure.holds = Policy::Closed;
    });
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    caller.chat("m").await.expect(200);
    let redis = &stack.stores.as_ref().unwrap().redis;
    redis.pause().await.unwrap();
    for _ in 0..10 {
        let answer = caller.chat("m").await.expect(503);
        assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    }
    redis.resume().await.unwrap();
    eventually("it serves again", async || {
        caller.chat("m").await.status == 200
    })
    .await;
    stack.finish().await;
}
