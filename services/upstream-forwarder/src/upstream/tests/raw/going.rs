//! HTTP/2 upstreams that take no more streams just when one is opened.

use h2::{Reason, server};
use tokio::sync::Notify;

use super::*;

/// How a connection treats the second request.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// It says that it goes, and that it has not looked at it.
    Goes(Reason),
    /// It refuses this one alone.
    Refuses(Reason),
}

/// Answers one request on the first connection and ends it so; answers all on the next.
async fn upstream(ends: Ends, tls: TlsAcceptor, look_away: Arc<Notify>, end: Arc<Notify>) -> Uri {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut first = server::handshake(tls.accept(tcp).await.unwrap())
            .await
            .unwrap();
        answer(first.accept().await);
        tokio::select! {
            _ = first.accept() => panic!("it looks away before"),
            () = look_away.notified() => {}
        }
        end.notified().await;
        match ends {
            Ends::Goes(reason) => first.abrupt_shutdown(reason),
            Ends::Refuses(reason) => {
                let (_, mut second) = first.accept().await.unwrap().unwrap();
                second.send_reset(reason);
            }
        }
        let going = async move { while first.accept().await.is_some() {} };
        tokio::spawn(going);
        let (tcp, _) = listener.accept().await.unwrap();
        let mut next = server::handshake(tls.accept(tcp).await.unwrap())
            .await
            .unwrap();
        while let Some(asked) = next.accept().await {
            answer(Some(asked));
        }
    });
    format!("https://localhost:{port}/").parse().unwrap()
}

type Asked = Result<(Request<h2::RecvStream>, server::SendResponse<Bytes>), h2::Error>;

fn answer(asked: Option<Asked>) {
    let (_, mut respond) = asked.unwrap().unwrap();
    respond.send_response(Response::new(()), true).unwrap();
}

#[tokio::test]
async fn a_stream_that_a_connection_does_not_take_any_more_is_no_failed_upstream() {
    for (ends, worn) in [
        (Ends::Goes(Reason::NO_ERROR), true),
        (Ends::Goes(Reason::INTERNAL_ERROR), false),
        (Ends::Refuses(Reason::REFUSED_STREAM), true),
        (Ends::Refuses(Reason::INTERNAL_ERROR), false),
    ] {
        let (server, trusting) = certified();
        let (look_away, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let tls = TlsAcceptor::from(server);
        let url = upstream(ends, tls, Arc::clone(&look_away), Arc::clone(&end)).await;
        let config = config::Upstream::default();
        let upstreams = Upstreams::with_tls(&config, &Lifecycle::new(), trusting);
        assert_eq!(whole(&upstreams, url.clone()).await.unwrap(), "");
        look_away.notify_one();
        events_are_seen().await;

        let sent = Sent::new();
        let body = Outgoing::new(
            Bytes::from_static(b"{}"),
            Arc::clone(&sent),
            Box::new(|| ()),
        );
        let (needs, request) = (needs(), post(url.clone()).map(|_| body));
        let mut sending = Box::pin(upstreams.send(&needs, request));
        while !sent.all() {
            assert!(futures_util::poll!(&mut sending).is_pending());
            tokio::task::yield_now().await;
        }
        events_are_seen().await;
        end.notify_one();
        let failed = sending.await.err().unwrap();
        assert_eq!(
            matches!(failed, SendError::Worn(_)),
            worn,
            "{ends:?}: {failed:?}"
        );
        let fresh = Needs {
            fresh: true,
            ..needs
        };
        let again = upstreams.send(&fresh, post(url)).await;
        assert_eq!(again.unwrap().status(), 200, "{ends:?}");
    }
}

#[tokio::test]
async fn a_connection_that_goes_gently_ends_its_streams_and_gets_no_more() {
    let (server, trusting) = certified();
    let tls = TlsAcceptor::from(server);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (go, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (going, ending) = (Arc::clone(&go), Arc::clone(&end));
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut first = server::handshake(tls.accept(tcp).await.unwrap())
            .await
            .unwrap();
        let (_, mut respond) = first.accept().await.unwrap().unwrap();
        let mut long = respond.send_response(Response::new(()), false).unwrap();
        tokio::spawn(async move {
            tokio::select! {
                _ = first.accept() => panic!("nothing is asked before"),
                () = going.notified() => first.graceful_shutdown(),
            }
            while first.accept().await.is_some() {}
        });
        let (tcp, _) = listener.accept().await.unwrap();
        let mut next = server::handshake(tls.accept(tcp).await.unwrap())
            .await
            .unwrap();
        tokio::spawn(async move {
            while let Some(asked) = next.accept().await {
                answer(Some(asked));
            }
        });
        ending.notified().await;
        long.send_data("the end".into(), true).unwrap();
    });
    let url: Uri = format!("https://localhost:{port}/").parse().unwrap();
    let config = config::Upstream::default();
    let upstreams = Upstreams::with_tls(&config, &Lifecycle::new(), trusting);
    let long = upstreams.send(&needs(), post(url.clone())).await.unwrap();
    go.notify_one();
    // It says that it goes, is asked whether that was heard, and says so again.
    for _ in 0..10 {
        events_are_seen().await;
    }
    for _ in 0..3 {
        assert_eq!(whole(&upstreams, url.clone()).await.unwrap(), "");
    }
    end.notify_one();
    let body = long.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "the end");
    until(&upstreams, 1, 1).await;
}
