//! Connections: accepted within a bound, served over HTTP/1.1 and HTTP/2, ended gently.

use std::{future::ready, net::SocketAddr, sync::Arc};

use axum::{Router, extract::ConnectInfo, http::Request};
use futures_util::future::Either;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use switchboard_common::lifecycle::Lifecycle;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tower::Service as _;

use crate::{
    Config,
    linger::Patience,
    unread::{Manners, Polite},
};

/// Accepts until the lifecycle stops, then lets what runs finish until it is killed.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    manners: Manners,
    lifecycle: Lifecycle,
) {
    let Manners {
        config, observed, ..
    } = manners.clone();
    let places = Arc::new(Semaphore::new(config.connections));
    let builder = builder(&config);
    let patience = Patience {
        bytes: config.refused_bytes,
        time: config.refused_timeout,
        lifecycle: lifecycle.clone(),
    };
    let graceful = GracefulShutdown::new();
    let (stopping, killed) = (lifecycle.stopping(), lifecycle.killed());
    loop {
        let place = tokio::select! {
            () = stopping.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let accepted = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => {
                // Each event is a write of its own: waiting to fill a segment would delay every token.
                let _ = stream.set_nodelay(true);
                (stream, peer)
            }
            Err(error) => {
                // Out of descriptors, mostly: a pause lets some come back.
                tracing::warn!(%error, "connection cannot be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let connection = serve(
            &builder,
            stream,
            peer,
            &manners,
            router.clone(),
            patience.clone(),
        );
        let connection = graceful.watch(connection);
        let counted = observed.connected();
        let killed = killed.clone();
        lifecycle.spawn("http connection", async move {
            // Callers break connections as they please; that is no failure of ours.
            tokio::select! {
                _ = connection => {}
                () = killed.cancelled() => {}
            }
            drop((counted, place));
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = killed.cancelled() => {}
    }
}

/// Requests of one HTTP/2 connection that may run at once.
const STREAMS: u32 = 1_000;

fn builder(config: &Config) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_headers(config.header_count)
        .max_buf_size(config.header_bytes.max(64 * 1024))
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        // Beyond it h2 answers by itself, without a body; up to it the bound is kept in words (`too_many_headers`).
        .max_header_list_size(
            u32::try_from(config.header_bytes.saturating_mul(4)).unwrap_or(u32::MAX),
        )
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(16 * 1024 * 1024)
        .max_concurrent_streams(STREAMS)
        // A balancer's connection carries the requests of many callers: those that leave at once are not to end it.
        .max_pending_accept_reset_streams(STREAMS as usize)
        // How much of a stream waits here is ours to say, not the window's of a caller that then does not read (FWD-2).
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(std::time::Duration::from_secs(30))
        .keep_alive_timeout(std::time::Duration::from_secs(20));
    builder
}

fn serve(
    builder: &auto::Builder<TokioExecutor>,
    stream: TcpStream,
    peer: SocketAddr,
    manners: &Manners,
    router: Router,
    patience: Patience,
) -> impl hyper_util::server::graceful::GracefulConnection<
    Error = Box<dyn std::error::Error + Send + Sync>,
> + use<> {
    let polite = Polite::new(stream, manners.clone());
    let manners = manners.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let refused = manners.too_many_headers(&request);
        let mut request = patience.wrap(request);
        request.extensions_mut().insert(ConnectInfo(peer));
        // A router is always ready.
        match refused {
            Some(refused) => Either::Left(ready(Ok(refused))),
            None => Either::Right(router.clone().call(request)),
        }
    });
    builder
        .serve_connection_with_upgrades(TokioIo::new(polite), service)
        .into_owned()
}
