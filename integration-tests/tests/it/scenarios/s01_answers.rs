//! Whole and streamed answers: the caller gets the upstream's bytes, and the row, the balance and `explain` agree with what
//! the upstream served.

use std::collections::BTreeMap;

use fake_upstream::{Script, Usage};
use serde_json::{Value, json};
use switchboard_integration_tests::caller::{chat, streamed};
use switchboard_integration_tests::setup::{Setup, upstream_key};
use switchboard_integration_tests::stack::{Builder, GrpcCaller, Stack};
use switchboard_proto::billing::v1::UsageRow;
use switchboard_proto::inference::v1::{EmbedRequest, ListModelsRequest};

scenarios! { [in_process, split] {
    a_whole_answer_is_the_upstreams_and_is_billed_as_served,
    a_stream_is_the_upstreams_and_its_usage_is_hidden_from_who_did_not_ask,
    a_stream_whose_caller_asks_for_usage_is_untouched,
    the_public_name_replaces_the_upstreams_and_nothing_else,
    the_upstream_gets_the_callers_body_and_none_of_its_credentials,
    every_kind_of_token_has_its_price,
    embeddings_are_served_and_billed,
    the_same_over_grpc,
    refusals_are_no_rows,
} }

/// 1 USD in, 2 out, 0.1 cached: so a token in is 1,000 nanos.
fn setup() -> Setup {
    Setup::simple()
        .model("up-m", "price: {input: 1.00, output: 2.00}, targets: [{account: a}]")
        .model(
            "embed",
            "accepts: [openai.embeddings], price: {input: 0.50}, targets: [{account: a, model: up-embed}]",
        )
}

/// What the upstream answers to this very request, asked directly.
async fn direct(stack: &Stack, body: &Value) -> String {
    let url = format!("http://{}/v1/chat/completions", stack.upstream.addr());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .post(url)
        .bearer_auth(upstream_key("a"))
        .body(body.to_string());
    request.send().await.unwrap().text().await.unwrap()
}

/// Without the number that the upstream gives to each request.
fn unnumbered(text: &str) -> String {
    let mut parts = text.split("chatcmpl-fake-");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("chatcmpl-fake-N");
        plain.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    plain
}

fn assert_served(row: &UsageRow, input: u64, output: u64) {
    assert_eq!(row.ending, "complete");
    assert_eq!(row.status, 200);
    assert_eq!(row.usage_source, "provider");
    assert!(!row.provisional);
    assert_eq!(
        (row.input_tokens, row.output_tokens),
        (Some(input), Some(output))
    );
    assert_eq!(row.attempts.len(), 1);
    assert_eq!((row.tenant.as_str(), row.key.as_str()), ("acme", "k"));
    assert_eq!((row.group.as_str(), row.account.as_str()), ("all", "a"));
}

async fn a_whole_answer_is_the_upstreams_and_is_billed_as_served(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    stack
        .upstream
        .default(Script::say(["one ", "two ", "three"]).prompt_tokens(11));
    let body = chat("up-m");
    let expected = direct(&stack, &body).await;
    let caller = stack.caller("k").with("x-client-request-id", "mine-1");
    let answer = caller.ask(&body).await.expect(200);
    assert_eq!(
        unnumbered(std::str::from_utf8(&answer.body).unwrap()),
        unnumbered(&expected)
    );
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-switchboard-model"), "up-m");

    let row = stack.row(&answer.request_id()).await;
    assert_served(&row, 11, 3);
    assert!(!row.stream);
    assert_eq!(
        (row.public_model.as_str(), row.upstream_model.as_str()),
        ("up-m", "up-m")
    );
    assert_eq!(row.client_request_id, "mine-1");
    assert_eq!(row.charge_nanos, 11 * 1_000 + 3 * 2_000);
    // No cost sheet: list price.
    assert_eq!(row.cost_nanos, row.charge_nanos);
    let tenant = stack.tenant("acme").await;
    assert_eq!(tenant.balance_nanos, 100_000_000_000 - row.charge_nanos);

    let explained = stack.explain("mine-1").await;
    assert_eq!(explained.row.unwrap().request_id, row.request_id);
    let raw: Value = serde_json::from_str(&explained.usage_raw).unwrap();
    assert_eq!(
        (&raw["prompt_tokens"], &raw["completion_tokens"]),
        (&json!(11), &json!(3))
    );
    let decision: Value = serde_json::from_str(&explained.decision_json).unwrap();
    let target = &decision["targets"][0];
    assert_eq!(target["account"], "a");
    let filters = target["filters"].as_array().unwrap();
    assert!(
        !filters.is_empty() && filters.iter().all(|filter| filter["pass"] == json!(true)),
        "{filters:?}"
    );
    let served = stack.upstream.served();
    assert_eq!(served.last().unwrap().usage.prompt, 11);
    stack.finish().await;
}

