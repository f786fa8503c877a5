//! Refusals that reach no forwarder.

use std::time::Duration;

use switchboard_edge::Config;

use crate::rig::Rig;

fn request(line: &str, headers: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n").into_bytes()
}

fn small() -> Config {
    Config {
        body_limit: 1_000_000,
        ..Config::default()
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_like_any_other() {
    let rig = Rig::start(Config::default()).await;
    for (path, status, code) in [
        ("/v1/models/%ff%fe", "400", "invalid_request"),
        ("/models/a/%ff", "400", "invalid_request"),
        ("/%ff/%fe", "404", "not_found"),
        ("/a/%ff", "404", "not_found"),
        ("/v1/nothing", "404", "not_found"),
        ("/%ff", "404", "not_found"),
    ] {
        let answer = rig.send(&request(&format!("GET {path}"), "")).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.code(), code, "{path}");
        assert!(!answer.body.contains("gRPC"), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn what_is_not_served_says_so_and_is_no_response_of_that_name() {
    let rig = Rig::start(Config::default()).await;
    for line in [
        "POST /v1/responses/compact",
        "POST /responses/compact/",
        "GET /v1/responses/compact",
        "POST /v1/conversations",
    ] {
        let answer = rig.send(&request(line, "")).await;
        assert_eq!(
            (answer.status(), answer.code()),
            ("404", "not_found".to_owned()),
            "{line}"
        );
    }
    let answer = rig.send(&request("POST /v1/responses/compact", "")).await;
    assert!(answer.body.contains("truncation"), "{}", answer.body);
}

#[tokio::test]
async fn geminis_paths_are_refused_in_geminis_form() {
    let rig = Rig::start(Config::default()).await;
    for (line, code, status) in [
        ("POST /v1beta/models/m:generateContent", 503, "UNAVAILABLE"),
        ("POST /v1/models/a%2Fb:c%3AcountTokens", 503, "UNAVAILABLE"),
        (
            "POST /models/m:streamGenerateContent?alt=sse",
            503,
            "UNAVAILABLE",
        ),
        ("GET /v1beta/models", 503, "UNAVAILABLE"),
        ("GET /v1beta/models/a/b:c", 503, "UNAVAILABLE"),
        ("POST /v1beta/models/m:forgetContent", 404, "NOT_FOUND"),
        ("POST /v1/models/:generateContent", 404, "NOT_FOUND"),
        ("POST /v1beta/models/m", 404, "NOT_FOUND"),
        (
            "POST /v1beta/models/%ff:generateContent",
            400,
            "INVALID_ARGUMENT",
        ),
        ("GET /v1beta/nothing", 404, "NOT_FOUND"),
        ("POST /v1alpha/models/m:generateContent", 404, "NOT_FOUND"),
        ("DELETE /v1beta/models/m", 405, "INVALID_ARGUMENT"),
        ("POST /v1beta/models", 405, "INVALID_ARGUMENT"),
    ] {
        let answer = rig.send(&request(line, "content-length: 0\r\n")).await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["error"]["code"], code, "{line}: {body}");
        assert_eq!(body["error"]["status"], status, "{line}");
        assert_eq!(answer.status(), code.to_string(), "{line}");
    }
    let by_header = "x-goog-api-key: k\r\ncontent-length: 0\r\n";
    for path in ["/v1/models", "/models/", "/v1/models/m"] {
        let answer = rig.send(&request(&format!("GET {path}"), by_header)).await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["error"]["status"], "UNAVAILABLE", "{path}");
        let answer = rig.send(&request(&format!("GET {path}"), "")).await;
        assert_eq!(answer.code(), "unavailable", "{path}");
    }
}

#[tokio::test]
async fn what_is_not_served_of_anthropics_api_is_refused_in_its_form() {
    let rig = Rig::start(Config::default()).await;
    let by_header = "anthropic-version: 2023-06-01\r\n";
    for (line, headers) in [
        ("GET /v1/messages/batches", ""),
        ("GET /messages/batches/b", ""),
        ("GET /v1/files", by_header),
    ] {
        let answer = rig.send(&request(line, headers)).await;
        assert_eq!(answer.status(), "404", "{line}");
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["type"], "error", "{line}: {body}");
        assert_eq!(body["error"]["type"], "not_found_error", "{line}");
        let id = body["request_id"].as_str().unwrap();
        let header = format!("\r\nrequest-id: {id}\r\n");
        assert!(answer.head.contains(&header), "{line}: {}", answer.head);
    }
}

/// Bytes that are left unread reset the connection, and the reset takes the refusal with it.
#[tokio::test]
async fn a_caller_that_sends_everything_first_still_sees_the_refusal() {
    const BODY: usize = 24_000_000;
    let rig = Rig::start(small()).await;
    let length = format!("content-length: {BODY}\r\n");
    let coded = "content-encoding: lzma
transfer-encoding: chunked
";
    let long = vec![b' '; BODY];
    let piece = [b"f4240\r\n".as_slice(), &long[..1_000_000], b"\r\n"].concat();
    let pieces = [piece.repeat(24), b"0\r\n\r\n".to_vec()].concat();
    for (line, headers, body, code) in [
        (
            "POST /v1/chat/completions",
            length.as_str(),
            &long,
            "body_too_large",
        ),
        (
            "POST /v1/chat/completions",
            "transfer-encoding: chunked\r\n",
            &pieces,
            "body_too_large",
        ),
        (
            "POST /v1/chat/completions",
            coded,
            &pieces,
            "unsupported_encoding",
        ),
        (
            "PUT /v1/chat/completions",
            &length,
            &long,
            "method_not_allowed",
        ),
        ("POST /v1/nothing", &length, &long, "not_found"),
    ] {
        let whole = [request(line, headers), body.clone()].concat();
        assert_eq!(rig.send(&whole).await.code(), code, "{line} {headers}");
    }
    assert_eq!(rig.edge.body_bytes(), 0);
}

#[tokio::test]
async fn a_caller_that_asks_first_is_not_invited_to_send_what_is_refused() {
    let rig = Rig::start(small()).await;
    let headers = "content-length: 24000000\r\nexpect: 100-continue\r\n";
    let answer = rig
        .send(&request("POST /v1/chat/completions", headers))
        .await;
    assert_eq!(answer.status(), "413", "{}", answer.head);
    assert_eq!(answer.code(), "body_too_large");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_told_in_each_dialects_form_with_limit_and_size() {
    let rig = Rig::start(small()).await;
    for (path, code, word) in [
        ("/v1/chat/completions", "/error/code", "body_too_large"),
        ("/v1/responses", "/error/code", "body_too_large"),
        ("/v1/embeddings", "/error/code", "body_too_large"),
        ("/v1/images/generations", "/error/code", "body_too_large"),
        ("/v1/audio/transcriptions", "/error/code", "body_too_large"),
        ("/v1/messages", "/error/type", "request_too_large"),
        (
            "/v1beta/models/m:generateContent",
            "/error/details/0/reason",
            "body_too_large",
        ),
    ] {
        let headers = "content-length: 24000000\r\nexpect: 100-continue\r\n";
        let answer = rig.send(&request(&format!("POST {path}"), headers)).await;
        assert_eq!(answer.status(), "413", "{path}: {}", answer.head);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body.pointer(code).unwrap(), word, "{path}: {body}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("24000000") && message.contains("1000000"),
            "{path}: {message}"
        );
    }
}

#[tokio::test]
async fn a_coding_that_nobody_knows_is_refused_in_each_dialects_form() {
    let rig = Rig::start(small()).await;
    for (path, code, word) in [
        (
            "/v1/chat/completions",
            "/error/code",
            "unsupported_encoding",
        ),
        (
            "/v1/messages",
            "/error/details/error_code",
            "unsupported_encoding",
        ),
        (
            "/v1beta/models/m:generateContent",
            "/error/details/0/reason",
            "unsupported_encoding",
        ),
    ] {
        let headers = "content-length: 2\r\ncontent-encoding: lzma\r\n";
        let whole = [request(&format!("POST {path}"), headers), b"{}".to_vec()].concat();
        let answer = rig.send(&whole).await;
        assert_eq!(answer.status(), "415", "{path}: {}", answer.head);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body.pointer(code).unwrap(), word, "{path}: {body}");
    }
}

