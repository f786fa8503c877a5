//! What upstreams say, and what becomes of the connection after it.

use super::*;

#[tokio::test]
async fn each_request_gets_its_own_answer_whatever_came_with_the_one_before() {
    let close = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let extra = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    let with = |first: &'static str, then: &str| -> &'static str {
        Box::leak(format!("{first}{then}").into_boxed_str())
    };
    for (what, said, status, body, again) in [
        ("a plain answer", OK, 200, "ok", true),
        ("it will close", close, 200, "ok", false),
        (
            "HTTP/1.0",
            "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
            200,
            "ok",
            false,
        ),
        (
            "HTTP/1.0 that stays",
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
            200,
            "ok",
            true,
        ),
        (
            "news before the answer",
            with(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
                OK,
            ),
            200,
            "ok",
            true,
        ),
        (
            "no content",
            "HTTP/1.1 204 No Content\r\n\r\n",
            204,
            "",
            true,
        ),
        (
            "no content, with content",
            "HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nevil",
            204,
            "",
            false,
        ),
        (
            "not modified, with content",
            with("HTTP/1.1 304 Not Modified\r\n\r\n", extra),
            304,
            "",
            false,
        ),
        ("a second answer", with(OK, extra), 200, "ok", false),
        ("line ends behind it", with(OK, "\r\n"), 200, "ok", false),
        (
            "chunks with extensions and trailers",
            with(
                chunked,
                "1;name=value\r\no\r\n0000001\r\nk\r\n0\r\nx-trailer: yes\r\n\r\n",
            ),
            200,
            "ok",
            true,
        ),
        (
            "more behind the last chunk",
            with(chunked, "2\r\nok\r\n0\r\n\r\n4\r\nevil\r\n0\r\n\r\n"),
            200,
            "ok",
            false,
        ),
        (
            "nothing, in chunks",
            with(chunked, "0\r\n\r\n"),
            200,
            "",
            true,
        ),
        (
            "two lengths that agree",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
            200,
            "ok",
            true,
        ),
        (
            "an error without a body",
            "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
            500,
            "",
            true,
        ),
        (
            "an upgrade that nobody asked for",
            with(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
                extra,
            ),
            101,
            "",
            false,
        ),
        (
            "a length beside chunks",
            "HTTP/1.1 200 OK\r\ncontent-length: 40\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            200,
            "ok",
            true,
        ),
    ] {
        for dribbled in [false, true] {
            let say = if dribbled { Dribble(said) } else { Say(said) };
            let first = vec![Read, say, Read, Say(TWO), Stay];
            let raw = Raw::start(vec![first, vec![Read, Say(TWO), Stay]]).await;
            let upstreams = upstreams(|_| ());
            let answer = call(&upstreams, raw.url()).await.unwrap();
            assert_eq!(answer, fine(status, body), "{what}, dribbled {dribbled}");
            if dribbled && !again {
                // What follows may not have come yet when the answer was whole.
                for _ in said.as_bytes() {
                    tokio::task::yield_now().await;
                }
                events_are_seen().await;
            }
            let second = call(&upstreams, raw.url()).await.unwrap();
            assert_eq!(second, fine(200, "two"), "{what}, dribbled {dribbled}");
            assert_eq!(raw.opened(), 2 - usize::from(again), "{what}, {dribbled}");
            until(&upstreams, 1, 1).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_and_its_connection_is_not_used_again() {
    let large: &'static str = Box::leak(
        format!(
            "HTTP/1.1 200 OK\r\nx-large: {}\r\ncontent-length: 2\r\n\r\nok",
            "a".repeat(1 << 20)
        )
        .into_boxed_str(),
    );
    let many: &'static str = Box::leak(
        format!(
            "HTTP/1.1 200 OK\r\n{}content-length: 2\r\n\r\nok",
            "x-many: a\r\n".repeat(5_000)
        )
        .into_boxed_str(),
    );
    for (what, said, headed) in [
        ("no HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n", false),
        ("a head that ends", "HTTP/1.1 200 OK\r\ncontent-le", false),
        ("nothing", "", false),
        ("a huge head", large, false),
        ("a head of many lines", many, false),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
            false,
        ),
        (
            "a length that is none",
            "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
            false,
        ),
        (
            "fewer bytes than promised",
            "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nok",
            true,
        ),
        (
            "a chunk's size that is none",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
            true,
        ),
        (
            "a chunk's size without end",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nok\r\n0\r\n\r\n",
            true,
        ),
        (
            "chunks without an end",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
            true,
        ),
    ] {
        let raw = Raw::start(vec![vec![Read, Say(said)], vec![Read, Say(TWO), Stay]]).await;
        let upstreams = upstreams(|_| ());
        let answer = call(&upstreams, raw.url()).await;
        match answer {
            Ok((200, body)) => {
                assert!(headed, "{what}: {body:?}");
                assert!(body.is_err(), "{what}: {body:?}");
            }
            Ok(other) => panic!("{what}: {other:?}"),
            Err(error) => {
                assert!(!headed, "{what}: {error}");
                assert!(matches!(error, SendError::Network(_)), "{what}: {error:?}");
            }
        }
        let second = call(&upstreams, raw.url()).await.unwrap();
        assert_eq!(second, fine(200, "two"), "{what}");
        assert_eq!(raw.opened(), 2, "{what}");
    }
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    for (head, body) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "as it is"),
        (
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\n",
            "as it is",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ncontent-length: 2\r\n\r\n",
            "as it is",
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", ""),
    ] {
        let scripts = vec![
            vec![Read, Say(head), Dribble(body)],
            vec![Read, Say(TWO), Stay],
        ];
        let raw = Raw::start(scripts).await;
        let upstreams = upstreams(|_| ());
        assert_eq!(
            call(&upstreams, raw.url()).await.unwrap(),
            fine(200, body),
            "{head:?}"
        );
        assert_eq!(upstreams.connections(), Connections::default());
        assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
        assert_eq!(raw.opened(), 2);
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_whatever_its_length() {
    let length = Say("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n");
    let chunks = Say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    let raw = Raw::start(vec![vec![Read, length, Read, chunks, Read, Say(TWO), Stay]]).await;
    let upstreams = upstreams(|_| ());
    for _ in 0..2 {
        let mut request = post(raw.url());
        *request.method_mut() = http::Method::HEAD;
        let answer = upstreams.send(&needs(), request).await.unwrap();
        assert_eq!(upstreams.connections(), Connections { open: 1, idle: 1 });
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "");
    }
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
    assert_eq!(raw.opened(), 1);
}

