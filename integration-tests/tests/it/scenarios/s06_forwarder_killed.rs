//! A forwarder that dies in mid-stream: its callers get an error event, its slots come back with their leases, and what it
//! served is billed once, provisionally first and finally when it is back.

use std::time::Duration;

use fake_upstream::Script;
use serde_json::json;
use switchboard_common::grpc::Role;
use switchboard_integration_tests::caller::streamed;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::{Builder, Stack, eventually};

scenarios! { [processes] {
    a_killed_forwarder_costs_nobody_money_and_leaves_no_unbilled_work,
    a_killed_forwarder_that_is_back_bills_a_young_request_by_tokens,
    a_request_of_which_nothing_was_sent_goes_to_another_forwarder,
} }

fn setup() -> Setup {
    Setup::simple().account("a", "concurrency: 1").model(
        "m",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], queue: {depth: 10, wait: 5m}",
    )
}

/// More bytes a token than the estimate takes: five words, and the end of the text.
const PROMPT: &str = "international international international international international";
const COUNTED: u64 = 6;

async fn serving(stack: &Stack) -> usize {
    let mut found = None;
    eventually("a forwarder serves it", async || {
        let each = stack
            .metric_each(Role::Forwarder, "switchboard_forwarder_in_flight_requests")
            .await;
        found = each.iter().position(|count| *count > 0);
        found.is_some()
    })
    .await;
    found.unwrap()
}

async fn a_killed_forwarder_costs_nobody_money_and_leaves_no_unbilled_work(builder: Builder) {
    let builder = builder.settings(|settings| {
        settings.forwarder.count_after = Duration::from_millis(200);
        settings.billing.silence = Duration::from_secs(2);
        settings.billing.reaper_grace = Duration::from_millis(100);
        settings.billing.reaper_interval = Duration::from_millis(200);
    });
    let mut stack = builder.forwarders(2).setup(setup()).start().await;
    let words = ["one ", "two ", "three ", "four"];
    stack.upstream.push(Script::say(words).hang_after(3));
    let caller = stack.caller("k");
    let mut asked = streamed("m");
    asked["messages"] = json!([{"role": "user", "content": PROMPT}]);
    let mut stream = caller.open(&asked).await;
    assert_eq!(stream.deltas(3).await, "one two three ");
    let id = stream.request_id();
    // Its input is counted and its progress written down, here and at billing, before it dies.
    eventually("its input is counted", async || {
        let name = "switchboard_forwarder_prompts_counted_total";
        stack.metric(Role::Forwarder, name).await > 0
    })
    .await;
    stack.progress_written(1).await;
    let killed = serving(&stack).await;
    stack.program(Role::Forwarder, killed).kill().await;

    let answer = stream.rest().await;
    assert_eq!(answer.text(), "one two three ");
    assert!(!answer.done(), "{:?}", answer.events);
    assert!(
        ["upstream_failed", "unavailable"].contains(&answer.error_code().as_str()),
        "{:?}",
        answer.events
    );

    // The account's only slot comes back with the lease: the other forwarder serves.
    caller.chat("m").await.expect(200);

    // Nobody says a word for it any more: provisionally.
    let row = stack.row_when(&id, |row| row.provisional).await;
    assert_eq!(
        (row.ending.as_str(), row.usage_source.as_str()),
        ("gateway_lost", "estimated")
    );
    assert!(row.charge_nanos > 0);
    assert_eq!(row.input_tokens, Some(COUNTED), "not bytes ÷ 4");
    // The other request is booked too.
    stack.rows(2).await;
    let balance = stack.tenant("acme").await.balance_nanos;

    // It is back and settles what its journal left open: finally, as a difference.
    stack.program(Role::Forwarder, killed).restart().await;
    let last = stack.row_when(&id, |row| !row.provisional).await;
    assert_eq!(last.ending, "gateway_lost");
    assert_eq!(last.input_tokens, Some(COUNTED));
    assert!(last.output_tokens.unwrap() > 0);
    let difference = last.charge_nanos - row.charge_nanos;
    assert_eq!(
        stack.tenant("acme").await.balance_nanos,
        balance - difference
    );
    stack.rows(2).await;
    stack.finish().await;
}

async fn a_killed_forwarder_that_is_back_bills_a_young_request_by_tokens(builder: Builder) {
    // As if it were killed within its first second, however slow this machine is.
    let builder = builder.settings(|settings| {
        settings.forwarder.count_after = Duration::from_secs(3_600);
    });
    let mut stack = builder.forwarders(2).start().await;
    stack.upstream.push(Script::tokens(9).hang_after(1));
    let mut asked = streamed("m");
    asked["messages"] = json!([{"role": "user", "content": PROMPT}]);
    let mut stream = stack.caller("k").open(&asked).await;
    stream.deltas(1).await;
    let id = stream.request_id();
    let killed = serving(&stack).await;
    stack.program(Role::Forwarder, killed).kill().await;
    assert!(!stream.rest().await.done());
    stack.program(Role::Forwarder, killed).restart().await;
    let row = stack.row_when(&id, |row| !row.provisional).await;
    assert_eq!(
        (row.ending.as_str(), row.usage_source.as_str()),
        ("gateway_lost", "estimated")
    );
    assert_eq!(row.input_tokens, Some(COUNTED), "not bytes ÷ 4");
    stack.rows(1).await;
    stack.finish().await;
}

async fn a_request_of_which_nothing_was_sent_goes_to_another_forwarder(builder: Builder) {
    let mut stack = builder.forwarders(2).start().await;
    stack.program(Role::Forwarder, 0).kill().await;
    let caller = stack.caller("k");
    for _ in 0..6 {
        caller.chat("m").await.expect(200);
        assert!(caller.stream("m").await.done());
    }
    stack.program(Role::Forwarder, 0).restart().await;
    eventually("it serves again", async || {
        caller.chat("m").await.expect(200);
        stack
            .metric_each(Role::Forwarder, "switchboard_forwarder_requests_total")
            .await[0]
            > 0
    })
    .await;
    stack.finish().await;
}
