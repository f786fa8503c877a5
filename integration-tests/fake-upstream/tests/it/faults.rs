//! What goes wrong when a script says so.

use fake_upstream::{FakeUpstream, Gate, Outcome, Script, nobody_listens};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{Client, frames, raw, read, stream, whole};

#[tokio::test]
async fn a_reset_in_mid_stream_comes_after_all_bytes_before_it() {
    let upstream = FakeUpstream::start().await.unwrap();
    upstream.push(Script::tokens(5).reset_after(2));
    let mut tcp = raw(&upstream, &stream(false)).await;
    let mut seen = Vec::new();
    let error = loop {
        let mut buffer = [0; 4096];
        match tcp.read(&mut buffer).await {
            Ok(0) => panic!("a clean end instead of a reset"),
            Ok(n) => seen.extend_from_slice(&buffer[..n]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let text = String::from_utf8(seen).unwrap();
    assert!(text.contains("tok1") && !text.contains("tok2"), "{text}");
    upstream
        .wait_for(|log| log.count(Outcome::Cut) == 1 && log.in_flight == 0)
        .await
        .unwrap();
    assert_eq!(upstream.served()[0].usage.completion, 2);
}

#[tokio::test]
async fn cuts_of_every_kind_break_the_body() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    for script in [
        Script::tokens(5).close_after(2),
        Script::tokens(5).reset_at_byte(700),
    ] {
        upstream.push(script);
        let (frames, well) = frames(client.chat(&stream(false)).await.unwrap()).await;
        assert!(!well && !frames.is_empty());
    }
    upstream.push(Script::new().close_after(1));
    let (half, well) = frames(client.chat(&whole()).await.unwrap()).await;
    assert!(!well);
    assert!(half.concat().starts_with(b"{\"id\""));

    upstream.push(Script::tokens(5).reset_at_byte(700));
    let response = client.chat(&stream(false)).await.unwrap();
    let (seen, _) = frames(response).await;
    assert_eq!(seen.concat().len(), 700);
}

#[tokio::test]
async fn an_end_in_mid_stream_is_clean_and_has_no_done() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    upstream.push(Script::tokens(5).end_after(2));
    let (seen, well) = frames(client.chat(&stream(false)).await.unwrap()).await;
    assert!(well);
    let text = String::from_utf8(seen.concat()).unwrap();
    assert!(text.contains("tok1") && !text.contains("tok2") && !text.contains("DONE"));
}

#[tokio::test]
async fn no_answer_at_all() {
    let upstream = FakeUpstream::start().await.unwrap();
    for (script, reset) in [(Script::reset(), true), (Script::close(), false)] {
        upstream.push(script);
        let mut tcp = raw(&upstream, &whole()).await;
        let end = tcp.read(&mut [0; 64]).await;
        assert_eq!(end.is_err(), reset, "{end:?}");
    }
    upstream.push(Script::raw("HTTP/1.1 2x0 what\r\n\r\n"));
    let mut seen = String::new();
    raw(&upstream, &whole())
        .await
        .read_to_string(&mut seen)
        .await
        .unwrap();
    assert_eq!(seen, "HTTP/1.1 2x0 what\r\n\r\n");

    let (addr, _reserved) = nobody_listens().unwrap();
    let refused = TcpStream::connect(addr).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_hanging_request_ends_when_its_caller_leaves() {
    for http2 in [false, true] {
        let upstream = FakeUpstream::start().await.unwrap();
        let client = if http2 {
            Client::http2(&upstream)
        } else {
            Client::new(&upstream)
        };
        upstream.push(Script::hang());
        let mut waiting = JoinSet::new();
        let caller = client.clone();
        waiting.spawn(async move { caller.chat(&whole()).await.map(drop) });
        upstream
            .wait_for(|log| log.in_flight == 1 && log.requests.len() == 1)
            .await
            .unwrap();
        waiting.abort_all();
        upstream.wait_for(|log| log.in_flight == 0).await.unwrap();
        assert_eq!(
            upstream.log().requests[0].outcome,
            Some(Outcome::CallerLeft)
        );

        upstream.push(Script::tokens(5).hang_after(2));
        let response = client.chat(&stream(false)).await.unwrap();
        upstream
            .wait_for(|log| log.requests[1].events_written == 3)
            .await
            .unwrap();
        drop(response);
        upstream
            .wait_for(|log| log.count(Outcome::CallerLeft) == 2)
            .await
            .unwrap();
        assert_eq!(upstream.served()[1].usage.completion, 2);
    }
}

#[tokio::test]
async fn a_gate_holds_the_answer_where_the_script_says() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let (head, middle) = (Gate::new(), Gate::new());
    upstream.push(Script::tokens(3).gate(&head).gate_after(1, &middle));
    let mut answer = JoinSet::new();
    answer.spawn(async move { read(client.chat(&stream(false)).await.unwrap()).await });
    head.reached(1).await;
    assert_eq!(upstream.log().requests[0].events_written, 0);
    head.let_pass(1);
    middle.reached(1).await;
    assert_eq!(upstream.log().requests[0].events_written, 2);
    assert_eq!(upstream.log().requests[0].outcome, None);
    middle.open();
    assert!(
        answer
            .join_next()
            .await
            .unwrap()
            .unwrap()
            .ends_with(b"[DONE]\n\n")
    );
    assert_eq!(upstream.log().requests[0].outcome, Some(Outcome::Completed));
}

#[tokio::test]
async fn stopping_closes_everything() {
    let upstream = FakeUpstream::start().await.unwrap();
    upstream.default(Script::hang());
    let mut tcp = raw(&upstream, &whole()).await;
    upstream.wait_for(|log| log.in_flight == 1).await.unwrap();
    let addr = upstream.addr();
    upstream.stop().await;
    assert!(matches!(tcp.read(&mut [0; 8]).await, Ok(0) | Err(_)));
    assert!(TcpStream::connect(addr).await.is_err());
}
