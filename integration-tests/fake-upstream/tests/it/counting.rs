//! What is recorded and counted.

use fake_upstream::{FakeUpstream, Gate, Outcome, Script};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::client::{Client, frames, raw, read, stream, whole};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_on_at_once_never_counts_twice() {
    let upstream = FakeUpstream::start().await.unwrap();
    let body = stream(false).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Two connections take turns: each sends the moment the other has seen the last event.
    let mut lines = [
        raw(&upstream, &stream(false)).await,
        tokio::net::TcpStream::connect(upstream.addr())
            .await
            .unwrap(),
    ];
    for turn in 0..300 {
        let mut seen = Vec::new();
        while !seen.windows(6).any(|w| w == b"[DONE]") {
            assert_ne!(lines[turn % 2].read_buf(&mut seen).await.unwrap(), 0);
        }
        lines[(turn + 1) % 2]
            .write_all(request.as_bytes())
            .await
            .unwrap();
        while !seen.ends_with(b"0\r\n\r\n") {
            assert_ne!(lines[turn % 2].read_buf(&mut seen).await.unwrap(), 0);
        }
    }
    let log = upstream.log();
    assert_eq!((log.max_in_flight, log.connections), (1, 2));
}

#[tokio::test]
async fn concurrency_is_counted_in_all_and_per_key() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let gate = Gate::new();
    upstream.default(Script::new().gate(&gate));
    let mut calls = JoinSet::new();
    for n in 0..5 {
        let client = client.clone();
        let key = if n < 3 { "a" } else { "b" };
        calls.spawn(async move {
            read(
                client
                    .send(key, "/chat/completions", &whole())
                    .await
                    .unwrap(),
            )
            .await
        });
    }
    gate.reached(5).await;
    let log = upstream.log();
    assert_eq!(
        (log.in_flight, log.in_flight_of("a"), log.in_flight_of("b")),
        (5, 3, 2)
    );
    gate.open();
    calls.join_all().await;
    let log = upstream.log();
    assert_eq!(
        (log.in_flight, log.max_in_flight, log.max_in_flight_of("a")),
        (0, 5, 3)
    );
    assert_eq!((log.total, log.count(Outcome::Completed)), (5, 5));
    upstream.clear_log();
    assert_eq!(
        (upstream.log().requests.len(), upstream.log().max_in_flight),
        (0, 0)
    );
}

#[tokio::test]
async fn a_record_has_head_body_and_progress() {
    let upstream = FakeUpstream::start().await.unwrap();
    for client in [Client::new(&upstream), Client::http2(&upstream)] {
        let (seen, well) = frames(client.chat(&stream(true)).await.unwrap()).await;
        assert!(well);
        let log = upstream.log();
        let record = log.requests.last().unwrap();
        assert_eq!(
            (record.method.as_str(), record.path.as_str()),
            ("POST", "/v1/chat/completions")
        );
        assert_eq!(record.header("authorization"), Some("Bearer sk-test"));
        assert_eq!(
            (record.key.as_deref(), record.model.as_deref()),
            (Some("sk-test"), Some("m"))
        );
        assert_eq!(record.json(), stream(true));
        assert_eq!(record.bytes_written as usize, seen.concat().len());
        assert_eq!(record.events_written, 7);
        assert_eq!(record.outcome, Some(Outcome::Completed));
    }
    let log = upstream.log();
    assert_eq!(log.requests[0].connection, 1);
    assert_eq!(log.requests[1].connection, 2);
    assert_eq!(log.requests[1].version, http::Version::HTTP_2);
}

#[tokio::test]
async fn a_stalled_reader_stalls_the_script() {
    let upstream = FakeUpstream::start().await.unwrap();
    let big = "x".repeat(64 * 1024);
    let count = 1000;
    upstream.push(Script::say(vec![big; count]));
    let tcp = raw(&upstream, &stream(false)).await;
    upstream
        .wait_for(|log| log.requests.first().is_some_and(|r| r.events_written > 2))
        .await
        .unwrap();
    // 64 MB do not fit into any socket buffer: the caller leaves while the script still has most of it.
    drop(tcp);
    upstream
        .wait_for(|log| log.count(Outcome::CallerLeft) == 1)
        .await
        .unwrap();
    assert!(upstream.log().requests[0].events_written < count as u64);
}
