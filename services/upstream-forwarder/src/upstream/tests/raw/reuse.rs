//! Connections that end, are used again or are spoken over at the wrong moment.

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::*;
use crate::upstream::{
    dial::Wire,
    lease::{Lease, Unsent},
    pool::{Key, Pool},
};

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_noticed_when_it_is_taken() {
    let script = || vec![Read, Say(OK)];
    let raw = Raw::start(vec![script(), script(), script()]).await;
    let upstreams = upstreams(|_| ());
    for opened in 1..=3 {
        assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "ok"));
        assert_eq!((raw.opened(), raw.heard()), (opened, opened));
        // Nobody sweeps meanwhile.
        raw.one_ended().await;
    }
}

#[tokio::test]
async fn all_idle_connections_that_were_closed_are_noticed_when_one_is_taken() {
    let script = || vec![Read, Wait, Say(OK)];
    // More than a task may look at in one turn.
    let mut scripts: Vec<_> = (0..200).map(|_| script()).collect();
    scripts.push(vec![Read, Say(TWO), Stay]);
    let raw = Raw::start(scripts).await;
    let upstreams = upstreams(|_| ());
    let calls = (0..200).map(|_| call(&upstreams, raw.url()));
    let mut calls = futures_util::future::join_all(calls);
    while raw.heard() < 200 {
        assert!(futures_util::poll!(&mut calls).is_pending());
        tokio::task::yield_now().await;
    }
    raw.go.add_permits(200);
    for answer in calls.await {
        assert_eq!(answer.unwrap(), fine(200, "ok"));
    }
    for _ in 0..200 {
        raw.one_ended().await;
    }
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
    assert_eq!((raw.opened(), raw.heard()), (201, 201));
    until(&upstreams, 1, 1).await;
}

#[tokio::test]
async fn over_tls_too_an_idle_connection_that_was_closed_is_noticed() {
    let (server, trusting) = certified();
    let mut server = (*server).clone();
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = TlsAcceptor::from(Arc::new(server));
    let scripts = vec![
        vec![Read, Say(OK), Read, Say(OK)],
        vec![Read, Say(OK), Wait, Say("HTTP/1.1 200 OK\r\n\r\n"), Stay],
        vec![Read, Say(TWO), Stay],
    ];
    let raw = Raw::over(scripts, Some(tls)).await;
    let config = config::Upstream::default();
    let upstreams = Upstreams::with_tls(&config, &Lifecycle::new(), trusting);
    let url: Uri = format!("https://localhost:{}/", raw.address.port())
        .parse()
        .unwrap();
    for _ in 0..2 {
        assert_eq!(
            call(&upstreams, url.clone()).await.unwrap(),
            fine(200, "ok")
        );
        assert_eq!(raw.opened(), 1);
    }
    raw.one_ended().await;
    assert_eq!(
        call(&upstreams, url.clone()).await.unwrap(),
        fine(200, "ok")
    );
    raw.go().await;
    assert_eq!(call(&upstreams, url).await.unwrap(), fine(200, "two"));
    assert_eq!((raw.opened(), raw.heard()), (3, 4));
}

#[tokio::test]
async fn a_connection_that_is_closed_just_when_it_is_used_is_told_from_one_that_fails() {
    let scripts = vec![
        vec![Read, Say(OK), Read],
        vec![Read, Say(OK), Read, Reset],
        vec![Read, Say(OK), Read, Say("HTTP/9 what\r\n\r\n"), Stay],
        // What it began to answer it did not close as idle.
        vec![Read, Say(OK), Read, Say("HTTP/1.1 103 x\r\n\r\n")],
        vec![Read, Say(OK), Read, Say("HTTP/1.1 20")],
        vec![Read],
        vec![Read, Reset],
        vec![Read, Say(TWO), Stay],
    ];
    let raw = Raw::start(scripts).await;
    let upstreams = upstreams(|_| ());
    for worn in [true, true, false, false, false] {
        assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "ok"));
        let failed = call(&upstreams, raw.url()).await.unwrap_err();
        let is_worn = matches!(failed, SendError::Worn(_));
        assert_eq!(is_worn, worn, "{failed:?}");
    }
    // A new one is not closed as idle.
    for _ in 0..2 {
        let failed = call(&upstreams, raw.url()).await.unwrap_err();
        assert!(matches!(failed, SendError::Network(_)), "{failed:?}");
    }
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
    let fresh = Needs {
        fresh: true,
        ..needs()
    };
    let refused = upstreams.send(&fresh, post(raw.url()));
    let refused = tokio::time::timeout(Duration::from_secs(20), refused).await;
    // Nobody accepts a ninth connection, and the idle one is left alone.
    assert!(refused.unwrap().is_err());
    assert_eq!((raw.opened(), raw.heard()), (8, 13));
}

#[tokio::test]
async fn what_an_upstream_says_unasked_ends_an_idle_connection() {
    let evil = Say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
    let first = vec![Read, Say(OK), Wait, evil, Read, evil];
    let raw = Raw::start(vec![first, vec![Read, Say(TWO), Stay]]).await;
    let upstreams = upstreams(|_| ());
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "ok"));
    raw.go().await;
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
    assert_eq!((raw.opened(), raw.heard()), (2, 2));
}

#[tokio::test]
async fn a_reset_in_an_answer_is_an_error_and_one_of_an_idle_connection_is_none() {
    let part = Say("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nok");
    let scripts = vec![
        vec![Read, part, Wait, Reset],
        vec![Read, Say(OK), Wait, Reset],
        vec![Read, Say(TWO), Stay],
    ];
    let raw = Raw::start(scripts).await;
    let upstreams = upstreams(|_| ());
    let answer = upstreams.send(&needs(), post(raw.url())).await.unwrap();
    let mut body = answer.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "ok");
    raw.go.add_permits(1);
    assert!(body.frame().await.unwrap().is_err());
    drop(body);
    raw.one_ended().await;
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "ok"));
    raw.go.add_permits(1);
    raw.one_ended().await;
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
    assert_eq!((raw.opened(), raw.heard()), (3, 3));
}

