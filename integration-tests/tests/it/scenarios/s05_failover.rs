//! Upstreams that fail: a clean failover before content.

use fake_upstream::{Script, nobody_listens};
use serde_json::json;
use switchboard_integration_tests::caller::{Caller, chat};
use switchboard_integration_tests::setup::{Setup, upstream_key};
use switchboard_integration_tests::stack::{Builder, Stack};

scenarios! { [in_process, split] {
    another_account_answers_the_same_call_whatever_the_first_did,
    an_account_where_nobody_listens_is_passed_over,
    an_account_without_quota_or_credential_rests_and_serves_again_after_a_reset,
    a_429_rests_its_account_for_as_long_as_it_says,
    when_all_fail_the_caller_learns_the_class_and_when_to_come_back,
    the_callers_own_mistake_is_returned_as_it_is_and_tried_once,
    a_single_429_account_is_tried_again_while_the_callers_patience_lasts,
} }

const TWO: &str = "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}, {account: b, model: up-m, tier: 1}], timeouts: {connect: 10s, first_byte: 3s, idle: 3s}";
const ONE: &str = "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], timeouts: {connect: 10s, first_byte: 3s, idle: 3s}";

/// Account `a` first, `b` when it fails; neither ever rests unless a test says so.
pub(super) fn setup() -> Setup {
    Setup::simple()
        .account("a", "cooldown: {max: 0s}, breaker: off")
        .account("b", "cooldown: {max: 0s}, breaker: off")
        .model("m", TWO)
}

fn error(status: u16) -> Script {
    Script::error(
        status,
        "server_error",
        None,
        "the upstream's own words about sk-secret",
    )
}

/// Everything that an upstream may do before content, by name.
fn faults() -> Vec<(&'static str, Script)> {
    vec![
        ("resets", Script::reset()),
        ("closes", Script::close()),
        ("hangs", Script::hang()),
        ("429 with Retry-After", Script::rate_limited(Some(1))),
        ("429 without", Script::rate_limited(None)),
        ("401", error(401)),
        ("402", error(402)),
        ("403", error(403)),
        ("408", error(408)),
        ("500", error(500)),
        ("503", error(503)),
        (
            "529",
            Script::error(529, "overloaded_error", None, "overloaded"),
        ),
        ("a load balancer's page", Script::html(502)),
        (
            "200 with an error object",
            Script::json(
                200,
                &json!({"error": {"message": "Provider returned error", "code": 502}}),
            ),
        ),
        (
            "200 with nothing",
            Script::body(200, "application/json", ""),
        ),
        (
            "200 with half a JSON",
            Script::body(200, "application/json", "{\"id\":\"x\",\"choices\":["),
        ),
        (
            "200 without choices",
            Script::json(200, &json!({"id": "x", "object": "chat.completion"})),
        ),
        (
            "an error as first event",
            Script::error_event("rate_limit_error", Some("429"), "slow down"),
        ),
        ("no events", Script::events(Vec::<String>::new())),
        (
            "only a role, then a reset",
            Script::tokens(3).reset_after(0),
        ),
        ("only a role, then silence", Script::tokens(3).hang_after(0)),
        ("no HTTP", Script::raw("garbage\r\n\r\n")),
    ]
}