#[tokio::test]
async fn chunks_that_come_together_are_one_piece_and_the_last_one_frees_the_connection() {
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned()
        + &"3\r\nabc\r\n".repeat(500)
        + "0\r\n\r\n";
    let chunks: &'static str = Box::leak(chunks.into_boxed_str());
    let raw = Raw::start(vec![vec![Read, Say(chunks), Stay]]).await;
    let upstreams = upstreams(|_| ());
    let answer = upstreams.send(&needs(), post(raw.url())).await.unwrap();
    assert_eq!(upstreams.connections(), Connections { open: 1, idle: 0 });
    let mut body = answer.into_body();
    let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(piece, "abc".repeat(500));
    assert_eq!(upstreams.connections(), Connections { open: 1, idle: 1 });
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn what_came_before_a_fault_is_read_before_it_and_nothing_after_it() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (what, fault) in [
        ("no size", "2\r\nok\r\nzz\r\n2\r\nno\r\n0\r\n\r\n"),
        ("its end", "5\r\nok"),
        ("a longer chunk", "2\r\nok!\r\n0\r\n\r\n"),
    ] {
        let said: &'static str = Box::leak(format!("{chunked}{fault}").into_boxed_str());
        let raw = Raw::start(vec![vec![Read, Say(said)]]).await;
        let upstreams = upstreams(|_| ());
        let answer = upstreams.send(&needs(), post(raw.url())).await.unwrap();
        let mut body = answer.into_body();
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece, "ok", "{what}");
        assert!(body.frame().await.unwrap().is_err(), "{what}");
        assert_eq!(upstreams.connections(), Connections::default(), "{what}");
        assert!(body.frame().await.is_none(), "{what}");
    }
}