#[tokio::test]
async fn a_refused_body_is_read_on_within_its_bounds_only() {
    let config = Config {
        refused_timeout: Duration::from_millis(1),
        ..small()
    };
    let rig = Rig::start(config).await;
    // It announces more than it sends and keeps the connection open.
    let headers = "content-length: 24000000\r\n";
    let answer = rig
        .send(&request("POST /v1/chat/completions", headers))
        .await;
    assert_eq!(answer.code(), "body_too_large");
    rig.lifecycle.stop();
    let ended = rig
        .lifecycle
        .shutdown(Duration::from_secs(20), Duration::from_secs(1));
    assert!(ended.await);
}

#[tokio::test]
async fn what_is_no_http_gets_an_error_object_with_an_id() {
    let rig = Rig::start(Config {
        header_count: 20,
        ..small()
    })
    .await;
    let long = "x".repeat(200_000);
    let many: String = (0..40).map(|n| format!("x-{n}: y\r\n")).collect();
    for (request, what) in [
        (b"GARBAGE\r\n\r\n".to_vec(), "no request line"),
        (b"GET / HTTP/7.4\r\n\r\n".to_vec(), "no such version"),
        (
            request("GET /v1/models", "a header without a colon\r\n"),
            "a broken header",
        ),
        (
            request("GET /v1/models", "content-length: many\r\n"),
            "a length that is none",
        ),
        (
            request("GET /v1/models", &format!("x-long: {long}\r\n")),
            "long headers",
        ),
        (request("GET /v1/models", &many), "many headers"),
    ] {
        let answer = rig.send(&request).await;
        assert_eq!(answer.status(), "400", "{what}: {}", answer.head);
        assert_eq!(answer.code(), "invalid_request", "{what}");
        let head = answer.head.to_lowercase();
        assert!(head.contains("content-type: application/json"), "{what}");
        assert!(head.contains("connection: close"), "{what}: {head}");
    }
}