async fn a_stream_is_the_upstreams_and_its_usage_is_hidden_from_who_did_not_ask(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    stack
        .upstream
        .default(Script::say(["안녕 ", "two ", "three", "!"]).prompt_tokens(7));
    let body = streamed("up-m");
    let expected = direct(&stack, &body).await;
    let answer = stack.caller("k").open(&body).await.rest().await;
    assert_eq!(answer.status, 200);
    assert!(answer.clean && answer.done());
    assert_eq!(
        unnumbered(std::str::from_utf8(&answer.bytes).unwrap()),
        unnumbered(&expected)
    );
    let headers = &answer.headers;
    assert!(
        headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/event-stream")
    );
    assert_eq!(headers["cache-control"], "no-cache");
    assert_eq!(headers["x-accel-buffering"], "no");
    // It was asked for all the same, and billed.
    let log = stack.upstream.log();
    assert_eq!(
        log.requests.last().unwrap().json()["stream_options"]["include_usage"],
        json!(true)
    );
    let row = stack.row(&answer.request_id()).await;
    assert_served(&row, 7, 4);
    assert!(row.stream);
    stack.finish().await;
}

async fn a_stream_whose_caller_asks_for_usage_is_untouched(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let mut body = streamed("up-m");
    body["stream_options"] = json!({"include_usage": true});
    let expected = direct(&stack, &body).await;
    assert!(expected.contains("\"usage\":{"), "{expected}");
    let answer = stack.caller("k").open(&body).await.rest().await;
    assert_eq!(
        unnumbered(std::str::from_utf8(&answer.bytes).unwrap()),
        unnumbered(&expected)
    );
    stack.finish().await;
}

async fn the_public_name_replaces_the_upstreams_and_nothing_else(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let answer = caller.chat("m").await.expect(200);
    let expected = direct(&stack, &chat("up-m"))
        .await
        .replace("\"up-m\"", "\"m\"");
    assert_eq!(
        unnumbered(std::str::from_utf8(&answer.body).unwrap()),
        unnumbered(&expected)
    );
    let answer = caller.stream("m").await;
    let expected = direct(&stack, &streamed("up-m"))
        .await
        .replace("\"up-m\"", "\"m\"");
    assert_eq!(
        unnumbered(std::str::from_utf8(&answer.bytes).unwrap()),
        unnumbered(&expected)
    );
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(
        (row.public_model.as_str(), row.upstream_model.as_str()),
        ("m", "up-m")
    );
    stack.finish().await;
}

