//! An account's slots hold over all forwarders: never more at the upstream than the limit, and everybody is served.

use fake_upstream::{Gate, Script};
use switchboard_integration_tests::caller::streamed;
use switchboard_integration_tests::setup::{Setup, upstream_key};
use switchboard_integration_tests::stack::Builder;
use tokio::task::JoinSet;

scenarios! { [in_process, split] {
    two_hundred_callers_share_seven_slots_over_two_forwarders,
    waiters_are_served_in_the_order_of_their_arrival,
    a_full_queue_and_a_model_without_one_refuse_at_once,
    a_keys_own_slots_hold_over_two_forwarders,
} }

fn setup(account: &str, model: &str) -> Setup {
    let model = format!(
        "price: {{input: 1.00, output: 2.00}}, targets: [{{account: a, model: up-m}}], {model}"
    );
    Setup::simple().account("a", account).model("m", &model)
}

async fn two_hundred_callers_share_seven_slots_over_two_forwarders(builder: Builder) {
    let setup = setup("concurrency: 7", "queue: {depth: 2000, wait: 5m}");
    let stack = builder.forwarders(2).setup(setup).start().await;
    let gate = Gate::new();
    stack.upstream.default(Script::tokens(3).gate(&gate));
    let caller = stack.caller("k");
    let mut calls = JoinSet::new();
    for number in 0..200 {
        let caller = caller.clone();
        calls.spawn(async move {
            if number % 2 == 0 {
                caller.chat("m").await.status
            } else {
                let answer = caller.stream("m").await;
                assert!(answer.done() && answer.clean);
                answer.status
            }
        });
    }
    // All slots are taken before the first is given back.
    gate.reached(7).await;
    gate.open();
    let statuses = calls.join_all().await;
    assert_eq!(statuses, vec![200; 200]);
    let log = stack.upstream.log();
    assert_eq!(log.total, 200);
    assert_eq!(log.max_in_flight_of(&upstream_key("a")), 7);
    stack.rows(200).await;
    stack.finish().await;
}

async fn waiters_are_served_in_the_order_of_their_arrival(builder: Builder) {
    let stack = builder
        .setup(setup("concurrency: 1", "queue: {depth: 100, wait: 5m}"))
        .start()
        .await;
    let gate = Gate::new();
    stack.upstream.default(Script::tokens(1).gate(&gate));
    let caller = stack.caller("k");
    let mut calls = JoinSet::new();
    for number in 0..6_u64 {
        let caller = caller.clone();
        let mut body = switchboard_integration_tests::caller::chat("m");
        body["messages"][0]["content"] = format!("[[mark:n{number}]]").into();
        calls.spawn(async move { caller.ask(&body).await.status });
        // The next one comes when this one runs or waits.
        if number == 0 {
            gate.reached(1).await;
        } else {
            switchboard_integration_tests::stack::eventually("it waits", async || {
                let role = switchboard_common::grpc::Role::Scheduler;
                stack.metric(role, "switchboard_queue_waiters").await == number
            })
            .await;
        }
    }
    gate.open();
    assert_eq!(calls.join_all().await, vec![200; 6]);
    let log = stack.upstream.log();
    let marks: Vec<_> = log
        .requests
        .iter()
        .map(|request| request.mark.clone().unwrap())
        .collect();
    assert_eq!(marks, ["n0", "n1", "n2", "n3", "n4", "n5"]);
    assert_eq!(log.max_in_flight, 1);
    stack.finish().await;
}

async fn a_full_queue_and_a_model_without_one_refuse_at_once(builder: Builder) {
    let setup = setup("concurrency: 1", "queue: {depth: 1, wait: 5m}").model(
        "none",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], queue: none",
    );
    let stack = builder.setup(setup).start().await;
    let gate = Gate::new();
    stack.upstream.default(Script::tokens(1).gate(&gate));
    let caller = stack.caller("k");
    let first = tokio_util::task::AbortOnDropHandle::new(spawn(caller.clone()));
    gate.reached(1).await;
    let refused = caller.chat("none").await.expect(429);
    assert_eq!(refused.code(), "concurrency_full");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    let second = tokio_util::task::AbortOnDropHandle::new(spawn(caller.clone()));
    switchboard_integration_tests::stack::eventually("it waits", async || {
        let role = switchboard_common::grpc::Role::Scheduler;
        stack.metric(role, "switchboard_queue_waiters").await == 1
    })
    .await;
    let refused = caller.chat("m").await.expect(429);
    assert_eq!(refused.code(), "queue_full");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    gate.open();
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (200, 200));
    stack.finish().await;
}

#[expect(clippy::disallowed_methods, reason = "a test's own caller")]
fn spawn(caller: switchboard_integration_tests::caller::Caller) -> tokio::task::JoinHandle<u16> {
    tokio::spawn(async move { caller.chat("m").await.status })
}

async fn a_keys_own_slots_hold_over_two_forwarders(builder: Builder) {
    let setup = setup("", "queue: none").key("two", "limits: {concurrency: 2}");
    let stack = builder.forwarders(2).setup(setup).start().await;
    let gate = Gate::new();
    stack
        .upstream
        .default(Script::tokens(1).gate_after(0, &gate));
    let caller = stack.caller("two");
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let caller = caller.clone();
        calls.spawn(async move {
            let answer = caller.open(&streamed("m")).await;
            let status = answer.status;
            let answer = answer.rest().await;
            if status == 429 {
                assert_eq!(answer.as_answer().code(), "concurrency_full");
            }
            status
        });
    }
    let mut refused = 0;
    while refused < 8 {
        assert_eq!(calls.join_next().await.unwrap().unwrap(), 429);
        refused += 1;
    }
    gate.reached(2).await;
    gate.open();
    assert_eq!(calls.join_all().await, [200, 200]);
    assert_eq!(stack.upstream.log().max_in_flight, 2);
    // Other keys have slots of their own.
    stack.caller("k").chat("m").await.expect(200);
    stack.finish().await;
}
