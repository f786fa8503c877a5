//! The other endpoints through a whole system: money by the image and by the second, forms, large bodies (CASES B9).

use fake_upstream::Script;
use serde_json::json;
use switchboard_integration_tests::caller::chat;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::Builder;

scenarios! { [in_process, split] {
    images_are_billed_by_the_image_and_by_their_tokens,
    audio_is_billed_by_the_second,
    images_that_the_balance_does_not_pay_are_refused_before_they_are_made,
    the_largest_answer_passes_and_a_larger_one_is_told,
    a_large_image_passes_and_a_larger_body_is_told_its_limit,
} }

fn setup(balance: &str) -> Setup {
    Setup::simple()
        .account("a", "dialects: [openai.chat, openai.images, openai.audio]")
        .model(
            "image",
            "capabilities: [images], price: {input: 5.00, output: 40.00, per_image: 0.04}, max_output: 100, targets: [{account: a, model: up-image}]",
        )
        .model(
            "whisper",
            "capabilities: [audio], price: {per_second: 0.0001}, targets: [{account: a, model: up-whisper}]",
        )
        .tenant("acme", &format!("balance: {balance}"))
        .key("k", "")
}

async fn images_are_billed_by_the_image_and_by_their_tokens(builder: Builder) {
    let stack = builder.setup(setup("100.00")).start().await;
    let made = json!({"created": 1, "data": [{"b64_json": "eA=="}, {"url": "http://x"}],
        "usage": {"input_tokens": 5, "output_tokens": 10, "total_tokens": 15}});
    stack.upstream.default(Script::json(200, &made));
    let body = json!({"model": "image", "prompt": "a cat", "n": 2}).to_string();
    let answer = stack.caller("k").send("/v1/images/generations", body).await;
    assert_eq!(answer.json(), made);
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(
        (row.images, row.usage_source.as_str()),
        (Some(2), "provider")
    );
    // 2 × 0.04 USD, 5 × 5.00 and 10 × 40.00 per million.
    assert_eq!(row.charge_nanos, 80_000_000 + 25_000 + 400_000);
    assert_eq!(row.cost_nanos, row.charge_nanos);
    let sent = &stack.upstream.log().requests[0];
    assert_eq!(
        (sent.path.as_str(), sent.model.as_deref()),
        ("/v1/images/generations", Some("up-image"))
    );
    stack.finish().await;
}

/// A form with a model and `bytes` bytes of audio of no known rate.
fn form(bytes: usize) -> (&'static str, Vec<u8>) {
    let head = "--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"t.ogg\"\r\nContent-Type: audio/ogg\r\n\r\n";
    let tail =
        "\r\n--BB\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--BB--\r\n";
    let body = [head.as_bytes(), &vec![0; bytes], tail.as_bytes()].concat();
    ("multipart/form-data; boundary=BB", body)
}

async fn audio_is_billed_by_the_second(builder: Builder) {
    let stack = builder.setup(setup("100.00")).start().await;
    let caller = stack.caller("k");
    let transcribe = async |path: &str| {
        let (kind, body) = form(48_000);
        caller
            .send_as(path, kind, body)
            .await
            .expect(200)
            .request_id()
    };
    let told = json!({"text": "heard", "usage": {"type": "duration", "seconds": 2.5}});
    stack.upstream.default(Script::json(200, &told));
    let row = stack
        .row(&transcribe("/v1/audio/transcriptions").await)
        .await;
    assert_eq!(
        (row.audio_millis, row.usage_source.as_str()),
        (Some(2_500), "provider")
    );
    assert_eq!(row.charge_nanos, 250_000);
    let sent = stack.upstream.log().requests[0].clone();
    assert_eq!(sent.path, "/v1/audio/transcriptions");
    let body = String::from_utf8_lossy(&sent.body).into_owned();
    assert!(
        body.contains("\r\n\r\nup-whisper\r\n--BB--"),
        "the model's name is the upstream's"
    );

    // Who reports tokens where seconds are sold is charged by the request's own audio: 48,000 bytes at 128 kbit/s.
    let tokens = json!({"text": "heard", "usage": {"type": "tokens", "input_tokens": 30, "output_tokens": 1}});
    stack.upstream.default(Script::json(200, &tokens));
    let row = stack.row(&transcribe("/audio/translations/").await).await;
    assert_eq!(
        (row.audio_millis, row.usage_source.as_str()),
        (Some(3_000), "estimated")
    );
    assert_eq!(row.charge_nanos, 300_000);
    assert_eq!(
        stack.upstream.log().requests[1].path,
        "/v1/audio/translations"
    );
    stack.finish().await;
}

async fn images_that_the_balance_does_not_pay_are_refused_before_they_are_made(builder: Builder) {
    let stack = builder.setup(setup("0.10")).start().await;
    let made = json!({"created": 1, "data": [{"b64_json": "eA=="}]});
    stack.upstream.default(Script::json(200, &made));
    let caller = stack.caller("k");
    let body = |n: u32| json!({"model": "image", "prompt": "a cat", "n": n}).to_string();
    let refused = caller
        .send("/v1/images/generations", body(3))
        .await
        .expect(402);
    assert_eq!(refused.code(), "insufficient_quota");
    assert_eq!(stack.upstream.log().requests.len(), 0);
    caller
        .send("/v1/images/generations", body(1))
        .await
        .expect(200);
    stack.finish().await;
}

async fn a_large_image_passes_and_a_larger_body_is_told_its_limit(builder: Builder) {
    let stack = builder.setup(Setup::simple()).start().await;
    stack.upstream.default(Script::say(["seen"]));
    let body = |megabytes: usize| {
        let mut body = chat("m");
        let url = format!("data:image/png;base64,{}", "A".repeat(megabytes << 20));
        body["messages"] = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]);
        body.to_string()
    };
    let caller = stack.caller("k");
    let seen = caller
        .send("/v1/chat/completions", body(3))
        .await
        .expect(200);
    assert_eq!(seen.text(), "seen");
    let large = body(40);
    let size = large.len();
    let refused = caller.send("/v1/chat/completions", large).await.expect(413);
    assert_eq!(refused.code(), "body_too_large");
    let said = String::from_utf8_lossy(&refused.body);
    assert!(
        said.contains(&size.to_string()) && said.contains(&(32 << 20).to_string()),
        "{said}"
    );
    assert_eq!(stack.upstream.log().requests.len(), 1);
    stack.finish().await;
}

async fn the_largest_answer_passes_and_a_larger_one_is_told(builder: Builder) {
    let stack = builder.setup(Setup::simple()).start().await;
    let caller = stack.caller("k");
    let limit = stack.settings().forwarder.answer_limit;
    let answer = |bytes: usize| {
        let whole = |text: &str| {
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "up-m",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}})
            .to_string()
        };
        let text = "x".repeat(bytes - whole("").len());
        Script::body(200, "application/json", whole(&text))
    };
    stack.upstream.default(answer(limit));
    let largest = caller.chat("m").await.expect(200);
    // The public name is shorter than the upstream's.
    assert_eq!(largest.body.len(), limit - "up-".len());
    let row = stack.row(&largest.request_id()).await;
    assert_eq!(
        (row.output_tokens, row.charge_nanos),
        (Some(34), 12 * 1_000 + 34 * 2_000)
    );
    stack.upstream.default(answer(limit + 1));
    let refused = caller.chat("m").await.expect(502);
    assert_eq!(refused.code(), "upstream_failed");
    stack.finish().await;
}
