use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::json::Cursor;

fn http(status: u16, body: &str) -> UpstreamError {
    http_with(status, &[], body)
}

fn http_with(status: u16, headers: &[(&'static str, &str)], body: &str) -> UpstreamError {
    let headers: HeaderMap = headers
        .iter()
        .map(|(k, v)| {
            (
                HeaderName::from_static(k),
                HeaderValue::from_str(v).unwrap(),
            )
        })
        .collect();
    UpstreamError::from_http(
        status,
        &headers,
        &Bytes::copy_from_slice(body.as_bytes()),
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
    )
}

fn embedded(body: &str) -> Option<UpstreamError> {
    let mut cursor = Cursor::new(body);
    cursor.enter_object().unwrap();
    cursor.next_key(&mut true).unwrap();
    UpstreamError::from_embedded(body, cursor.skip().unwrap())
}

fn openai(code: &str) -> String {
    format!(r#"{{"error":{{"message":"m","type":"t","param":null,"code":"{code}"}}}}"#)
}

#[test]
fn the_status_decides() {
    for (status, class, blame, wire) in [
        (301, Class::Unexpected, Blame::Host, 502),
        (401, Class::Unauthorized, Blame::Account, 503),
        (402, Class::Quota, Blame::Account, 503),
        (403, Class::Forbidden, Blame::Account, 503),
        (407, Class::Server, Blame::Host, 502),
        (408, Class::Timeout, Blame::Host, 504),
        (429, Class::RateLimited, Blame::AccountModel, 429),
        (499, Class::Server, Blame::Host, 502),
        (500, Class::Server, Blame::Host, 502),
        (502, Class::Server, Blame::Host, 502),
        (503, Class::Overloaded, Blame::Host, 502),
        (504, Class::Timeout, Blame::Host, 504),
        (529, Class::Overloaded, Blame::Host, 502),
    ] {
        let error = http(status, &openai("whatever"));
        assert_eq!(
            (error.class, error.class.blame()),
            (class, blame),
            "{status}"
        );
        assert_eq!(error.class.wire().0, wire, "{status}");
        assert!(
            error.class.retryable() && error.for_caller(Shape::OpenAi).is_none(),
            "{status}"
        );
    }
}

#[test]
fn the_callers_own_mistakes_go_back_as_they_are() {
    for status in [400, 404, 409, 413, 415, 422, 424] {
        let body = openai("x");
        let error = http(status, &body);
        assert_eq!(error.class.blame(), Blame::Request, "{status}");
        let shown = error.for_caller(Shape::OpenAi).unwrap();
        assert_eq!(
            (shown.status, &*shown.body(Shape::OpenAi, "r")),
            (status, body.as_bytes())
        );
    }
}

#[test]
fn a_body_that_is_no_error_object_is_wrapped() {
    for body in [
        "<html>no</html>",
        "",
        "[1]",
        r#"{"detail":"bad field"}"#,
        r#"{"error":"bad field"}"#,
        r#"{"error":{"m":1}}"#,
    ] {
        let shown = http(422, body).for_caller(Shape::OpenAi).unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&shown.body(Shape::OpenAi, "r")).unwrap();
        assert_eq!(json["error"]["type"], "invalid_request_error", "{body}");
        assert_eq!(json["error"]["code"], "invalid_request", "{body}");
        assert!(json["error"]["message"].is_string(), "{body}");
        if body.contains("bad field") {
            assert_eq!(json["error"]["message"], "bad field");
        }
    }
}

#[test]
fn an_error_in_a_wrapping_of_the_servers_own_is_read_like_its_object() {
    let event = "event: error\r\ndata: {\"error\":{\"message\":\"prompt is too long: 3 tokens\",\"type\":\"invalid_request_error\"}}\r\n\r\n";
    let error = http(400, event);
    assert_eq!(error.class, Class::ContextLength);
    assert_eq!(
        error.message.as_deref(),
        Some("prompt is too long: 3 tokens")
    );
    let shown = http(
        422,
        ": hi\n\ndata: {\"error\":{\"message\":\"no\",\"code\":\"c\",\"param\":\"p\"}}",
    );
    let shown = shown.for_caller(Shape::OpenAi).unwrap();
    assert_eq!(
        (shown.message.as_str(), shown.param.as_deref()),
        ("no", Some("p"))
    );
    assert_eq!(shown.as_it_is, None);
    let wrapped = http(
        400,
        r#"{"success":false,"errors":[{"code":7003,"message":"no such route"}]}"#,
    );
    let shown = wrapped.for_caller(Shape::OpenAi).unwrap();
    assert_eq!(
        (shown.message.as_str(), shown.as_it_is),
        ("no such route", None)
    );
}

#[test]
fn what_a_server_finds_wrong_reaches_the_caller_with_its_place() {
    let body = r#"{"detail":[{"type":"missing","loc":["body","messages",0,"role"],"msg":"Field required","input":{}}]}"#;
    let shown = http(422, body).for_caller(Shape::OpenAi).unwrap();
    assert_eq!(
        (shown.status, &*shown.message, shown.param.as_deref()),
        (422, "Field required", Some("messages[0].role"))
    );
    let shown = http(400, "max_tokens must be at most 10\n")
        .for_caller(Shape::OpenAi)
        .unwrap();
    assert_eq!(shown.message, "max_tokens must be at most 10");
}

#[test]
fn money_gone_is_told_from_a_rate_limit_by_its_code() {
    for code in [
        "insufficient_quota",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "enforced_spend_limit_reached",
    ] {
        // Some say it with the status of a request that is wrong.
        for status in [400, 402, 403, 429] {
            let error = http(status, &openai(code));
            assert_eq!(error.class, Class::Quota, "{status} {code}");
            assert_eq!(error.class.wire(), (503, "upstream_credentials_exhausted"));
            assert!(error.for_caller(Shape::OpenAi).is_none());
        }
    }
    assert_eq!(
        http(429, &openai("rate_limit_exceeded")).class,
        Class::RateLimited
    );
}

#[test]
fn a_refused_content_is_not_a_refused_account() {
    assert_eq!(
        http(403, &openai("content_policy_violation")).class,
        Class::ContentPolicy
    );
    let azure = r#"{"error":{"message":"filtered","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    let error = http(400, azure);
    assert_eq!(error.class, Class::ContentPolicy);
    assert_eq!(error.for_caller(Shape::OpenAi).unwrap().status, 400);
}

#[test]
fn a_context_that_is_too_long_is_known_by_its_words() {
    let words = [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "input tokens exceed the configured limit of 8192 tokens",
        "prompt is too long: 9000 tokens > 8192 maximum",
        "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
        "Your request exceeds the context window of this model: it will exceed it by 5",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "The engine prompt length 9000 exceeds the max_model_len 8192.",
        "This model's maximum prompt length is 8192 but the request contains 9000 tokens.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000 `inputs` tokens",
        "Input validation error: `inputs` must have less than 8192 tokens. Given: 9000",
        "Unable to submit request because the input token count is 9000 but model only supports up to 8192.",
        "too many tokens: total number of tokens in the prompt cannot exceed 8192",
        "input length and `max_tokens` exceed context limit: 9000 + 64 > 8192",
        "prompt token count of 9000 exceeds the limit of 8192",
        "Invalid request: Your request exceeded model token limit: 8192",
        "Range of input length should be [1, 8192]",
        "the request exceeds the available context size, try increasing it",
    ];
    for message in words {
        for status in [400, 413, 422] {
            let body =
                serde_json::json!({"error": {"message": message, "type": "x", "code": null}})
                    .to_string();
            let error = http(status, &body);
            assert_eq!(error.class, Class::ContextLength, "{message}");
            let shown = error.for_caller(Shape::OpenAi).unwrap();
            let json: serde_json::Value =
                serde_json::from_slice(&shown.body(Shape::OpenAi, "r")).unwrap();
            assert_eq!((shown.status, shown.code), (400, "context_length_exceeded"));
            assert_eq!(json["error"]["code"], "context_length_exceeded");
            assert_eq!(json["error"]["type"], "invalid_request_error");
            assert_eq!(json["error"]["message"], message);
        }
        let inside = serde_json::json!({"error": {"message": message}}).to_string();
        assert_eq!(
            embedded(&inside).unwrap().class,
            Class::ContextLength,
            "{message}"
        );
    }
    let proper = openai("context_length_exceeded").replace(r#""t""#, r#""invalid_request_error""#);
    assert_eq!(
        http(400, &proper)
            .for_caller(Shape::OpenAi)
            .unwrap()
            .body(Shape::OpenAi, "r"),
        proper.as_bytes()
    );
    assert_eq!(
        http(
            429,
            r#"{"error":{"message":"input tokens exceed the limit per minute"}}"#
        )
        .class,
        Class::RateLimited
    );
    assert_eq!(http(400, &openai("invalid_value")).class, Class::Request);
    // Limits on the output are another matter.
    for message in [
        "max_tokens: 90000 > 8192, which is the maximum allowed number of output tokens",
        "max_tokens is too large: 90000. This model supports at most 8192 completion tokens",
    ] {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        assert_eq!(http(400, &body).class, Class::Request, "{message}");
    }
    // The code is right, the type is not what clients know.
    let half = r#"{"error":{"message":"m","type":"BadRequestError","param":null,"code":"context_length_exceeded"}}"#;
    let shown = http(400, half).for_caller(Shape::OpenAi).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&shown.body(Shape::OpenAi, "r")).unwrap();
    assert_eq!(json["error"]["type"], "invalid_request_error");
}

#[test]
fn an_error_inside_a_success_counts_like_its_status() {
    for (body, class) in [
        (r#"{"error":{"message":"x","code":502}}"#, Class::Server),
        (
            r#"{"error":{"message":"x","code":"429"}}"#,
            Class::RateLimited,
        ),
        (
            r#"{"error":{"message":"x","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#,
            Class::RateLimited,
        ),
        (
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            Class::Unauthorized,
        ),
        (
            r#"{"error":{"message":"x","type":"overloaded_error"}}"#,
            Class::Overloaded,
        ),
        (
            r#"{"error":{"message":"x","type":"invalid_request_error","code":null}}"#,
            Class::Request,
        ),
        (
            r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"x"}}"#,
            Class::Request,
        ),
        (
            r#"{"error":{"message":"x","type":"insufficient_quota"}}"#,
            Class::Quota,
        ),
        (
            r#"{"error":{"error":{"message":"x","code":"rate_limit_exceeded"}}}"#,
            Class::RateLimited,
        ),
        (
            r#"{"error":[{"message":"x","code":"rate_limit_exceeded"}]}"#,
            Class::RateLimited,
        ),
        (r#"{"error":[3]}"#, Class::Server),
        (r#"{"error":{"message":"something"}}"#, Class::Server),
        (r#"{"error":"something"}"#, Class::Server),
        (r#"{"error":true}"#, Class::Server),
    ] {
        assert_eq!(embedded(body).unwrap().class, class, "{body}");
    }
    for none in [
        r#"{"error":null}"#,
        r#"{"error":false}"#,
        r#"{"error":0}"#,
        r#"{"error":""}"#,
        r#"{"error":{ }}"#,
    ] {
        assert_eq!(embedded(none), None, "{none}");
    }
    let flat = UpstreamError::from_flat(r#"{"object":"error","message":"busy","code":503}"#);
    assert_eq!(
        (flat.class, flat.message.as_deref()),
        (Class::Overloaded, Some("busy"))
    );
}

#[test]
fn delays_are_read_in_every_form() {
    let delay = |headers: &[(&'static str, &str)]| http_with(429, headers, "").retry_after;
    let secs = |s: f64| Some(Duration::from_secs_f64(s));
    assert_eq!(delay(&[("retry-after", "2")]), secs(2.0));
    assert_eq!(delay(&[("retry-after", "0.25")]), secs(0.25));
    assert_eq!(
        delay(&[("retry-after", "9"), ("retry-after-ms", "200")]),
        secs(0.2)
    );
    assert_eq!(
        delay(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]),
        secs(30.0)
    );
    assert_eq!(
        delay(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]),
        secs(0.0)
    );
    assert_eq!(delay(&[("retry-after", "-1")]), None);
    assert_eq!(delay(&[("retry-after", "soon")]), None);
    assert_eq!(delay(&[("retry-after", "NaN")]), None);
    assert_eq!(delay(&[("retry-after", "1e300")]), Some(MAX_RETRY_AFTER));
    let limits = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1m3.5s"),
        ("x-ratelimit-remaining-tokens", "5"),
        ("x-ratelimit-reset-tokens", "6h"),
    ];
    assert_eq!(delay(&limits), secs(63.5));
    assert_eq!(
        http_with(429, &[("x-should-retry", "false")], "").should_retry,
        Some(false)
    );
}

#[test]
fn our_own_errors_have_the_form_of_the_callers_vendor() {
    let said = Saying {
        code: "rate_limit_exceeded",
        status: 429,
        message: "slow \"down\"\n",
        param: Some("model"),
        request_id: Some("r"),
        retry_after: None,
    };
    assert_eq!(
        &*Shape::OpenAi.body(&said),
        br#"{"error":{"message":"slow \"down\"\n","type":"rate_limit_error","param":"model","code":"rate_limit_exceeded"}}"#
    );
    assert_eq!(
        &*Shape::Anthropic.body(&said),
        br#"{"type":"error","error":{"type":"rate_limit_error","message":"slow \"down\"\n","details":{"error_code":"rate_limit_exceeded"}},"request_id":"r"}"#
    );
    assert_eq!(
        &*Shape::Gemini.body(&said),
        br#"{"error":{"code":429,"message":"slow \"down\"\n","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"rate_limit_exceeded","domain":"switchboard"}]}}"#
    );
    let gone = Saying {
        code: "upstream_failed",
        status: 502,
        message: "gone",
        param: None,
        request_id: None,
        retry_after: None,
    };
    assert_eq!(
        &*Shape::OpenAi.event(&gone),
        b"data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,\"code\":\"upstream_failed\"}}\n\n"
    );
    assert_eq!(
        &*Shape::Anthropic.event(&gone),
        b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"gone\",\"details\":{\"error_code\":\"upstream_failed\"}}}\n\n"
    );
}

#[test]
fn geminis_form_says_when_to_come_again() {
    let mut said = Saying {
        code: "queue_full",
        status: 429,
        message: "full",
        param: None,
        request_id: None,
        retry_after: Some(Duration::from_secs(46)),
    };
    let delay = |said: &Saying<'_>| {
        let body: serde_json::Value = serde_json::from_slice(&Shape::Gemini.body(said)).unwrap();
        body["error"]["details"][1].clone()
    };
    let info = |delay: &str| serde_json::json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
    assert_eq!(delay(&said), info("46s"));
    said.retry_after = Some(Duration::from_millis(1_500));
    assert_eq!(delay(&said), info("1.500s"));
}

#[test]
fn googles_details_are_understood() {
    let body = r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[1,{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"46.5s"}]}}]"#;
    let limited = http_with(429, &[], body);
    assert_eq!(limited.class, Class::RateLimited);
    assert_eq!(limited.retry_after, Some(Duration::from_millis(46_500)));
    assert_eq!(limited.message.as_deref(), Some("slow"));
    let body = r#"{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    assert_eq!(http_with(400, &[], body).class, Class::Unauthorized);
}

#[test]
fn an_error_passes_as_it_is_only_to_callers_of_its_own_form() {
    for (shape, body) in [
        (Shape::OpenAi, openai("x")),
        (
            Shape::Anthropic,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}"#
                .to_owned(),
        ),
        (
            Shape::Gemini,
            r#"{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}"#.to_owned(),
        ),
    ] {
        let error = http(400, &body);
        for caller in [Shape::OpenAi, Shape::Anthropic, Shape::Gemini] {
            let shown = error.for_caller(caller).unwrap();
            assert_eq!(
                shown.body(caller, "r") == body.as_bytes(),
                caller == shape,
                "{caller:?} {body}"
            );
        }
    }
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic_and_what_is_shown_is_json(status in any::<u16>(), body in prop::collection::vec(any::<u8>(), 0..80),
                                                          value in "[ -~]{0,20}") {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_str(&value).unwrap());
        let error = UpstreamError::from_http(status, &headers, &Bytes::from(body), SystemTime::UNIX_EPOCH);
        if let Some(shown) = error.for_caller(Shape::OpenAi) {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&shown.body(Shape::OpenAi, "r")).is_ok());
        }
    }
}