/// Larger than what sockets take in between.
fn large(url: Uri) -> Request<Outgoing> {
    let body = vec![b'a'; 16 << 20];
    post(url).map(|_| Outgoing::new(body.into(), Sent::new(), Box::new(|| ())))
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_read_is_the_answer() {
    let early = Say("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno");
    let scripts = vec![
        vec![ReadHead, early, Stall],
        vec![ReadHead, early, Wait, Stay],
        vec![Read, Say(TWO), Stay],
    ];
    let raw = Raw::start(scripts).await;
    let upstreams = upstreams(|_| ());
    for opened in 1..=2 {
        let answer = upstreams.send(&needs(), large(raw.url())).await.unwrap();
        assert_eq!(answer.status(), 413);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((body, raw.opened()), ("no".into(), opened));
        // The rest of the body would be in the way of the next request.
        assert_eq!(upstreams.connections(), Connections { open: 0, idle: 0 });
    }
    assert_eq!(call(&upstreams, raw.url()).await.unwrap(), fine(200, "two"));
}

#[tokio::test]
async fn a_request_that_is_not_read_is_not_sent() {
    let raw = Raw::start(vec![vec![ReadHead, Wait, Stay]]).await;
    let upstreams = upstreams(|_| ());
    let sent = Sent::new();
    let body = Outgoing::new(
        vec![b'a'; 16 << 20].into(),
        Arc::clone(&sent),
        Box::new(|| ()),
    );
    let (needs, request) = (needs(), post(raw.url()).map(|_| body));
    let mut sending = Box::pin(upstreams.send(&needs, request));
    while raw.heard() == 0 {
        assert!(futures_util::poll!(&mut sending).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(sent.connected().is_some() && !sent.all());
    // It is read, and nothing answered.
    raw.go.add_permits(1);
    while !sent.all() {
        assert!(futures_util::poll!(&mut sending).is_pending());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_upstream_that_answers_early_and_closes_has_answered() {
    let early = "HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno";
    let scripts = (0..10).map(|_| vec![ReadHead, Say(early)]).collect();
    let raw = Raw::start(scripts).await;
    let upstreams = upstreams(|_| ());
    for _ in 0..10 {
        let answer = upstreams.send(&needs(), large(raw.url())).await;
        assert_eq!(answer.unwrap().status(), 413);
    }
}

#[tokio::test]
async fn a_request_without_a_body_is_sent_as_well() {
    let script = || vec![Read, Say(OK), Stay];
    let raw = Raw::start(vec![script(), script()]).await;
    let upstreams = upstreams(|_| ());
    for method in [http::Method::GET, http::Method::POST] {
        let (sent, then) = (Sent::new(), Arc::new(Semaphore::new(0)));
        let noted = Arc::clone(&then);
        let note = Box::new(move || noted.add_permits(1));
        let body = Outgoing::new(Bytes::new(), Arc::clone(&sent), note);
        let mut request = post(raw.url()).map(|_| body);
        *request.method_mut() = method;
        upstreams.send(&needs(), request).await.unwrap();
        assert!(sent.connected().is_some() && sent.all());
        assert_eq!(then.available_permits(), 1);
    }
}

#[tokio::test]
async fn a_request_that_a_closed_connection_gives_back_was_not_sent_even_without_a_body() {
    let (stream, other_side) = tokio::io::duplex(64);
    drop(other_side);
    let wire = Wire {
        stream: Box::new(stream),
        shared: false,
    };
    let config = config::Upstream::default();
    let url: Uri = "http://up.example/".parse().unwrap();
    let key = Key::of(&url, &needs()).unwrap();
    let pool = Arc::new(Pool::new(&config));
    let lease = Lease::open(&pool, &key, wire, &config, &Lifecycle::new()).await;
    let sent = Sent::new();
    let body = Outgoing::new(Bytes::new(), Arc::clone(&sent), Box::new(|| {}));
    let request = post(url).map(|_| body);
    let answer = lease.ok().unwrap().send(request).await;
    assert!(matches!(answer, Err(Unsent::Back(..))));
    assert!(sent.connected().is_none() && !sent.all());
}

/// The runtime lets a task do so much in one turn. An answer that is there when that is used up must not wait for something
/// else to happen on its connection.
#[tokio::test]
async fn an_answer_that_comes_when_the_tasks_turn_is_used_up_is_heard_in_the_next() {
    let begun = Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok");
    for used in 110..=130 {
        let raw = Raw::start(vec![vec![Read, Wait, begun, Stay]]).await;
        let upstreams = upstreams(|_| ());
        let needs = needs();
        let mut sending = Box::pin(upstreams.send(&needs, post(raw.url())));
        while raw.heard() == 0 {
            assert!(futures_util::poll!(&mut sending).is_pending());
            tokio::task::yield_now().await;
        }
        raw.go().await;
        tokio::task::yield_now().await;
        for _ in 0..used {
            tokio::task::coop::consume_budget().await;
        }
        // Looked at again only when it says so itself.
        let mut answers: FuturesUnordered<_> = [sending].into_iter().collect();
        let answer = tokio::time::timeout(Duration::from_secs(20), answers.next()).await;
        let answer = answer.unwrap_or_else(|_| panic!("unheard after {used} steps"));
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
}
