//! Money is held before it is spent: a balance for ten calls serves ten, whatever arrives at once and wherever.

use std::collections::BTreeMap;

use fake_upstream::{Gate, Script, Usage};
use serde_json::json;
use switchboard_integration_tests::caller::chat;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::Builder;
use tokio::task::JoinSet;

scenarios! { [in_process, split] {
    a_balance_for_ten_calls_serves_ten_of_fifty_at_once,
    a_budget_refuses_with_the_time_of_its_reset,
    what_runs_over_an_estimate_is_charged_in_full,
    a_strict_hold_caps_the_output_to_what_is_left,
} }

/// Input is free, a token out costs 1,000 nanos: 1,000 tokens are 0.001 USD.
const MODEL: &str = "price: {input: 0, output: 1.00}, targets: [{account: a, model: up-m}]";

async fn a_balance_for_ten_calls_serves_ten_of_fifty_at_once(builder: Builder) {
    let setup = Setup::simple()
        .model("m", MODEL)
        .tenant("acme", "balance: 0.01");
    let stack = builder.forwarders(2).setup(setup).start().await;
    let gate = Gate::new();
    let usage = Usage::of(10, 1_000);
    stack
        .upstream
        .default(Script::tokens(1).usage(usage).gate(&gate));
    let caller = stack.caller("k");
    let mut calls = JoinSet::new();
    for number in 0..50 {
        let caller = caller.clone();
        calls.spawn(async move {
            let mut body = chat("m");
            body["max_tokens"] = json!(1_000);
            if number % 2 == 0 {
                return caller.ask(&body).await;
            }
            body["stream"] = json!(true);
            caller.open(&body).await.rest().await.as_answer()
        });
    }
    let mut refused = 0;
    while refused < 40 {
        let answer = calls.join_next().await.unwrap().unwrap();
        let answer = answer.expect(402);
        assert_eq!(answer.code(), "insufficient_quota");
        assert_eq!(answer.header("x-should-retry"), "false");
        refused += 1;
    }
    gate.reached(10).await;
    assert_eq!(stack.tenant("acme").await.held_nanos, 10_000_000);
    gate.open();
    let served = calls.join_all().await;
    assert_eq!(
        served
            .iter()
            .map(|answer| answer.status)
            .collect::<Vec<_>>(),
        vec![200; 10]
    );
    let rows = stack.rows(10).await;
    assert!(
        rows.iter().all(|row| row.charge_nanos == 1_000_000),
        "{rows:?}"
    );
    assert_eq!(stack.upstream.log().total, 10);
    let tenant = stack.tenant("acme").await;
    assert_eq!(
        (
            tenant.balance_nanos,
            tenant.held_nanos,
            tenant.overrun_nanos
        ),
        (0, 0, 0)
    );
    // And it stays so.
    caller.chat("m").await.expect(402);
    stack.finish().await;
}

async fn a_budget_refuses_with_the_time_of_its_reset(builder: Builder) {
    let setup = Setup::simple()
        .model("m", MODEL)
        .tenant("acme", "hold: estimate")
        .key("k", "budgets: [{window: day, amount: 0.003}]");
    let stack = builder.forwarders(2).setup(setup).start().await;
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(10, 1_000)));
    let caller = stack.caller("k");
    let mut seen = BTreeMap::new();
    for call in 1..=3 {
        caller.chat("m").await.expect(200);
        stack.rows(call).await;
    }
    for _ in 0..4 {
        let answer = caller.chat("m").await.expect(429);
        assert_eq!(answer.code(), "quota_exceeded");
        assert_eq!(answer.header("x-should-retry"), "false");
        let seconds: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=86_400).contains(&seconds), "{seconds}");
        *seen.entry(answer.status).or_insert(0) += 1;
    }
    assert_eq!(seen, BTreeMap::from([(429, 4)]));
    assert_eq!(stack.upstream.log().total, 3);
    stack.finish().await;
}

async fn what_runs_over_an_estimate_is_charged_in_full(builder: Builder) {
    let setup = Setup::simple()
        .model("m", MODEL)
        .tenant("acme", "balance: 0.001; hold: estimate");
    let stack = builder.setup(setup).start().await;
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(10, 1_600)));
    let caller = stack.caller("k");
    let mut body = chat("m");
    body["max_tokens"] = json!(600);
    let id = caller.ask(&body).await.expect(200).request_id();
    assert_eq!(stack.row(&id).await.charge_nanos, 1_600_000);
    let tenant = stack.tenant("acme").await;
    assert_eq!(
        (tenant.balance_nanos, tenant.overrun_nanos),
        (-600_000, 600_000)
    );
    caller.ask(&body).await.expect(402);
    stack.finish().await;
}

async fn a_strict_hold_caps_the_output_to_what_is_left(builder: Builder) {
    let setup = Setup::simple()
        .model("m", MODEL)
        .tenant("acme", "balance: 0.0005");
    let stack = builder.setup(setup).start().await;
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(10, 500)));
    let mut body = chat("m");
    body["max_tokens"] = json!(2_000);
    let caller = stack.caller("k");
    let answer = caller.ask(&body).await.expect(200);
    assert_eq!(answer.header("x-switchboard-output-capped"), "500");
    let log = stack.upstream.log();
    let asked = log.requests.last().unwrap().json();
    assert_eq!(asked["max_tokens"], json!(500), "{asked}");
    stack.row(&answer.request_id()).await;
    assert_eq!(stack.tenant("acme").await.balance_nanos, 0);
    // Less than 256 tokens' worth is nothing.
    caller.ask(&body).await.expect(402);
    stack.finish().await;
}
