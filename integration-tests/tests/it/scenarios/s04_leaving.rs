//! A caller that leaves: the upstream is cancelled, the slot is free, nobody tries again, and the row says who pays.

use fake_upstream::{Gate, Outcome, Script, Usage, UsageShape};
use serde_json::json;
use switchboard_common::grpc::Role;
use switchboard_integration_tests::caller::{Caller, chat, streamed};
use switchboard_integration_tests::setup::{Setup, secret_of};
use switchboard_integration_tests::stack::{Builder, Stack, eventually};
use switchboard_integration_tests::wire::Raw;
use switchboard_proto::billing::v1::UsageRow;

scenarios! { [in_process, split] {
    before_the_first_token_the_input_is_charged,
    before_the_first_token_of_a_whole_answer_too,
    abandoned_free_charges_nothing_before_the_first_token,
    in_mid_stream_what_was_relayed_is_charged,
    in_mid_stream_the_usage_seen_so_far_is_charged,
    in_the_queue_nothing_is_charged_and_the_place_is_free,
    before_its_body_was_complete_nothing_is_left,
    a_slot_comes_back_whatever_ended_the_call,
} }

const MODEL: &str = "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}, {account: b, model: up-m, tier: 1}], queue: {depth: 10, wait: 5m}";

/// Two accounts, so that a forbidden retry had somewhere to go; one slot for the caller's key.
fn setup() -> Setup {
    Setup::simple()
        .account("a", "")
        .account("b", "")
        .model("m", MODEL)
        .key("k", "limits: {concurrency: 1}")
}

/// The upstream saw the caller leave, and nothing else was tried.
async fn cancelled(stack: &Stack, requests: u64) {
    let left = stack.upstream.wait_for(|log| {
        let last = log.requests.last();
        log.in_flight == 0
            && log.total == requests
            && last.is_some_and(|last| last.outcome == Some(Outcome::CallerLeft))
    });
    left.await.unwrap();
}

/// A normal call is served: the slot is back.
async fn serves_again(stack: &Stack) {
    stack.upstream.default(Script::tokens(1));
    stack.caller("k").chat("m").await.expect(200);
}

fn assert_left(row: &UsageRow) {
    assert_eq!((row.status, row.ending.as_str()), (499, "caller_left"));
    assert_eq!(row.error_code, "caller_left");
    assert!(!row.provisional);
}

/// A stream is asked for and its caller leaves when the upstream has it; the request's row.
async fn leave_before_the_first_token(stack: &Stack, stream: bool) -> UsageRow {
    let gate = Gate::new();
    stack
        .upstream
        .default(Script::tokens(3).gate_after(0, &gate));
    let mut raw = Raw::connect(stack.edges()[0]).await.unwrap();
    let body = if stream { streamed("m") } else { chat("m") };
    raw.post("/v1/chat/completions", &secret_of("k"), &body.to_string())
        .await
        .unwrap();
    gate.reached(1).await;
    drop(raw);
    cancelled(stack, 1).await;
    stack.rows(1).await.remove(0)
}

async fn before_the_first_token_the_input_is_charged(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let row = leave_before_the_first_token(&stack, true).await;
    assert_left(&row);
    assert_eq!(row.usage_source, "estimated");
    let input = row.input_tokens.unwrap();
    // "Say something short." and what a chat adds around it.
    assert!((4..=20).contains(&input), "{input}");
    assert_eq!(row.output_tokens, Some(0));
    assert_eq!(row.charge_nanos, i64::try_from(input).unwrap() * 1_000);
    assert_eq!(row.cost_nanos, row.charge_nanos);
    serves_again(&stack).await;
    stack.finish().await;
}

async fn before_the_first_token_of_a_whole_answer_too(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let row = leave_before_the_first_token(&stack, false).await;
    assert_left(&row);
    assert_eq!(
        (row.usage_source.as_str(), row.output_tokens),
        ("estimated", Some(0))
    );
    assert!(row.charge_nanos > 0);
    serves_again(&stack).await;
    stack.finish().await;
}

async fn abandoned_free_charges_nothing_before_the_first_token(builder: Builder) {
    let setup = setup().tenant("acme", "balance: 1.00; abandoned: free");
    let stack = builder.setup(setup).start().await;
    let row = leave_before_the_first_token(&stack, true).await;
    assert_left(&row);
    assert_eq!(row.charge_nanos, 0);
    // We pay all the same.
    assert!(row.cost_nanos > 0);
    assert_eq!(stack.tenant("acme").await.balance_nanos, 1_000_000_000);
    serves_again(&stack).await;
    stack.finish().await;
}

