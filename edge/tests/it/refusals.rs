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