#[test]
fn declared_codes_mean_what_the_account_says() {
    let rule = |path: &str, wanted, class| Rule::new(path, wanted, class).unwrap();
    let equals = |text: &str| Wanted::Equals(text.to_owned());
    let rules = Rules(vec![
        rule("$.code", equals("1302"), Class::RateLimited),
        rule(
            "$.errors[1]['err.type']",
            Wanted::Matches("quota*used".to_owned()),
            Class::Quota,
        ),
        rule("$.base_resp.status_msg", equals("busy"), Class::Overloaded),
        rule("$.fatal", Wanted::Matches("*".to_owned()), Class::Server),
    ]);
    for (body, class) in [
        (r#"{"code":1302,"msg":"x"}"#, Some(Class::RateLimited)),
        (r#"{"code":"1302"}"#, Some(Class::RateLimited)),
        (r#"{"code":1302.0}"#, Some(Class::RateLimited)),
        (r#"{"code":13020}"#, None),
        (
            r#"{"errors":[{},{"err.type":"quota is all used"}]}"#,
            Some(Class::Quota),
        ),
        (r#"{"errors":[{"err.type":"quota is all used"}]}"#, None),
        (
            r#"{"base_resp":{"status_msg":"busy"}}"#,
            Some(Class::Overloaded),
        ),
        (r#"{"fatal":null}"#, Some(Class::Server)),
        ("nonsense", None),
        (r#"{"code":1302"#, None),
    ] {
        assert_eq!(rules.class_of(body.as_bytes()), class, "{body}");
    }
    for path in ["", "code", "$code", "$.", "$[x]", "$['a'", "$..a"] {
        assert_eq!(Rule::new(path, equals("x"), Class::Server), None, "{path}");
    }
}