async fn another_account_answers_the_same_call_whatever_the_first_did(builder: Builder) {
    // A lone caller fails over each time here, which the budget of retries is not made for.
    let builder = builder.settings(|settings| settings.forwarder.retries_in_hand = 1_000);
    let stack = builder.setup(setup()).start().await;
    stack.upstream.on_key(
        &upstream_key("b"),
        Script::say(["good ", "answer"]).prompt_tokens(5),
    );
    let caller = stack.caller("k");
    for (name, fault) in faults() {
        stack.upstream.on_key(&upstream_key("a"), fault);
        let only_streams = name.contains("event") || name.contains("role");
        let mut ids = Vec::new();
        if !only_streams {
            let answer = caller.chat("m").await;
            assert_eq!(answer.status, 200, "{name}: {:?}", answer.body);
            assert_eq!(answer.text(), "good answer", "{name}");
            ids.push(answer.request_id());
        }
        let answer = caller.stream("m").await;
        assert_eq!(answer.status, 200, "{name}: {:?}", answer.bytes);
        assert!(answer.clean && answer.done(), "{name}: {:?}", answer.events);
        assert_eq!(answer.text(), "good answer", "{name}");
        let roles = answer
            .events
            .iter()
            .filter(|event| event.contains("\"role\""))
            .count();
        assert_eq!(roles, 1, "{name}: one stream, not two: {:?}", answer.events);
        ids.push(answer.request_id());
        for id in ids {
            let row = stack.row(&id).await;
            assert_eq!(
                (row.account.as_str(), row.ending.as_str()),
                ("b", "complete"),
                "{name}"
            );
            assert_eq!(
                row.charge_nanos,
                5 * 1_000 + 2 * 2_000,
                "{name}: the attempt that served"
            );
            let last = row.attempts.len() - 1;
            assert!(last >= 1, "{name}: {:?}", row.attempts);
            assert!(
                row.attempts[..last]
                    .iter()
                    .all(|tried| tried.account == "a" && !tried.error.is_empty()),
                "{name}: {:?}",
                row.attempts
            );
            assert_eq!(
                (
                    row.attempts[last].account.as_str(),
                    row.attempts[last].error.as_str()
                ),
                ("b", ""),
                "{name}"
            );
        }
    }
    stack.finish().await;
}

async fn an_account_where_nobody_listens_is_passed_over(builder: Builder) {
    let (address, _port) = nobody_listens().unwrap();
    let setup = setup().account_at("a", address, "cooldown: {max: 0s}");
    let stack = builder.setup(setup).start().await;
    let answer = stack.caller("k").chat("m").await.expect(200);
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(row.account, "b");
    assert_eq!(row.attempts[0].account, "a");
    assert_eq!((row.attempts[0].status, row.attempts[0].sent), (0, false));
    assert_eq!(row.attempts[0].cost_nanos, 0);
    stack.finish().await;
}

/// How many requests account `a` has got.
fn asked(stack: &Stack) -> usize {
    stack.upstream.log().of_key(&upstream_key("a")).count()
}

async fn an_account_without_quota_or_credential_rests_and_serves_again_after_a_reset(
    builder: Builder,
) {
    let setup = setup().account("a", "cooldown: {max: 10m}");
    let stack = builder.setup(setup).start().await;
    let caller = stack.caller("k");
    for status in [402, 401] {
        stack.upstream.clear_log();
        stack.upstream.on_key(&upstream_key("a"), error(status));
        caller.chat("m").await.expect(200);
        let first = asked(&stack);
        assert!(first >= 1, "{status}");
        for _ in 0..3 {
            caller.chat("m").await.expect(200);
        }
        assert_eq!(asked(&stack), first, "{status}: it rests");
        stack.upstream.on_key(&upstream_key("a"), Script::tokens(1));
        let reset = switchboard_proto::scheduler::v1::ResetCooldownsRequest {
            actor: Some(switchboard_proto::common::v1::Actor {
                name: "test".to_owned(),
                reason: "it is paid".to_owned(),
            }),
            account: "a".to_owned(),
        };
        stack
            .admin()
            .scheduler
            .reset_cooldowns(reset)
            .await
            .unwrap();
        let before = asked(&stack);
        switchboard_integration_tests::stack::eventually("it serves again", async || {
            caller.chat("m").await.expect(200);
            asked(&stack) > before
        })
        .await;
    }
    stack.finish().await;
}

