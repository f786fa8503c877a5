//! Callers of one dialect, upstreams of another (DIAL-1): money to the nano, failover from dialect to dialect, errors in the
//! caller's own form (CASES A21, C3, C20).

use fake_upstream::Script;
use serde_json::{Value, json};
use switchboard_integration_tests::caller::{Answer, Caller, chat, streamed};
use switchboard_integration_tests::setup::{Setup, upstream_key};
use switchboard_integration_tests::stack::{Builder, GrpcCaller};

scenarios! { [in_process, split] {
    cache_and_reasoning_are_charged_once_whatever_the_callers_dialect,
    an_attempt_in_another_dialect_is_made_from_the_callers_own_words,
    a_failure_before_content_is_invisible_and_one_after_it_is_in_the_callers_form,
    what_a_target_has_nothing_for_is_named_or_refused_and_another_target_is_asked,
    a_response_that_nobody_keeps_is_not_guessed_at,
    typed_calls_take_the_same_way,
    a_schema_reaches_whoever_stands_in,
    a_name_is_a_name_in_every_dialect,
    counting_is_not_translated_into_an_answer_that_costs_money,
    what_one_account_sealed_is_left_out_for_another_and_the_turn_answered,
} }

const PATIENT: &str = "cooldown: {max: 0s}, breaker: off";

/// Models `claude`, `chat`, `gemini` and `responses`, each by an account of the one dialect that its name says, and `any` by
/// Claude first, then chat, then Responses.
fn setup() -> Setup {
    let price = "price: {input: 3.00, output: 15.00, cached_input: 0.30, cache_write_5m: 3.75}";
    let target = |name: &str| format!("{price}, targets: [{{account: {name}, model: up-{name}}}]");
    let account = |provider: &str, dialect: &str| {
        format!("provider: {provider}, dialects: [{dialect}], {PATIENT}")
    };
    Setup::simple()
        .account("claude", &account("anthropic", "anthropic.messages"))
        .account("chat", &account("openai_compatible", "openai.chat"))
        .account("gemini", &account("gemini", "gemini.generate"))
        .account("responses", &account("openai", "openai.responses"))
        .model("claude", &target("claude"))
        .model("chat", &target("chat"))
        .model("gemini", &target("gemini"))
        .model("responses", &target("responses"))
        .model(
            "any",
            &format!(
                "{price}, targets: [{{account: claude, model: up-claude}}, {{account: chat, model: up-chat, tier: 1}}, {{account: responses, model: up-responses, tier: 2}}]"
            ),
        )
}

/// Models `then-chat`, `then-claude` and `then-gemini`: Responses first, and who its name says when that fails; and `pair`, two
/// accounts of Responses.
fn stand_ins() -> Setup {
    let price = "price: {input: 3.00, output: 15.00}";
    let account = format!("provider: openai, dialects: [openai.responses], {PATIENT}");
    let mut setup = setup().account("second", &account).model(
        "pair",
        &format!(
            "{price}, targets: [{{account: responses, model: up}}, {{account: second, model: up}}]"
        ),
    );
    for name in ["chat", "claude", "gemini"] {
        let targets = format!(
            "{price}, targets: [{{account: responses, model: up}}, {{account: {name}, model: up-{name}, tier: 1}}]"
        );
        setup = setup.model(&format!("then-{name}"), &targets);
    }
    setup
}

fn response(items: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "up", "output": items,
        "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 6}})
}

fn message(usage: &Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up-claude",
        "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage})
}

/// Anthropic's events, each under its name.
fn named(events: &[Value]) -> Script {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    Script::event_bytes(events.iter().map(event).collect::<String>())
}

fn start(usage: &Value) -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "up-claude",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}})
}

fn words(text: &str) -> [Value; 2] {
    [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
    ]
}

async fn messages(caller: &Caller, model: &str, stream: bool) -> Answer {
    let body = json!({"model": model, "max_tokens": 64, "stream": stream,
        "messages": [{"role": "user", "content": "hi"}]});
    caller.send("/v1/messages", body.to_string()).await
}

/// The data of all events of a body.
fn events(answer: &Answer) -> Vec<Value> {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
        .collect()
}