/// Case C25.
async fn the_upstream_gets_the_callers_body_and_none_of_its_credentials(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let body = r#"{ "enable_thinking":false,"temperature":0, "model":"m","stop":null,"x_unknown":{"b":1,"a":[1.50]},"messages":[{"role":"user","content":"hi"}] }"#;
    let caller = stack
        .caller("k")
        .with("cookie", "session=canary")
        .with("x-internal-secret", "canary")
        .with("x-api-key", "canary")
        .with("x-forwarded-for", "203.0.113.9");
    let answer = caller.send("/v1/chat/completions", body).await.expect(200);
    let log = stack.upstream.log();
    let seen = log.requests.last().unwrap();
    // Byte for byte, but for the model's name.
    assert_eq!(
        std::str::from_utf8(&seen.body).unwrap(),
        body.replace("\"m\"", "\"up-m\"")
    );
    assert_eq!(seen.key.as_deref(), Some(upstream_key("a").as_str()));
    let headers = format!("{:?}", seen.headers);
    for forbidden in [
        "canary",
        "203.0.113.9",
        "caller-secret-of",
        "x-switchboard-service",
    ] {
        assert!(
            !headers.contains(forbidden),
            "{forbidden} reached the upstream: {headers}"
        );
    }
    let back = format!("{:?}", answer.headers);
    assert!(!back.contains("upstream-secret-of"), "{back}");
    stack.finish().await;
}

async fn every_kind_of_token_has_its_price(builder: Builder) {
    let setup = setup().model(
        "m",
        "price: {input: 3.00, cached_input: 0.30, cache_write_5m: 3.75, output: 15.00}, targets: [{account: a, model: up-m}]",
    );
    let stack = builder.setup(setup).start().await;
    let usage = Usage {
        prompt: 1_000,
        completion: 550,
        cached: Some(600),
        cache_write: None,
        reasoning: Some(100),
    };
    stack.upstream.default(Script::say(["x"]).usage(usage));
    let caller = stack.caller("k");
    let whole = caller.chat("m").await.expect(200).request_id();
    let stream = caller.stream("m").await.request_id();
    for id in [whole, stream] {
        let row = stack.row(&id).await;
        assert_eq!(row.input_tokens, Some(400));
        assert_eq!(row.cached_input_tokens, Some(600));
        assert_eq!(row.output_tokens, Some(550));
        assert_eq!(row.reasoning_tokens, Some(100));
        assert_eq!(row.cache_write_1h_tokens, None);
        // 400 × 3.00 + 600 × 0.30 + 550 × 15.00 per million: 0.00963 USD, whole and streamed alike.
        assert_eq!(row.charge_nanos, 9_630_000);
    }
    stack.finish().await;
}

async fn embeddings_are_served_and_billed(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let body = json!({"model": "embed", "input": ["one", "two"]});
    let answer = stack
        .caller("k")
        .send("/v1/embeddings", body.to_string())
        .await
        .expect(200);
    let json = answer.json();
    assert_eq!(json["data"].as_array().unwrap().len(), 2);
    assert_eq!(json["model"], "embed");
    let row = stack.row(&answer.request_id()).await;
    let served = stack.upstream.served().last().unwrap().usage.prompt;
    assert_eq!(row.input_tokens, Some(served));
    assert_eq!(row.charge_nanos, i64::try_from(served).unwrap() * 500);
    stack.finish().await;
}