async fn a_429_rests_its_account_for_as_long_as_it_says(builder: Builder) {
    let setup = setup().account("a", "cooldown: {max: 10m}");
    let stack = builder.setup(setup).start().await;
    stack
        .upstream
        .push_on_key(&upstream_key("a"), Script::rate_limited(Some(60)));
    let caller = stack.caller("k");
    let answer = caller.chat("m").await.expect(200);
    for _ in 0..3 {
        caller.chat("m").await.expect(200);
    }
    assert_eq!(asked(&stack), 1);
    // The choice says why.
    stack.row(&answer.request_id()).await;
    let last = caller.chat("m").await.expect(200).request_id();
    stack.row(&last).await;
    let decision = stack.explain(&last).await.decision_json;
    let decision: serde_json::Value = serde_json::from_str(&decision).unwrap();
    let targets = decision["targets"].as_array().unwrap();
    let resting = targets
        .iter()
        .find(|target| target["account"] == "a")
        .unwrap();
    let failed = resting["filters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|filter| filter["pass"] != json!(true));
    assert!(failed.is_some(), "{resting}");
    stack.finish().await;
}

async fn refused(caller: &Caller) -> [(u16, String, String); 2] {
    let whole = caller.chat("m").await;
    let stream = caller.stream("m").await.as_answer();
    [whole, stream].map(|answer| {
        assert!(!answer.header("x-request-id").is_empty());
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            !text.contains("sk-secret") && !text.contains("127.0.0.1"),
            "{text}"
        );
        (
            answer.status,
            answer.code(),
            answer.header("retry-after").to_owned(),
        )
    })
}

async fn when_all_fail_the_caller_learns_the_class_and_when_to_come_back(builder: Builder) {
    let builder = builder.settings(|settings| {
        settings.forwarder.retries_in_hand = 1_000;
        settings.forwarder.last_tries = 0;
    });
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let expected = [
        (error(401), 503, "upstream_credentials_exhausted"),
        (error(402), 503, "upstream_credentials_exhausted"),
        (Script::rate_limited(Some(7)), 429, "rate_limit_exceeded"),
        (error(500), 502, "upstream_failed"),
        (Script::html(502), 502, "upstream_failed"),
        (Script::reset(), 502, "upstream_failed"),
        (
            Script::json(200, &json!({"error": {"message": "no", "code": 502}})),
            502,
            "upstream_failed",
        ),
        (Script::hang(), 504, "upstream_timeout"),
    ];
    for (script, status, code) in expected {
        stack.upstream.default(script);
        for (seen, seen_code, after) in refused(&caller).await {
            assert_eq!((seen, seen_code.as_str()), (status, code));
            if status == 429 {
                assert_eq!(after, "7");
            }
        }
    }
    // Each of them has a row: E3.
    let rows = stack.rows(16).await;
    for row in rows {
        assert_eq!(
            (row.ending.as_str(), row.charge_nanos),
            ("failed", 0),
            "{row:?}"
        );
        assert!(!row.error_code.is_empty());
    }
    stack.finish().await;
}

/// Case D16.
async fn the_callers_own_mistake_is_returned_as_it_is_and_tried_once(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let said = json!({"error": {"message": "Your prompt is against our policy.", "type": "invalid_request_error", "param": "messages", "code": "content_policy_violation"}});
    for status in [400, 422] {
        stack.upstream.clear_log();
        stack.upstream.default(Script::json(status, &said));
        let answer = caller.chat("m").await.expect(status);
        assert_eq!(answer.json()["error"]["message"], said["error"]["message"]);
        assert_eq!(answer.json()["error"]["code"], said["error"]["code"]);
        let answer = caller.stream("m").await.as_answer().expect(status);
        assert_eq!(answer.json()["error"]["message"], said["error"]["message"]);
        assert_eq!(
            stack.upstream.log().requests.len(),
            2,
            "{status}: one attempt each"
        );
    }
    stack.finish().await;
}

async fn a_single_429_account_is_tried_again_while_the_callers_patience_lasts(builder: Builder) {
    let setup = setup().model("m", ONE);
    let stack = builder.setup(setup).start().await;
    let caller = stack.caller("k");
    stack.upstream.push(Script::rate_limited(None));
    caller.ask(&chat("m")).await.expect(200);
    assert_eq!(stack.upstream.log().total, 2);
    // What it says is longer than anybody waits: the answer goes out at once.
    stack.upstream.push(Script::rate_limited(Some(60)));
    let answer = caller.chat("m").await.expect(429);
    assert_eq!(answer.header("retry-after"), "60");
    assert_eq!(stack.upstream.log().total, 3);
    stack.finish().await;
}
