//! Channels to a role's processes, balanced by open streams.
//!
//! tonic's own balancer picks at random and one HTTP/2 connection pins everything to one process; here the channel with
//! the fewest open streams is chosen, counted until the answer's stream has ended. A peer that cannot be reached is left
//! alone for a moment when another can be.
//!
//! Callers that leave cancel their streams while more is on its way. That is nobody's error, and no number of them may end the
//! connection that the others share: `h2`'s bound on errors, 1,024 in a connection's life, is off between our own processes.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{
    Status,
    body::Body,
    transport::{Channel, Endpoint},
};
use tower::{Service, ServiceExt as _};

use super::{GrpcConfig, Role, Rpc, ServiceTokens, context::inject_trace, token::HEADER};
use crate::http2::{CONNECTION_WINDOW, REMEMBERED_STREAMS};

/// How long an unreachable peer is passed over while others can be reached.
const PASS_OVER: Duration = Duration::from_millis(500);

const NOT_SENT: &str = "x-switchboard-not-sent";

/// Whether a failed call never left this process, so that it may be made again.
#[must_use]
pub fn not_sent(status: &Status) -> bool {
    status.metadata().contains_key(NOT_SENT)
}

/// A transport to the processes of a role at `peers` (`http://host:port` or `unix:///path`), as `role`. Connections are
/// made when first needed, so that start order does not matter.
///
/// # Errors
/// A peer's address is malformed, or there is none.
pub fn remote(
    peers: &[String],
    role: Role,
    tokens: ServiceTokens,
    config: &GrpcConfig,
) -> Result<Rpc, String> {
    if peers.is_empty() {
        return Err("expected at least one address".to_owned());
    }
    let mut balanced = Vec::new();
    for peer in peers {
        let endpoint = endpoint(peer)?
            .connect_timeout(config.connect_timeout)
            .initial_stream_window_size(config.stream_window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_concurrent_reset_streams(REMEMBERED_STREAMS)
            .http2_max_local_error_reset_streams(None)
            .http2_keep_alive_interval(config.keep_alive)
            .keep_alive_timeout(config.keep_alive_timeout)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        balanced.push(Peer {
            endpoint,
            lines: Mutex::default(),
            passed_over_until: Mutex::new(None),
        });
    }
    Ok(Rpc::new(Remote {
        peers: balanced.into(),
        role,
        tokens,
        streams_per_line: config.streams_per_connection,
        lines_per_peer: config.connections_per_peer as usize,
    }))
}

/// Whether a text can be an address of a peer.
///
/// # Errors
/// What was expected.
pub fn check_peer(peer: &str) -> Result<(), String> {
    endpoint(peer).map(drop)
}

fn endpoint(peer: &str) -> Result<Endpoint, String> {
    let uri = if peer.contains(':') && !peer.contains("://") && !peer.starts_with("unix:") {
        format!("http://{peer}")
    } else if let Some(path) = peer.strip_prefix("unix:") {
        format!("unix://{}", path.strip_prefix("//").unwrap_or(path))
    } else {
        peer.to_owned()
    };
    Endpoint::from_shared(uri)
        .map_err(|_| format!("`{peer}` is no address; expected http://HOST:PORT or unix:/path"))
}

struct Peer {
    endpoint: Endpoint,
    lines: Mutex<Vec<Line>>,
    passed_over_until: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Line {
    channel: Channel,
    open: Arc<AtomicU32>,
}

#[derive(Clone)]
struct Remote {
    peers: Arc<[Peer]>,
    role: Role,
    tokens: ServiceTokens,
    streams_per_line: u32,
    lines_per_peer: usize,
}

impl Remote {
    /// The peer with the fewest open streams, and its least busy connection; a full one gets a sister.
    fn choose(&self) -> Option<(usize, Line)> {
        let now = Instant::now();
        let (index, peer) = self.peers.iter().enumerate().min_by_key(|(_, peer)| {
            let passed_over = peer
                .passed_over_until
                .lock()
                .is_some_and(|until| until > now);
            let open: u32 = peer
                .lines
                .lock()
                .iter()
                .map(|line| line.open.load(Ordering::Relaxed))
                .sum();
            (passed_over, open)
        })?;
        let mut lines = peer.lines.lock();
        let best = lines
            .iter()
            .min_by_key(|line| line.open.load(Ordering::Relaxed))
            .cloned();
        let line = match best {
            Some(line)
                if line.open.load(Ordering::Relaxed) < self.streams_per_line
                    || lines.len() >= self.lines_per_peer =>
            {
                line
            }
            _ => {
                let line = Line {
                    channel: peer.endpoint.connect_lazy(),
                    open: Arc::default(),
                };
                lines.push(line.clone());
                line
            }
        };
        Some((index, line))
    }
}

impl Service<Request<Body>> for Remote {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some((index, line)) = self.choose() else {
            return Box::pin(std::future::ready(Ok(Status::unavailable(
                "no peer is configured",
            )
            .into_http())));
        };
        inject_trace(request.headers_mut());
        request
            .headers_mut()
            .insert(HEADER, self.tokens.token(self.role));
        let open = Open::count(line.open);
        let peers = Arc::clone(&self.peers);
        Box::pin(async move {
            match line.channel.oneshot(request).await {
                Ok(response) => {
                    *peers[index].passed_over_until.lock() = None;
                    Ok(response.map(|body| Body::new(Counted { body, _open: open })))
                }
                Err(error) => {
                    if !never_left(&error) {
                        return Err(Status::from_error(error.into()));
                    }
                    *peers[index].passed_over_until.lock() = Some(Instant::now() + PASS_OVER);
                    let mut status = Status::unavailable("peer cannot be reached");
                    status
                        .metadata_mut()
                        .insert(NOT_SENT, tonic::metadata::MetadataValue::from_static("1"));
                    Ok(status.into_http())
                }
            }
        })
    }
}

/// The connection itself failed: no byte of the call went out.
fn never_left(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// One open stream; gone when dropped.
struct Open(Arc<AtomicU32>);

impl Open {
    fn count(open: Arc<AtomicU32>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Counted {
    body: Body,
    _open: Open,
}

impl http_body::Body for Counted {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
