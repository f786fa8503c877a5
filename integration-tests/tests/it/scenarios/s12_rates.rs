//! A caller with rate limits sees them on every answer, and every refusal says what was full and when to come again
//! (FLOW-5).

use std::time::Duration;

use fake_upstream::{Gate, Script, Usage};
use switchboard_integration_tests::caller::Answer;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::{Builder, Stack, eventually};
use tokio_util::task::AbortOnDropHandle;

scenarios! { [in_process, split] {
    full_slots_and_full_queues_show_the_callers_rates,
    refused_money_shows_the_callers_rates,
    used_up_rates_and_absent_accounts_show_them,
    whoever_asks_again_at_once_is_judged_by_the_money_that_was_used,
    whoever_asks_again_at_once_is_judged_by_the_tokens_that_were_used,
} }

const LIMITS: &str = "limits: {requests_per_minute: 600, burst: 100}";

fn setup(model: &str, key: &str) -> Setup {
    let model = format!(
        "price: {{input: 0, output: 1.00}}, targets: [{{account: a, model: up-m}}], {model}"
    );
    Setup::simple()
        .account("a", "concurrency: 1")
        .model("m", &model)
        .key("k", &format!("{LIMITS}{key}"))
}

fn assert_refused(answer: &Answer, code: &str, limit: &str) {
    assert_eq!(answer.code(), code, "{answer:?}");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_shown(answer, limit);
}

fn assert_shown(answer: &Answer, limit: &str) {
    assert_eq!(answer.header("x-ratelimit-limit-requests"), limit);
    let left = answer.header("x-ratelimit-remaining-requests");
    assert!(left.parse::<u64>().unwrap() < 600, "{left}");
    assert!(!answer.header("x-ratelimit-reset-requests").is_empty());
}

#[expect(clippy::disallowed_methods, reason = "a test's own caller")]
fn in_background(stack: &Stack) -> AbortOnDropHandle<Answer> {
    let caller = stack.caller("k");
    AbortOnDropHandle::new(tokio::spawn(async move { caller.chat("m").await }))
}

async fn full_slots_and_full_queues_show_the_callers_rates(builder: Builder) {
    let setup = setup("queue: {depth: 1, wait: 5m}", "").model(
        "none",
        "price: {input: 0, output: 1.00}, targets: [{account: a, model: up-m}], queue: none",
    );
    let stack = builder.setup(setup).start().await;
    let gate = Gate::new();
    stack.upstream.default(Script::tokens(1).gate(&gate));
    let caller = stack.caller("k");
    let first = in_background(&stack);
    gate.reached(1).await;
    assert_refused(
        &caller.chat("none").await.expect(429),
        "concurrency_full",
        "600",
    );
    let second = in_background(&stack);
    eventually("it waits", async || {
        let role = switchboard_common::grpc::Role::Scheduler;
        stack.metric(role, "switchboard_queue_waiters").await == 1
    })
    .await;
    assert_refused(&caller.chat("m").await.expect(429), "queue_full", "600");
    gate.open();
    for call in [first, second] {
        assert_shown(&call.await.unwrap().expect(200), "600");
    }
    stack.finish().await;
}

async fn refused_money_shows_the_callers_rates(builder: Builder) {
    let setup = setup("queue: none", ", budgets: [{window: day, amount: 0.001}]")
        .tenant("acme", "balance: 0.003; hold: estimate")
        // Less than 256 tokens' worth.
        .tenant("broke", "balance: 0.0001")
        .key("poor", LIMITS);
    let stack = builder.setup(setup).start().await;
    let usage = Usage::of(10, 1_000);
    stack.upstream.default(Script::tokens(1).usage(usage));
    let answer = stack.caller("k").chat("m").await.expect(200);
    assert_shown(&answer, "600");
    stack.rows(1).await;
    let answer = stack.caller("k").chat("m").await.expect(429);
    assert_refused(&answer, "quota_exceeded", "600");
    let answer = stack.caller("poor").chat("m").await.expect(402);
    assert_refused(&answer, "insufficient_quota", "600");
    stack.finish().await;
}

