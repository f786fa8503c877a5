//! One request's use of a connection.
//!
//! An HTTP/1.1 connection has no task of its own: who uses it drives it (`single.rs`). A shared one has, and is hyper's.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri,
    header::HOST,
    uri::{Parts, PathAndQuery},
};
use hyper::{client::conn::http2, rt::Executor};
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_common::{
    http2::{CONNECTION_WINDOW, REMEMBERED_STREAMS},
    lifecycle::Lifecycle,
};

use super::{
    Error, Outgoing,
    dial::Wire,
    incoming::Source,
    pool::{Key, Open, Pool, Sender},
    single::Single,
};
use crate::config;

/// A shared connection that is silent for this long while it has streams is asked whether it lives…
const PING_AFTER: Duration = Duration::from_secs(15);
/// …and ends when it does not answer: else every request of its host would be sent into the void.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams before the peer told its bound; as hyper takes it.
const FIRST_STREAMS: usize = 100;

/// See the module's page. Dropped, it ends its connection or stream; [`Lease::finish`] keeps the connection.
pub(super) struct Lease {
    pool: Arc<Pool>,
    key: Key,
    sender: Sender,
    /// Of a shared connection.
    _stream: Option<OneStream>,
}

/// Which shared connection.
#[derive(Clone)]
struct Place {
    pool: Arc<Pool>,
    key: Key,
    id: u64,
}

/// One stream of a shared connection, until it is dropped.
struct OneStream(Place);

impl Drop for OneStream {
    fn drop(&mut self) {
        self.0.pool.stream_ended(&self.0.key, self.0.id);
    }
}

/// A connection's task, until it is dropped.
struct Running(Place);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.pool.gone(&self.0.key, self.0.id);
    }
}

/// Runs what hyper has to run for shared connections.
#[derive(Clone)]
struct Tasks(Lifecycle);

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn("upstream stream", task);
    }
}

/// Why there is no answer.
pub(super) enum Unsent {
    /// The request as it was: nothing of it went out.
    Back(Box<Request<Outgoing>>, Error),
    /// Something of it may have gone out.
    Lost(Error),
}

impl Lease {
    /// A connection that is there.
    pub(super) fn pooled(pool: &Arc<Pool>, key: &Key) -> Option<Self> {
        Some(Self::of(pool, key, pool.take(key)?))
    }

    fn of(pool: &Arc<Pool>, key: &Key, sender: Sender) -> Self {
        let stream = |id| {
            OneStream(Place {
                pool: Arc::clone(pool),
                key: key.clone(),
                id,
            })
        };
        Self {
            _stream: match &sender {
                Sender::Single(_) => None,
                Sender::Shared(id, _) => Some(stream(*id)),
            },
            pool: Arc::clone(pool),
            key: key.clone(),
            sender,
        }
    }

    /// Makes an HTTP connection of a wire.
    ///
    /// # Errors
    /// The other side speaks no HTTP.
    pub(super) async fn open(
        pool: &Arc<Pool>,
        key: &Key,
        wire: Wire,
        config: &config::Upstream,
        lifecycle: &Lifecycle,
    ) -> Result<Self, Error> {
        if !wire.shared {
            let single = Single::open(wire.stream, pool.opened());
            if key.tls {
                pool.is_single(key);
            }
            return Ok(Self::of(pool, key, Sender::Single(single)));
        }
        let io = TokioIo::new(wire.stream);
        let (sender, mut connection) = http2::Builder::new(Tasks(lifecycle.clone()))
            .timer(TokioTimer::new())
            .initial_stream_window_size(config.stream_window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_reset_streams(REMEMBERED_STREAMS)
            .max_local_error_reset_streams(REMEMBERED_STREAMS)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(io)
            .await?;
        let fit = fitting(config);
        let most = Arc::new(AtomicUsize::new(fit.min(FIRST_STREAMS)));
        let place = Place {
            pool: Arc::clone(pool),
            key: key.clone(),
            id: pool.share(key, sender.clone(), Arc::clone(&most)),
        };
        let id = place.id;
        let connection = poll_fn(move |cx| {
            let ended = Pin::new(&mut connection).poll(cx);
            let told = connection.current_max_send_streams();
            most.store(fit.min(told), Ordering::Relaxed);
            ended
        });
        place.run(connection, pool.opened(), lifecycle);
        Ok(Self::of(pool, key, Sender::Shared(id, sender)))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn send(
        &mut self,
        mut request: Request<Outgoing>,
    ) -> Result<Response<Source>, Unsent> {
        let shared = matches!(self.sender, Sender::Shared(..));
        address(&self.key, &mut request, shared);
        let sender = match &mut self.sender {
            Sender::Single(single) => {
                let answer = single.send(request).await?;
                return Ok(answer.map(|()| Source::Single));
            }
            Sender::Shared(_, sender) => sender,
        };
        request.body_mut().begin();
        let answer = sender.try_send_request(request).await;
        let answer = answer.map_err(|mut failed| match failed.take_message() {
            Some(back) => Unsent::Back(Box::new(back), failed.into_error().into()),
            None => Unsent::Lost(failed.into_error().into()),
        })?;
        Ok(answer.map(Source::Shared))
    }

    /// The next piece of an HTTP/1.1 answer's body.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        match &mut self.sender {
            Sender::Single(single) => single.poll_body(cx).map_err(Error::Single),
            Sender::Shared(..) => Poll::Ready(None),
        }
    }

    /// An HTTP/1.1 answer was read to its end.
    pub(super) fn is_read(&self) -> bool {
        matches!(&self.sender, Sender::Single(single) if single.is_read())
    }

    /// The whole answer was read.
    pub(super) fn finish(self) {
        if let Sender::Single(single) = self.sender {
            self.pool.give_back(&self.key, single);
        }
    }
}

impl Place {
    /// Runs the connection until it ends, or no request runs any more.
    fn run(
        &self,
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
        open: Open,
        lifecycle: &Lifecycle,
    ) {
        let running = (Running(self.clone()), open);
        let closed = self.pool.closed();
        lifecycle.spawn("upstream connection", async move {
            let _running = running;
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "an upstream connection broke");
                },
                () = closed.cancelled() => {}
            }
        });
    }
}

/// Streams for which the connection's window is large enough when all of them stall: more could block each other.
fn fitting(config: &config::Upstream) -> usize {
    let fit = config.connection_window / config.stream_window.max(1);
    usize::try_from(fit).unwrap_or(usize::MAX).max(1)
}

/// Where a request goes, in the form of the protocol: the path and `host`, or the whole URL.
fn address(key: &Key, request: &mut Request<Outgoing>, shared: bool) {
    let path = request.uri().path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let mut parts = Parts::default();
    parts.path_and_query = Some(path);
    if shared {
        request.headers_mut().remove(HOST);
        parts.scheme = Some(key.scheme());
        parts.authority = Some(key.authority.clone());
    } else if let Ok(host) = HeaderValue::from_str(key.named_host()) {
        request.headers_mut().insert(HOST, host);
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
