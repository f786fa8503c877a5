//! What accounts declare of their servers: parameters (FWD-11) and vendor codes (DIAL-4).

use fake_upstream::Script;
use serde_json::json;
use switchboard_common::error::Reason;
use switchboard_proto::scheduler::v1::{Blame, ErrorMeaning, ErrorRule, Parameters, Rescale};

use crate::rig::{KEY, Rig, chat, config};

fn declared() -> Parameters {
    Parameters {
        supported: ["temperature", "max_completion_tokens"]
            .map(str::to_owned)
            .into(),
        has_supported: true,
        rename: [(
            "max_completion_tokens".to_owned(),
            "max_new_tokens".to_owned(),
        )]
        .into(),
        rescale: [(
            "temperature".to_owned(),
            Rescale {
                from_low: 0,
                from_high: 2_000_000,
                to_low: 0,
                to_high: 1_000_000,
            },
        )]
        .into(),
        roles: [("developer".to_owned(), "system".to_owned())].into(),
        reject: None,
    }
}

async fn rig(reject: Option<bool>, by_key: bool) -> Rig {
    Rig::with(config(), |state| {
        let map = Parameters {
            reject,
            ..declared()
        };
        state.candidates[0].parameters = Some(map);
        state.principals.get_mut(KEY).unwrap().reject_unsupported = by_key;
    })
    .await
}

fn asked() -> serde_json::Value {
    let mut body = chat(false);
    body["messages"][0]["role"] = "developer".into();
    body["temperature"] = json!(0.5);
    body["max_tokens"] = 7.into();
    body["logit_bias"] = json!({"1": 2});
    body["top_p"] = json!(0.1);
    body["seed"] = serde_json::Value::Null;
    body
}

#[tokio::test]
async fn what_an_account_does_not_take_is_left_out_and_named_and_the_rest_is_in_its_words() {
    let rig = rig(None, false).await;
    let answer = rig.chat(&asked()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("x-switchboard-dropped-params"),
        Some("logit_bias, top_p")
    );
    let mut expected = chat(false);
    expected["model"] = "upstream-gpt".into();
    expected["messages"][0]["role"] = "system".into();
    expected["temperature"] = json!(0.25);
    expected["max_new_tokens"] = 7.into();
    assert_eq!(rig.upstream.log().requests[0].json(), expected);
    let plain = rig.chat(&chat(false)).await;
    assert_eq!(plain.header("x-switchboard-dropped-params"), None);
    rig.end().await;
}

#[tokio::test]
async fn what_an_account_does_not_take_is_refused_by_name_where_account_or_key_say_so() {
    for (account, key) in [(Some(true), false), (None, true)] {
        let rig = rig(account, key).await;
        rig.world.state().candidates.truncate(1);
        let answer = rig.chat(&asked()).await;
        let failure = answer.failure.unwrap();
        assert_eq!(failure.reason, Reason::UnsupportedParameter);
        assert_eq!(failure.param.as_deref(), Some("logit_bias"));
        assert_eq!(rig.upstream.log().requests.len(), 0);
        let settled = rig.settlement(&answer.id).await;
        assert!(settled.charge_nothing);
        rig.end().await;
    }
}

/// What one account does not take another one may: it is refused only where nobody takes it.
#[tokio::test]
async fn another_account_serves_what_one_would_have_to_refuse() {
    let rig = rig(Some(true), false).await;
    let answer = rig.chat(&asked()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-switchboard-dropped-params"), None);
    let settled = rig.settlement(&answer.id).await;
    let errors: Vec<_> = settled.attempts.iter().map(|tried| &*tried.error).collect();
    assert_eq!(errors, ["unsupported", ""]);
    assert_eq!(rig.upstream.log().requests.len(), 1);
    rig.end().await;
}

/// One account is away for a moment, the other has nothing for the request: the caller may come again.
#[tokio::test]
async fn an_account_that_failed_is_not_taken_for_a_request_that_nobody_serves() {
    let rig = rig(Some(true), false).await;
    rig.world.state().candidates.swap(0, 1);
    let broken = json!({"error": {"message": "x", "type": "server_error"}});
    rig.upstream.push(Script::json(500, &broken));
    let answer = rig.chat(&asked()).await;
    let failure = answer.failure.unwrap();
    assert_eq!(failure.reason, Reason::UpstreamFailed);
    let settled = rig.settlement(&answer.id).await;
    let errors: Vec<_> = settled.attempts.iter().map(|tried| &*tried.error).collect();
    assert_eq!(errors, ["server", "unsupported"]);
    rig.end().await;
}

fn rule(path: &str, equals: &str, means: ErrorMeaning) -> ErrorRule {
    ErrorRule {
        path: path.to_owned(),
        equals: Some(equals.to_owned()),
        matches: None,
        means: means as i32,
    }
}

#[tokio::test]
async fn a_vendors_code_means_what_the_account_says_whatever_the_status() {
    let limited = json!({"code": 1302, "msg": "too fast", "choices": []});
    for (script, stream) in [
        (Script::json(200, &limited), false),
        (Script::json(400, &limited), false),
        (Script::json(200, &limited), true),
        (Script::events([limited.to_string()]), true),
    ] {
        let rig = Rig::with(config(), |state| {
            state.candidates[0].errors = vec![rule("$.code", "1302", ErrorMeaning::RateLimited)];
        })
        .await;
        rig.upstream.push(script);
        let answer = rig.chat(&chat(stream)).await;
        assert_eq!((answer.status, answer.failure.as_ref()), (200, None));
        let settled = rig.settlement(&answer.id).await;
        let attempts: Vec<&str> = settled.attempts.iter().map(|a| &*a.error).collect();
        assert_eq!(attempts, ["rate_limited", ""], "{stream}");
        let blamed = rig.world.state().advanced[0]
            .failed
            .as_ref()
            .unwrap()
            .blame();
        assert_eq!(blamed, Blame::Model);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_403_that_a_rule_calls_a_refusal_of_content_goes_to_the_caller() {
    let rig = Rig::with(config(), |state| {
        state.candidates[0].errors = vec![rule(
            "$.error.code",
            "sensitive",
            ErrorMeaning::ContentPolicy,
        )];
    })
    .await;
    rig.upstream.push(Script::error(
        403,
        "forbidden",
        Some("sensitive"),
        "not this",
    ));
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["error"]["message"], "not this");
    assert_eq!(rig.upstream.log().requests.len(), 1);
    rig.end().await;
}