async fn the_same_over_grpc(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    stack
        .upstream
        .default(Script::say(["one ", "two"]).prompt_tokens(9));
    let mut caller = stack.grpc_caller("k");
    for stream in [false, true] {
        let answer = caller
            .inference
            .generate(GrpcCaller::request("m", stream))
            .await
            .unwrap();
        let id = answer
            .metadata()
            .get("x-request-id")
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let mut events = answer.into_inner();
        let mut text = String::new();
        let (mut finish, mut usage, mut count) = (String::new(), None, 0);
        while let Some(event) = events.message().await.unwrap() {
            count += 1;
            assert_eq!(event.model, "m");
            for choice in event.choices {
                text.push_str(&choice.content);
                finish.push_str(&choice.finish_reason);
            }
            usage = event.usage.and_then(|report| report.usage).or(usage);
        }
        assert_eq!((text.as_str(), finish.as_str()), ("one two", "stop"));
        assert!(
            if stream { count > 1 } else { count == 1 },
            "{count} events"
        );
        let usage = usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            (Some(9), Some(2))
        );
        let row = stack.row(&id).await;
        assert_served(&row, 9, 2);
        assert_eq!(row.stream, stream);
    }
    let answer = caller.inference.embed(EmbedRequest {
        model: "embed".to_owned(),
        input: vec!["one".to_owned(), "two".to_owned()],
        ..EmbedRequest::default()
    });
    let embedded = answer.await.unwrap().into_inner();
    assert_eq!(embedded.embeddings.len(), 2);
    assert!(!embedded.embeddings[0].vector.is_empty());
    let models = caller
        .inference
        .list_models(ListModelsRequest {})
        .await
        .unwrap()
        .into_inner();
    let mut names: Vec<_> = models.models.into_iter().map(|model| model.id).collect();
    names.sort();
    assert_eq!(names, ["embed", "m", "up-m"]);

    // A wrong key, with the reason and the id where the proto says.
    let mut stranger = stack.grpc_caller("nobody");
    let refused = stranger
        .inference
        .generate(GrpcCaller::request("m", false))
        .await
        .unwrap_err();
    let failure = switchboard_common::error::Failure::from_status(&refused);
    assert_eq!(
        failure.reason,
        switchboard_common::error::Reason::InvalidApiKey
    );
    assert!(
        refused.metadata().contains_key("x-request-id"),
        "{:?}",
        refused.metadata()
    );

    let mut health = tonic_health::pb::health_client::HealthClient::new(caller.rpc.clone());
    let asked = tonic_health::pb::HealthCheckRequest {
        service: "switchboard.inference.v1.Inference".to_owned(),
    };
    assert_eq!(health.check(asked).await.unwrap().into_inner().status, 1);
    assert!(
        reflected(&caller)
            .await
            .contains(&"switchboard.inference.v1.Inference".to_owned())
    );
    stack.finish().await;
}

async fn reflected(caller: &GrpcCaller) -> Vec<String> {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(caller.rpc.clone());
    let answer = client
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap();
    let message = answer.into_inner().message().await.unwrap().unwrap();
    match message.message_response.unwrap() {
        MessageResponse::ListServicesResponse(list) => list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect(),
        other => panic!("{other:?}"),
    }
}

async fn refusals_are_no_rows(builder: Builder) {
    let setup = setup()
        .key("narrow", "models: [m]")
        .key("far", "allow_ips: [192.0.2.0/24]")
        .key("old", "expires: 2020-01-01");
    let stack = builder.setup(setup).start().await;
    let mut seen = BTreeMap::new();
    let mut note = |name: &str, answer: switchboard_integration_tests::caller::Answer| {
        assert!(!answer.request_id().is_empty(), "{name}");
        assert!(
            !String::from_utf8_lossy(&answer.body).contains("caller-secret-of"),
            "{name}"
        );
        seen.insert(name.to_owned(), (answer.status, answer.code()));
    };
    let caller = stack.caller("k");
    note("unknown key", stack.caller("nobody").chat("m").await);
    note("no key", stack.bearer("").chat("m").await);
    note("sql in the key", stack.bearer("' OR 1=1--").chat("m").await);
    note("unknown model", caller.chat("nothing").await);
    note(
        "not on the key's list",
        stack.caller("narrow").chat("up-m").await,
    );
    note("from elsewhere", stack.caller("far").chat("m").await);
    note("expired", stack.caller("old").chat("m").await);
    note("no JSON", caller.send("/v1/chat/completions", "{").await);
    note("no such path", caller.send("/v1/nothing", "{}").await);
    let expect = |name: &str, status: u16, code: &str| {
        assert_eq!(seen[name], (status, code.to_owned()), "{name}");
    };
    expect("unknown key", 401, "invalid_api_key");
    expect("no key", 401, "invalid_api_key");
    expect("sql in the key", 401, "invalid_api_key");
    expect("unknown model", 404, "model_not_found");
    expect("not on the key's list", 403, "model_not_allowed");
    expect("from elsewhere", 403, "ip_not_allowed");
    expect("expired", 401, "key_expired");
    expect("no JSON", 400, "invalid_request");
    expect("no such path", 404, "not_found");
    assert_eq!(stack.upstream.log().total, 0);
    assert_eq!(stack.usage(10).await, []);
    stack.finish().await;
}