async fn cache_and_reasoning_are_charged_once_whatever_the_callers_dialect(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let usage = json!({"input_tokens": 3, "cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0,
        "output_tokens": 550});
    stack.upstream.default(Script::json(200, &message(&usage)));
    let answer = caller.chat("claude").await.expect(200);
    let said = answer.json();
    assert_eq!(said["choices"][0]["message"]["content"], "hello");
    assert_eq!(said["choices"][0]["finish_reason"], "stop");
    assert_eq!(said["model"], "claude");
    assert_eq!(said["usage"]["prompt_tokens"], 12_307);
    assert_eq!(said["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(said["usage"]["completion_tokens"], 550);
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(row.charge_nanos, 54_399_000);
    assert_eq!(
        (row.dialect.as_str(), row.usage_source.as_str()),
        ("openai.chat", "provider")
    );

    // The same streamed: what comes later replaces what came before.
    let first = json!({"input_tokens": 3, "cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0, "output_tokens": 1});
    let [open, delta] = words("hello");
    stack.upstream.default(named(&[
        start(&first),
        open,
        delta,
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 550}}),
        json!({"type": "message_stop"}),
    ]));
    let mut asked = streamed("claude");
    asked["stream_options"] = json!({"include_usage": true});
    let answer = caller.open(&asked).await.rest().await;
    assert!(
        answer.done() && answer.text() == "hello",
        "{:?}",
        answer.events
    );
    let last: Value = serde_json::from_str(&answer.events[answer.events.len() - 2]).unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["prompt_tokens"]),
        (&json!([]), &json!(12_307))
    );
    assert_eq!(
        stack.row(&answer.request_id()).await.charge_nanos,
        54_399_000
    );

    // Gemini's thoughts are output, also for a caller of Anthropic's dialect.
    let thoughts = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 198, "thoughtsTokenCount": 405, "totalTokenCount": 623}});
    stack.upstream.default(Script::json(200, &thoughts));
    let answer = messages(&caller, "gemini", false).await.expect(200);
    let said = answer.json();
    assert_eq!(said["content"], json!([{"type": "text", "text": "yes"}]));
    assert_eq!(
        (&said["stop_reason"], &said["usage"]["output_tokens"]),
        (&json!("end_turn"), &json!(603))
    );
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(row.charge_nanos, 20 * 3_000 + 603 * 15_000);
    assert_eq!(stack.rows(3).await.len(), 3, "one row a request");
    stack.finish().await;
}

async fn an_attempt_in_another_dialect_is_made_from_the_callers_own_words(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let busy =
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
    stack
        .upstream
        .on_key(&upstream_key("claude"), Script::json(429, &busy));
    stack.upstream.on_key(
        &upstream_key("chat"),
        Script::error(503, "server_error", None, "busy"),
    );
    let done = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "up-responses",
        "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "third", "annotations": []}]}],
        "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 6}});
    stack
        .upstream
        .on_key(&upstream_key("responses"), Script::json(200, &done));
    let body = json!({"model": "any", "max_tokens": 2048, "system": [{"type": "text", "text": "be brief"}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]});
    let answer = caller
        .send("/v1/messages", body.to_string())
        .await
        .expect(200);
    assert_eq!(answer.json()["content"][0]["text"], "third");
    let sent: Vec<Value> = stack
        .upstream
        .log()
        .requests
        .iter()
        .map(|one| one.json())
        .collect();
    assert_eq!(sent.len(), 3);
    assert_eq!(
        sent[0]["system"], body["system"],
        "its own dialect: as it is"
    );
    assert_eq!(sent[1]["messages"][0]["content"], "be brief", "{}", sent[1]);
    assert!(
        sent[1].get("system").is_none() && sent[1].get("thinking").is_none(),
        "{}",
        sent[1]
    );
    assert!(
        sent[2].get("messages").is_none() && sent[2]["input"].is_array(),
        "{}",
        sent[2]
    );
    assert!(sent[2]["reasoning"]["effort"].is_string(), "{}", sent[2]);
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(
        (row.account.as_str(), row.charge_nanos),
        ("responses", 5 * 3_000 + 15_000)
    );
    stack.finish().await;
}

