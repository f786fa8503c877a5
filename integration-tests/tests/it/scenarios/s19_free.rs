//! A retrieval, a list, a cancel, a count is never billed, however often it is asked for (SURF-1, CASES A22).

use fake_upstream::Script;
use http::Method;
use serde_json::{Value, json};
use switchboard_integration_tests::caller::Caller;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::{Builder, Stack};

scenarios! { [in_process, split] {
    what_is_no_answer_is_never_billed_however_often_it_is_asked_for,
} }

fn setup() -> Setup {
    let account = "dialects: [openai.responses, anthropic.messages]";
    let price = "price: {input: 1.00, output: 2.00, per_request: 0.50}";
    Setup::simple()
        .account("a", account)
        .account("g", "provider: gemini, dialects: [gemini.generate]")
        .model(
            "m",
            &format!("{price}, targets: [{{account: a, model: up-m}}]"),
        )
        .model(
            "n",
            &format!("{price}, targets: [{{account: g, model: up-n}}]"),
        )
}

fn response(status: &str) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "error": null,
        "model": "up-m", "output": [], "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 13}})
}

async fn what_is_no_answer_is_never_billed_however_often_it_is_asked_for(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    stack
        .upstream
        .push(Script::json(200, &response("completed")));
    let asked = json!({"model": "m", "input": "hi"}).to_string();
    let made = caller.send("/v1/responses", asked).await.expect(200);
    let row = stack.row(&made.request_id()).await;
    // 10 × 1.00 and 3 × 2.00 per million, and the request's own 0.50.
    assert_eq!(row.charge_nanos, 500_000_000 + 10_000 + 6_000);
    let before = stack.tenant("acme").await.balance_nanos;

    for _ in 0..2 {
        ask_all(&stack, &caller).await;
    }
    // Rows are in order of time: with this one's, one of theirs would be there.
    stack
        .upstream
        .push(Script::json(200, &response("completed")));
    let asked = json!({"model": "m", "input": "again"}).to_string();
    let last = caller.send("/v1/responses", asked).await.expect(200);
    stack.row(&last.request_id()).await;
    let charged: Vec<_> = stack
        .rows(2)
        .await
        .into_iter()
        .map(|row| row.request_id)
        .collect();
    assert_eq!(charged, [last.request_id(), made.request_id()]);
    let after = stack.tenant("acme").await;
    assert_eq!(before - after.balance_nanos, row.charge_nanos);
    assert_eq!(after.held_nanos, 0);
    stack.finish().await;
}

/// Every call that is free, in each dialect, once.
async fn ask_all(stack: &Stack, caller: &Caller) {
    let list = json!({"object": "list", "data": [], "has_more": false});
    for (method, path, answer) in [
        (Method::GET, "/v1/responses/resp_1", response("completed")),
        (Method::GET, "/v1/responses/resp_1/input_items", list),
        (
            Method::POST,
            "/v1/responses/resp_1/cancel",
            response("cancelled"),
        ),
    ] {
        stack.upstream.push(Script::json(200, &answer));
        caller.call(method, path).await.expect(200);
    }
    let turn = json!([{"role": "user", "content": "hi"}]);
    for (path, body, answer) in [
        (
            "/v1/responses/input_tokens",
            json!({"model": "m", "input": "hi"}),
            json!({"object": "response.input_tokens", "input_tokens": 1}),
        ),
        (
            "/v1/messages/count_tokens",
            json!({"model": "m", "messages": turn}),
            json!({"input_tokens": 1}),
        ),
        (
            "/v1beta/models/n:countTokens",
            json!({"contents": [{"parts": [{"text": "hi"}]}]}),
            json!({"totalTokens": 1}),
        ),
    ] {
        stack.upstream.push(Script::json(200, &answer));
        let told = caller.send(path, body.to_string()).await.expect(200);
        assert_eq!(told.json(), answer);
    }
    for path in [
        "/v1/models",
        "/v1/models/m",
        "/v1beta/models",
        "/v1beta/models/n",
    ] {
        caller.get(path).await.expect(200);
    }
}