#[tokio::test]
async fn a_body_with_broken_pieces_gets_an_error_object_with_an_id() {
    let rig = Rig::start(small()).await;
    let mut whole = request(
        "POST /v1/chat/completions",
        "transfer-encoding: chunked\r\n",
    );
    whole.extend_from_slice(b"zz\r\nnot a piece\r\n");
    let answer = rig.send(&whole).await;
    assert_eq!(answer.status(), "400", "{}", answer.head);
    assert_eq!(answer.code(), "invalid_request");
}

#[tokio::test]
async fn every_error_of_an_admin_call_has_a_reason_and_an_id() {
    let rig = Rig::start(Config::default()).await;
    // Nobody is proved; whoever proves is away, in words of its own.
    for (headers, status) in [("", "16"), ("authorization: Bearer x\r\n", "14")] {
        let headers = format!("content-type: application/grpc\r\n{headers}");
        let line = "POST /switchboard.billing.v1.BillingAdmin/TopUp";
        let answer = rig.send(&request(line, &headers)).await;
        let head = answer.head.to_lowercase();
        assert!(
            head.contains(&format!("grpc-status: {status}\r\n")),
            "{head}"
        );
        for name in ["x-request-id: ", "grpc-status-details-bin: "] {
            assert!(head.contains(name), "{name}: {head}");
        }
    }
}

#[tokio::test]
async fn too_many_headers_over_http2_get_an_error_object_with_an_id() {
    let rig = Rig::start(Config {
        header_count: 20,
        ..small()
    })
    .await;
    let long = "x".repeat(Config::default().header_bytes);
    for headers in [
        vec![("x-long".to_owned(), long)],
        (0..40)
            .map(|n| (format!("x-{n}"), "y".to_owned()))
            .collect(),
    ] {
        let answer = rig.get_over_http2("/v1/models", &headers).await;
        assert_eq!(answer.status(), "400", "{}", answer.head);
        assert_eq!(answer.code(), "invalid_request");
    }
}

#[tokio::test]
async fn head_is_answered_like_get_without_the_body() {
    let rig = Rig::start(Config::default()).await;
    for (path, status) in [
        ("/v1/models", "503"),
        ("/v1beta/models", "503"),
        ("/v1/chat/completions", "405"),
        ("/v1/nothing", "404"),
    ] {
        let get = rig.send(&request(&format!("GET {path}"), "")).await;
        let head = rig.send(&request(&format!("HEAD {path}"), "")).await;
        assert_eq!((get.status(), head.status()), (status, status), "{path}");
        assert!(!get.body.is_empty() && head.body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn a_whole_answer_is_compressed_for_who_takes_it() {
    let config = Config {
        compress_from: 1,
        ..Config::default()
    };
    let rig = Rig::start(config).await;
    for (accepts, coded) in [
        ("", false),
        ("accept-encoding: identity\r\n", false),
        ("accept-encoding: br;q=0, gzip\r\n", true),
        (
            "accept-encoding: identity\r\naccept-encoding: gzip\r\n",
            true,
        ),
    ] {
        let answer = rig.send(&request("GET /v1/models", accepts)).await;
        assert_eq!(answer.status(), "503");
        let head = &answer.head;
        assert_eq!(head.contains("content-encoding: gzip"), coded, "{head}");
        assert!(head.contains("vary: accept-encoding"), "{head}");
    }
}
