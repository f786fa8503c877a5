//! The bare one-hop proxy: a hyper server over hyper-util's pooled client, keep-alive on both sides, bodies streamed, each
//! chunk written as it comes. It checks nothing, counts nothing, knows nobody: the least that any gateway in Rust costs.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Upstream = Client<HttpConnector, Incoming>;

/// Serves until the process ends.
pub fn run(upstream: SocketAddr) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(upstream))
}

async fn serve(upstream: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "LISTENING {}", listener.local_addr()?)?;
    stdout.flush()?;

    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Upstream = Client::builder(TokioExecutor::new()).build(connector);
    let authority: Authority = upstream.to_string().parse()?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        stream.set_nodelay(true)?;
        let (client, authority) = (client.clone(), authority.clone());
        connections.spawn(async move {
            let service = service_fn(|request| forward(&client, &authority, request));
            // A connection that breaks is its caller's end.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(
    client: &Upstream,
    authority: &Authority,
    mut request: Request<Incoming>,
) -> anyhow::Result<Response<Incoming>> {
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(authority.clone());
    *request.uri_mut() = Uri::from_parts(uri)?;
    request.headers_mut().remove(header::HOST);
    Ok(client.request(request).await?)
}