async fn a_failure_before_content_is_invisible_and_one_after_it_is_in_the_callers_form(
    builder: Builder,
) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let usage = json!({"input_tokens": 5, "output_tokens": 1});
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "about sk-secret"}});
    stack.upstream.on_key(
        &upstream_key("claude"),
        named(&[start(&usage), overloaded.clone()]),
    );
    stack
        .upstream
        .on_key(&upstream_key("chat"), Script::tokens(2));
    let answer = caller.stream("any").await;
    assert!(answer.done(), "{:?}", answer.events);
    let roles = answer
        .events
        .iter()
        .filter(|event| event.contains("\"role\""));
    assert_eq!(roles.count(), 1, "one clean stream");

    let [open, delta] = words("half");
    stack.upstream.on_key(
        &upstream_key("claude"),
        named(&[start(&usage), open, delta, overloaded]),
    );
    let answer = caller.stream("any").await;
    assert_eq!(answer.text(), "half");
    assert_eq!(answer.error_code(), "upstream_failed");
    assert!(!answer.done() && !String::from_utf8_lossy(&answer.bytes).contains("sk-secret"));
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(
        (row.ending.as_str(), row.usage_source.as_str()),
        ("upstream_broke", "estimated")
    );

    // A chat upstream that breaks, to callers of the three other dialects.
    stack
        .upstream
        .default(Script::say(["one ", "two "]).reset_after(1));
    stack.upstream.on_key(
        &upstream_key("chat"),
        Script::say(["one ", "two "]).reset_after(1),
    );
    let said = events(&messages(&caller, "chat", true).await);
    assert_eq!(
        said.last().map(|last| &last["type"]),
        Some(&json!("error")),
        "{said:?}"
    );
    let body = json!({"model": "chat", "input": "hi", "stream": true});
    let said = events(&caller.send("/v1/responses", body.to_string()).await);
    let numbers: Vec<_> = said
        .iter()
        .map(|event| event["sequence_number"].as_u64())
        .collect();
    assert_eq!(
        numbers,
        (0..said.len() as u64).map(Some).collect::<Vec<_>>(),
        "{said:?}"
    );
    assert_eq!(
        said.last().map(|last| &last["type"]),
        Some(&json!("response.failed"))
    );
    assert_eq!(
        said[0]["response"]["id"],
        said.last().unwrap()["response"]["id"]
    );
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let path = "/v1beta/models/chat:streamGenerateContent?alt=sse";
    let said = events(&caller.send(path, body.to_string()).await);
    assert_eq!(
        said[0]["candidates"][0]["content"]["parts"][0]["text"],
        "one "
    );
    assert!(said.last().unwrap()["error"]["code"].is_u64(), "{said:?}");
    stack.finish().await;
}

async fn what_a_target_has_nothing_for_is_named_or_refused_and_another_target_is_asked(
    builder: Builder,
) {
    let strict = setup().key("strict", "unsupported: reject");
    let stack = builder.setup(strict).start().await;
    let caller = stack.caller("k");
    let usage = json!({"input_tokens": 5, "output_tokens": 1});
    stack
        .upstream
        .on_key(&upstream_key("claude"), Script::json(200, &message(&usage)));
    stack
        .upstream
        .on_key(&upstream_key("chat"), Script::tokens(1));
    let mut body = chat("claude");
    body["logit_bias"] = json!({"5": 1});
    let answer = caller.ask(&body).await.expect(200);
    assert_eq!(answer.header("x-switchboard-dropped-params"), "logit_bias");
    let refused = stack.caller("strict").ask(&body).await.expect(400);
    assert_eq!(
        (refused.code().as_str(), &refused.json()["error"]["param"]),
        ("unsupported_parameter", &json!("logit_bias"))
    );

    // Two answers at once: Claude has no such thing, chat has.
    let mut body = chat("claude");
    body["n"] = 2.into();
    let refused = caller.ask(&body).await.expect(400);
    assert_eq!(
        (refused.code().as_str(), &refused.json()["error"]["param"]),
        ("unsupported_parameter", &json!("n"))
    );
    let row = stack.row(&refused.request_id()).await;
    assert_eq!(row.charge_nanos, 0);
    body["model"] = "any".into();
    caller.ask(&body).await.expect(200);
    let asked = stack.upstream.log().requests.last().unwrap().json();
    assert_eq!(
        (&asked["n"], &asked["model"]),
        (&json!(2), &json!("up-chat"))
    );
    stack.finish().await;
}

