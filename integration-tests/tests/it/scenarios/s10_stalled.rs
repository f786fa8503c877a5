//! Readers that stall hold up their own streams and nobody else's, within their bounds of memory.

use fake_upstream::Script;
use serde_json::json;
use switchboard_common::grpc::Role;
use switchboard_integration_tests::caller::streamed;
use switchboard_integration_tests::setup::{Setup, secret_of, upstream_key};
use switchboard_integration_tests::stack::{Builder, eventually};
use switchboard_integration_tests::wire::Raw;

scenarios! { [in_process, split] {
    fifty_stalled_readers_slow_nobody_and_stay_within_their_bounds,
    a_reader_that_takes_no_byte_is_gone_after_its_time,
} }

const STALLED: usize = 50;

/// A stream of some 24 MB: far more than sockets and bounds hold.
fn flood() -> Script {
    let word = "x".repeat(16 * 1024);
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up-m",
        "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]});
    let mut bytes = String::new();
    for _ in 0..1_500 {
        bytes.push_str(&format!("data: {chunk}\n\n"));
    }
    bytes.push_str("data: [DONE]\n\n");
    Script::event_bytes(bytes)
}

fn setup() -> Setup {
    Setup::simple().account("b", "").model(
        "quick",
        "price: {input: 1.00, output: 2.00}, targets: [{account: b, model: up-quick}]",
    )
}

async fn fifty_stalled_readers_slow_nobody_and_stay_within_their_bounds(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    stack.upstream.on_key(&upstream_key("a"), flood());
    let edge = stack.edges()[0];
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        let mut raw = Raw::connect(edge).await.unwrap();
        raw.post(
            "/v1/chat/completions",
            &secret_of("k"),
            &streamed("m").to_string(),
        )
        .await
        .unwrap();
        raw.read_until("xxxx").await.unwrap();
        stalled.push(raw);
    }
    let buffered = async || {
        stack
            .metric(Role::Forwarder, "switchboard_forwarder_buffered_bytes")
            .await
    };
    // Something waits for each of them: they do stall.
    eventually("answers wait for their readers", async || {
        buffered().await > 0
    })
    .await;
    let caller = stack.caller("k");
    let mut most = 0;
    for _ in 0..20 {
        let answer = caller.stream("quick").await;
        assert!(answer.clean && answer.done(), "{:?}", answer.events);
        caller.chat("quick").await.expect(200);
        most = most.max(buffered().await);
    }
    // Pipe, text that would have to be counted, and what is being read, all together (FWD-2).
    let allowed = STALLED as u64 * 256 * 1024;
    assert!(
        most <= allowed,
        "{most} bytes are buffered; {allowed} would be much"
    );
    // The gauge follows, and what was quick may still be settling.
    eventually("only the stalled ones are left, all of them", async || {
        let running = stack
            .metric(Role::Forwarder, "switchboard_forwarder_in_flight_requests")
            .await;
        running == STALLED as u64
    })
    .await;
    // One reads on and gets everything that came for it, in order.
    let mut woken = stalled.pop().unwrap();
    let rest = woken.read_until("[DONE]").await.unwrap();
    assert!(rest.len() > 10_000_000, "{}", rest.len());
    drop(woken);
    drop(stalled);
    stack.rows(STALLED + 40).await;
    stack.finish().await;
}

async fn a_reader_that_takes_no_byte_is_gone_after_its_time(builder: Builder) {
    let setup = setup().model(
        "m",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], timeouts: {write: 300ms}",
    );
    let stack = builder.setup(setup).start().await;
    stack.upstream.on_key(&upstream_key("a"), flood());
    let mut raw = Raw::connect(stack.edges()[0]).await.unwrap();
    raw.post(
        "/v1/chat/completions",
        &secret_of("k"),
        &streamed("m").to_string(),
    )
    .await
    .unwrap();
    raw.read_until("xxxx").await.unwrap();
    let row = stack.rows(1).await.remove(0);
    assert_eq!((row.status, row.ending.as_str()), (499, "caller_left"));
    stack
        .upstream
        .wait_for(|log| log.in_flight == 0)
        .await
        .unwrap();
    drop(raw);
    stack.finish().await;
}