async fn in_mid_stream_what_was_relayed_is_charged(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let words = ["one ", "two ", "three ", "four ", "five "];
    stack.upstream.default(Script::say(words).hang_after(3));
    let mut stream = stack.caller("k").open(&streamed("m")).await;
    assert_eq!(stream.deltas(3).await, "one two three ");
    let id = stream.request_id();
    drop(stream);
    cancelled(&stack, 1).await;
    let row = stack.row(&id).await;
    assert_left(&row);
    assert_eq!(row.usage_source, "estimated");
    // Three short words; the two that were never said are not in it.
    let output = row.output_tokens.unwrap();
    assert!((3..=6).contains(&output), "{output}");
    let input = row.input_tokens.unwrap();
    assert!(input > 0);
    assert_eq!(
        row.charge_nanos,
        i64::try_from(input * 1_000 + output * 2_000).unwrap()
    );
    serves_again(&stack).await;
    stack.finish().await;
}

async fn in_mid_stream_the_usage_seen_so_far_is_charged(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let script = Script::tokens(5)
        .usage_shape(UsageShape::EveryChunk)
        .usage(Usage::of(100_000, 900))
        .hang_after(2);
    stack.upstream.default(script);
    let mut stream = stack.caller("k").open(&streamed("m")).await;
    stream.deltas(2).await;
    let id = stream.request_id();
    drop(stream);
    cancelled(&stack, 1).await;
    let row = stack.row(&id).await;
    assert_left(&row);
    assert_eq!(row.usage_source, "provider");
    assert_eq!(row.input_tokens, Some(100_000));
    let output = row.output_tokens.unwrap();
    assert_eq!(
        row.charge_nanos,
        i64::try_from(100_000 * 1_000 + output * 2_000).unwrap()
    );
    serves_again(&stack).await;
    stack.finish().await;
}

async fn in_the_queue_nothing_is_charged_and_the_place_is_free(builder: Builder) {
    let setup = Setup::simple().account("a", "concurrency: 1").model(
        "m",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], queue: {depth: 1, wait: 5m}",
    );
    let stack = builder.setup(setup).start().await;
    let gate = Gate::new();
    stack.upstream.default(Script::tokens(1).gate(&gate));
    let caller = stack.caller("k");
    let mut first = Raw::connect(stack.edges()[0]).await.unwrap();
    first
        .post(
            "/v1/chat/completions",
            &secret_of("k"),
            &chat("m").to_string(),
        )
        .await
        .unwrap();
    gate.reached(1).await;
    let mut waiting = Raw::connect(stack.edges()[0]).await.unwrap();
    waiting
        .post(
            "/v1/chat/completions",
            &secret_of("k"),
            &streamed("m").to_string(),
        )
        .await
        .unwrap();
    let waiters = async || {
        stack
            .metric(Role::Scheduler, "switchboard_queue_waiters")
            .await
    };
    eventually("it waits", async || waiters().await == 1).await;
    caller.chat("m").await.expect(429);
    drop(waiting);
    eventually("it has left the queue", async || waiters().await == 0).await;
    let row = stack.rows(1).await.remove(0);
    assert_left(&row);
    assert_eq!((row.charge_nanos, row.cost_nanos), (0, 0));
    assert_eq!(row.attempts, []);
    gate.open();
    first.read_until("tok0").await.unwrap();
    drop(first);
    caller.chat("m").await.expect(200);
    assert_eq!(stack.upstream.log().total, 2);
    stack.finish().await;
}

async fn before_its_body_was_complete_nothing_is_left(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let mut raw = Raw::connect(stack.edges()[0]).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {}\r\ncontent-length: 1000\r\n\r\n{{\"model\":",
        secret_of("k")
    );
    raw.send(head.as_bytes()).await.unwrap();
    drop(raw);
    serves_again(&stack).await;
    stack.rows(1).await;
    assert_eq!(stack.upstream.log().total, 1);
    stack.finish().await;
}

/// The key has one slot: each of these calls must give it back.
async fn a_slot_comes_back_whatever_ended_the_call(builder: Builder) {
    let setup = setup().model(
        "m",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], queue: {depth: 10, wait: 1m}, timeouts: {first_byte: 3s}",
    );
    let setup = setup.account("a", "cooldown: {max: 0s}");
    // A lease that was lost instead of given back would be held far longer than anybody waits here.
    let builder = builder.settings(|settings| {
        settings.state.lease_ttl = std::time::Duration::from_secs(300);
    });
    let stack = builder.setup(setup).start().await;
    let caller: Caller = stack.caller("k");
    stack.upstream.push(Script::hang());
    caller.chat("m").await.expect(504);
    caller.chat("m").await.expect(200);
    stack.upstream.push(Script::tokens(5).hang_after(2));
    let mut stream = caller.open(&streamed("m")).await;
    stream.deltas(2).await;
    drop(stream);
    caller.chat("m").await.expect(200);
    caller
        .send("/v1/chat/completions", "{\"model\":\"m\",")
        .await
        .expect(400);
    caller.chat("m").await.expect(200);
    let mut unknown = chat("m");
    unknown["temperature"] = json!(99);
    stack.upstream.push(Script::error(
        400,
        "invalid_request_error",
        None,
        "temperature is too high",
    ));
    caller.ask(&unknown).await.expect(400);
    caller.chat("m").await.expect(200);
    stack.finish().await;
}