async fn a_response_that_nobody_keeps_is_not_guessed_at(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    stack.upstream.default(Script::tokens(1));
    let body = json!({"model": "chat", "input": "hi", "store": true});
    let made = caller
        .send("/v1/responses", body.to_string())
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&made["status"], &made["store"]),
        (&json!("completed"), &json!(false))
    );
    let id = made["id"].as_str().unwrap();
    caller.get(&format!("/v1/responses/{id}")).await.expect(404);
    let body = json!({"model": "chat", "input": "and?", "previous_response_id": id});
    let refused = caller.send("/v1/responses", body.to_string()).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "previous_response_not_found")
    );
    assert_eq!(stack.upstream.log().requests.len(), 1);
    stack.finish().await;
}

async fn typed_calls_take_the_same_way(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let usage = json!({"input_tokens": 5, "output_tokens": 1});
    let [open, delta] = words("hello");
    let streamed = named(&[
        start(&usage),
        open,
        delta,
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]);
    let mut caller = stack.grpc_caller("k");
    for (stream, script) in [
        (false, Script::json(200, &message(&usage))),
        (true, streamed),
    ] {
        stack.upstream.default(script);
        let asked = GrpcCaller::request("claude", stream);
        let answer = caller.inference.generate(asked).await.unwrap();
        let mut events = answer.into_inner();
        let (mut text, mut finish, mut counts) = (String::new(), String::new(), None);
        while let Some(event) = events.message().await.unwrap() {
            for choice in event.choices {
                text.push_str(&choice.content);
                finish.push_str(&choice.finish_reason);
            }
            counts = event.usage.and_then(|report| report.usage).or(counts);
        }
        assert_eq!((text.as_str(), finish.as_str()), ("hello", "stop"));
        let counts = counts.unwrap();
        assert_eq!(
            (counts.input_tokens, counts.output_tokens),
            (Some(5), Some(1))
        );
    }
    stack.finish().await;
}

async fn a_schema_reaches_whoever_stands_in(builder: Builder) {
    let stack = builder.setup(stand_ins()).start().await;
    let caller = stack.caller("k");
    let busy = Script::error(503, "server_error", None, "busy");
    stack.upstream.on_key(&upstream_key("responses"), busy);
    let schema = json!({"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "string"}},
        "required": ["z", "a"], "additionalProperties": false});
    let answers = [
        ("chat", Script::say([r#"{"z":1,"a":"b"}"#])),
        (
            "claude",
            Script::json(
                200,
                &message(&json!({"input_tokens": 5, "output_tokens": 1})),
            ),
        ),
        (
            "gemini",
            Script::json(
                200,
                &json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "{}"}]}, "finishReason": "STOP", "index": 0}]}),
            ),
        ),
    ];
    for (name, script) in answers {
        stack.upstream.on_key(&upstream_key(name), script.clone());
        // Google's header of the credential is no key to the upstream here.
        stack.upstream.default(script);
        let body = json!({"model": format!("then-{name}"), "input": "hi", "text": {"format":
            {"type": "json_schema", "name": "answer", "strict": true, "schema": schema}}});
        let answer = caller.send("/v1/responses", body.to_string()).await;
        assert_eq!(answer.expect(200).json()["status"], "completed", "{name}");
        let log = stack.upstream.log();
        let asked = log.requests.last().unwrap().json();
        let reached = match name {
            "chat" => &asked["response_format"]["json_schema"]["schema"],
            // A model that knows no schema of the answer gives it as the input of a tool.
            "claude" => match &asked["output_config"]["format"]["schema"] {
                Value::Null => &asked["tools"][0]["input_schema"],
                schema => schema,
            },
            _ => &asked["generationConfig"]["responseJsonSchema"],
        };
        assert_eq!(reached, &schema, "{name}: {asked}");
    }
    stack.finish().await;
}