async fn used_up_rates_and_absent_accounts_show_them(builder: Builder) {
    let setup = setup("limits: {requests_per_minute: 6, burst: 1}", "")
        .account("off", "status: disabled")
        .model(
            "nobody",
            "price: {input: 0, output: 1.00}, targets: [{account: off, model: up-m}], queue: none",
        );
    let stack = builder.setup(setup).start().await;
    let caller = stack.caller("k");
    assert_shown(&caller.chat("m").await.expect(200), "6");
    let answer = caller.chat("m").await.expect(429);
    assert_refused(&answer, "rate_limit_exceeded", "6");
    let answer = caller.chat("nobody").await.expect(503);
    assert_refused(&answer, "no_account", "600");
    // Refused before anything was asked of the scheduler.
    assert_shown(&caller.chat("nothing").await.expect(404), "600");
    let broken = caller.ask(&serde_json::json!({"model": 7})).await;
    assert_shown(&broken.expect(400), "600");
    stack.finish().await;
}

/// CASES A25: 600 of 1,000 tokens are used by each, however little was expected; the third finds nothing.
async fn whoever_asks_again_at_once_is_judged_by_the_tokens_that_were_used(builder: Builder) {
    const CALLERS: usize = 12;
    // As long as it may be: machines are slow.
    let builder = builder.settings(|settings| {
        settings.forwarder.count_within = Duration::from_secs(1);
    });
    let mut setup = setup("", "");
    for caller in 0..CALLERS {
        setup = setup.key(&format!("k{caller}"), "limits: {tokens_per_minute: 1000}");
    }
    let stack = builder.setup(setup).start().await;
    let usage = Usage::of(100, 500);
    stack.upstream.default(Script::tokens(1).usage(usage));
    for number in 0..CALLERS {
        let caller = stack.caller(&format!("k{number}"));
        let asked = serde_json::json!({
            "model": "m",
            "stream": number % 2 == 1,
            "max_tokens": 5,
            "messages": [{"role": "user", "content": "hi"}],
        });
        let mut left = Vec::new();
        for status in [200, 200, 429] {
            let answer = caller.ask(&asked).await.expect(status);
            let shown = answer.header("x-ratelimit-remaining-tokens");
            left.push(shown.parse::<i64>().unwrap());
        }
        let [first, second, third] = left[..] else {
            panic!("{left:?}");
        };
        // Some come back meanwhile: a thousand a minute.
        assert!(second + 400 <= first, "{left:?}");
        assert_eq!(third, 0);
    }
    stack.finish().await;
}

/// BILL-3: each call holds 6 of the tenant's 10 dollar cents' tenths and uses 1 of them; what it does not use is there again for
/// whoever asks at once, who is neither refused nor cut short.
async fn whoever_asks_again_at_once_is_judged_by_the_money_that_was_used(builder: Builder) {
    const CALLERS: usize = 6;
    // However slow this machine is.
    let builder = builder.settings(|settings| {
        settings.billing.hold_patience = Duration::from_secs(60);
        settings.forwarder.peer_timeout = Duration::from_secs(60);
    });
    let mut setup = setup("max_output: 6000", "");
    for caller in 0..CALLERS {
        let (tenant, key) = (format!("t{caller}"), format!("k{caller}"));
        setup = setup.tenant(&tenant, "balance: 0.010").key(&key, "");
    }
    let stack = builder.setup(setup).start().await;
    stack
        .upstream
        .default(Script::tokens(1).usage(Usage::of(0, 1_000)));
    for number in 0..CALLERS {
        let caller = stack.caller(&format!("k{number}"));
        for call in 0..4 {
            let asked = serde_json::json!({
                "model": "m",
                "stream": number % 2 == 1,
                "max_tokens": 6_000,
                "messages": [{"role": "user", "content": "hi"}],
            });
            caller.ask(&asked).await.expect(200);
            let sent = stack.upstream.log().requests.pop().unwrap().json();
            assert_eq!(sent["max_tokens"], 6_000, "caller {number}, call {call}");
        }
    }
    stack.finish().await;
}