async fn what_one_account_sealed_is_left_out_for_another_and_the_turn_answered(builder: Builder) {
    let stack = builder.setup(stand_ins()).start().await;
    let caller = stack.caller("k");
    let message = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": "next", "annotations": []}]});
    let refusal = json!({"error": {"message": "The encrypted content for item rs_1 could not be verified.",
        "type": "invalid_request_error", "param": null, "code": "invalid_encrypted_content"}});
    let keys = ["responses", "second"].map(upstream_key);
    for turn in 0..6 {
        for key in &keys {
            stack.upstream.push_on_key(key, Script::json(400, &refusal));
            let answer = Script::json(200, &response(&json!([message])));
            stack.upstream.push_on_key(key, answer);
        }
        let before = stack.upstream.log().requests.len();
        let body = json!({"model": "pair", "store": false, "input": [{"role": "user", "content": "hi"},
            {"type": "reasoning", "summary": [], "encrypted_content": format!("of nobody here {turn}")},
            {"role": "assistant", "content": "well"}, {"role": "user", "content": "and?"}]});
        let answer = caller.send("/v1/responses", body.to_string()).await;
        let answer = answer.expect(200);
        assert_eq!(answer.json()["output"][0]["content"][0]["text"], "next");
        assert_eq!(
            answer.header("x-switchboard-dropped-params"),
            "input[].encrypted_content"
        );
        let log = stack.upstream.log();
        let [first, second] = &log.requests[before..] else {
            panic!("asked twice: {:?}", log.requests.len() - before);
        };
        assert_eq!(first.key, second.key, "by the same account");
        assert!(first.json().to_string().contains("of nobody here"));
        assert!(!second.json().to_string().contains("of nobody here"));
        assert_eq!(second.json()["input"][2]["content"], "and?");
        let row = stack.row(&answer.request_id()).await;
        assert_eq!(row.charge_nanos, 5 * 3_000 + 15_000);
    }
    stack.finish().await;
}

/// Nothing is read into a name: who serves it says the table alone (CASES D9).
async fn a_name_is_a_name_in_every_dialect(builder: Builder) {
    let names = ["qwen/qwen3:free", "org/team/model.v1", "openai/claude"];
    let mut setup = setup();
    for name in names {
        let target = "price: {input: 3.00, output: 15.00}, targets: [{account: claude, model: \"claude/up:beta\"}]";
        setup = setup.model(name, target);
    }
    let stack = builder.setup(setup).start().await;
    let caller = stack.caller("k");
    let usage = json!({"input_tokens": 5, "output_tokens": 1});
    stack.upstream.default(Script::json(200, &message(&usage)));
    for name in names {
        let responses = json!({"model": name, "input": "hi"});
        let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
        let generate = format!("/v1beta/models/{name}:generateContent");
        let answers = [
            caller.ask(&chat(name)).await,
            messages(&caller, name, false).await,
            caller.send("/v1/responses", responses.to_string()).await,
            caller.send(&generate, contents.to_string()).await,
        ];
        for answer in answers {
            let said = answer.expect(200).json();
            let told = said.get("model").or(said.get("modelVersion"));
            assert_eq!(told, Some(&json!(name)), "{said}");
            let log = stack.upstream.log();
            let asked = log.requests.last().unwrap().json();
            assert_eq!(asked["model"], "claude/up:beta", "{name}");
        }
    }
    stack.finish().await;
}

/// What tokens are is a model's own, and the translation of a call that counts them would be a call that generates.
async fn counting_is_not_translated_into_an_answer_that_costs_money(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let usage = json!({"input_tokens": 5, "output_tokens": 1});
    stack.upstream.default(Script::json(200, &message(&usage)));
    let turn = json!([{"role": "user", "content": "hi"}]);
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    for model in ["claude", "chat", "gemini", "responses"] {
        let counts = [
            (
                "claude",
                "/v1/messages/count_tokens".to_owned(),
                json!({"model": model, "messages": turn}),
            ),
            (
                "responses",
                "/v1/responses/input_tokens".to_owned(),
                json!({"model": model, "input": "hi"}),
            ),
            (
                "gemini",
                format!("/v1beta/models/{model}:countTokens"),
                contents.clone(),
            ),
        ];
        for (own, path, body) in counts {
            if own == model {
                continue;
            }
            let told = caller.send(&path, body.to_string()).await;
            let told = told.expect(400).json();
            let said = format!(
                "tokens cannot be counted for model `{model}` in this API: its upstreams have no endpoint for that"
            );
            assert_eq!(told["error"]["message"], said, "{path}");
        }
    }
    assert!(stack.upstream.log().requests.is_empty());
    stack.finish().await;
}
