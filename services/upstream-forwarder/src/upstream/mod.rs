//! How upstreams are reached (SPEC FWD-8, FWD-10).
//!
//! Connections under a pool of our own: it bounds idle connections over all hosts, which hyper-util's client does not, spawns
//! nothing per request, lets a request drive its own connection, and tells a proxy's failure from an upstream's. HTTP/1.1 is our
//! own as well (`http1` says why), HTTP/2 is hyper's.
//! No redirect is followed, nothing is read from the environment. HTTP/2 where TLS offers it. The time-outs of an attempt are
//! kept by who waits for it; a request that is dropped takes the connection with it that it was opening.
//!
//! Invariants: no address of a private network is called unless the account allows it, checked on what a name resolves
//! to, literal addresses included; a response that is dropped ends its connection or stream; a request is sent a second
//! time only when its connection gave it back unsent. Behind a proxy that resolves names itself (`http`, `https`, `socks5h`) only
//! literal addresses can be checked; the proxy is the operator's own and may be private.

mod address;
mod body;
mod decode;
mod dial;
mod http1;
mod incoming;
mod lease;
mod pool;
mod proxy;
mod request;
pub(crate) mod resource;
mod single;

use std::{collections::HashMap, error::Error as _, io, sync::Arc, time::Duration};

use http::{Request, Response, Uri};
use parking_lot::RwLock;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;
use switchboard_common::lifecycle::Lifecycle;
use tokio_util::sync::CancellationToken;

use self::{
    address::is_private,
    dial::Dialer,
    lease::{Lease, Unsent},
    pool::{Key, Pool},
};
pub(crate) use self::{
    body::{Outgoing, Sent},
    decode::{Decoded, Pieces},
    incoming::Incoming,
    proxy::Proxy,
    request::{Hygiene, build, for_caller},
};
use crate::config;

/// Connections to all upstreams.
pub(crate) struct Upstreams {
    config: config::Upstream,
    dialer: Dialer,
    pool: Arc<Pool>,
    lifecycle: Lifecycle,
    /// Proxies by how they are written.
    proxies: RwLock<HashMap<String, Arc<Proxy>>>,
}

/// What a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    /// Private addresses are allowed.
    pub(crate) private: bool,
    /// How long a connection may take to open.
    pub(crate) connect: Duration,
    /// None that served before.
    pub(crate) fresh: bool,
    /// Through whom.
    pub(crate) proxy: Option<Arc<Proxy>>,
}

/// Proxies that are kept; the catalogue has a handful.
const MAX_PROXIES: usize = 256;

/// Pooled connections that are tried for one request, as long as each gives it back unsent. Then a new one is opened.
const MAX_STALE: usize = 8;

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The account's address is private, or no address.
    #[error("the address may not be called")]
    Address,
    /// No connection came about.
    #[error("no connection: {1}")]
    Connect(Obstacle, Box<dyn std::error::Error + Send + Sync>),
    /// The proxy could not be reached, or refused us.
    #[error("the proxy failed: {0}")]
    Proxy(Box<dyn std::error::Error + Send + Sync>),
    /// The connection failed.
    #[error("the connection failed")]
    Network(#[from] Error),
    /// A connection that had served before ended, or took no more streams, before an answer's head was there: most likely the other
    /// side closed it as idle or too old just when it was used. What was sent over it may have been read all the same.
    #[error("an idle connection ended when it was used")]
    Worn(Error),
}

/// What stands in the way of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The name does not resolve.
    Dns,
    /// Nobody listens there.
    Refused,
    /// No way leads there.
    Unreachable,
    /// The other side speaks no TLS, or not for this name.
    Tls,
    /// It took too long.
    Late,
    /// Anything else.
    Other,
}

/// What is wrong with a connection, or an answer over it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// HTTP/1.1.
    #[error(transparent)]
    Single(#[from] http1::Error),
    /// HTTP/2.
    #[error(transparent)]
    Shared(#[from] hyper::Error),
}

/// How many connections there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connections {
    /// Open, idle ones included.
    pub(crate) open: usize,
    /// Without a request.
    pub(crate) idle: usize,
}

impl Upstreams {
    /// Reads the system's trust roots.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn new(config: &config::Upstream, lifecycle: &Lifecycle) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(io::Error::other)?
            .with_no_client_auth();
        Ok(Self::with_tls(config, lifecycle, tls))
    }

    fn with_tls(config: &config::Upstream, lifecycle: &Lifecycle, tls: ClientConfig) -> Self {
        Self {
            dialer: Dialer::new(tls),
            pool: Arc::new(Pool::new(config)),
            config: config.clone(),
            lifecycle: lifecycle.clone(),
            proxies: RwLock::default(),
        }
    }

    /// A proxy as it is written; `None`: it is no proxy's address.
    pub(crate) fn proxy(&self, text: &str) -> Option<Arc<Proxy>> {
        if let Some(known) = self.proxies.read().get(text) {
            return Some(Arc::clone(known));
        }
        let proxy = Arc::new(Proxy::read(text)?);
        let mut proxies = self.proxies.write();
        if proxies.len() >= MAX_PROXIES {
            proxies.clear();
        }
        let entry = proxies.entry(text.to_owned()).or_insert(proxy);
        Some(Arc::clone(entry))
    }

    /// Sends a request; gives its answer's head.
    ///
    /// # Errors
    /// Nothing came back.
    pub(crate) async fn send(
        &self,
        needs: &Needs,
        mut request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, SendError> {
        if !needs.private && names_private(request.uri()) {
            return Err(SendError::Address);
        }
        let key = Key::of(request.uri(), needs).ok_or(SendError::Address)?;
        let mut stale = 0;
        loop {
            let pooled = !needs.fresh && stale < MAX_STALE;
            let (mut lease, fresh) = self.lease(&key, needs, pooled).await?;
            match lease.send(request).await {
                Ok(answer) => return Ok(answer.map(|body| Incoming::new(body, lease))),
                Err(Unsent::Back(back, _)) if !fresh => {
                    request = *back;
                    stale += 1;
                }
                Err(Unsent::Lost(error)) if !fresh && ended(&error) => {
                    return Err(SendError::Worn(error));
                }
                Err(Unsent::Back(_, error) | Unsent::Lost(error)) => return Err(error.into()),
            }
        }
    }

    /// A connection for one request, and whether it is a new one.
    async fn lease(
        &self,
        key: &Key,
        needs: &Needs,
        pooled: bool,
    ) -> Result<(Lease, bool), SendError> {
        let mut turn = None;
        if pooled {
            if let Some(lease) = Lease::pooled(&self.pool, key) {
                return Ok((lease, false));
            }
            if let Some(queue) = self.pool.queue(key) {
                // One opens a connection that may serve all who wait.
                let held = queue.acquire_owned().await;
                if let Some(lease) = Lease::pooled(&self.pool, key) {
                    return Ok((lease, false));
                }
                turn = held.ok().filter(|_| self.pool.queue(key).is_some());
            }
        }
        let wire = self.dialer.dial(key, needs).await?;
        let lease = Lease::open(&self.pool, key, wire, &self.config, &self.lifecycle).await?;
        drop(turn);
        Ok((lease, true))
    }

    /// Closes what is idle for too long or was closed by the other side, until `drained`; then everything.
    pub(crate) async fn keep(&self, drained: CancellationToken) {
        let tenth = self.config.idle_timeout / 10;
        let every = tenth.clamp(Duration::from_millis(100), Duration::from_secs(1));
        let mut ticks = tokio::time::interval(every);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.pool.sweep(),
                () = drained.cancelled() => return self.pool.close(),
            }
        }
    }

    /// How many connections there are now.
    pub(crate) fn connections(&self) -> Connections {
        self.pool.connections()
    }
}

/// Whether an error is the other side's end of the connection, and nothing that it said of the request.
fn ended(error: &Error) -> bool {
    let error = match error {
        Error::Single(http1::Error::Io(error)) => return broke(error),
        Error::Single(error) => return matches!(error, http1::Error::Incomplete),
        Error::Shared(error) => error,
    };
    let Some(cause) = error.source() else {
        return false;
    };
    // It takes no more streams, and has not looked at this one (RFC 9113, 6.8 and 8.7).
    if let Some(cause) = cause.downcast_ref::<h2::Error>() {
        let refused = cause.reason() == Some(h2::Reason::REFUSED_STREAM);
        let going = cause.is_go_away() && cause.reason() == Some(h2::Reason::NO_ERROR);
        return cause.is_remote() && (refused || going);
    }
    cause.downcast_ref().is_some_and(broke)
}

/// Whether the other side closed the connection.
fn broke(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// Whether a URL names a private address itself: any other name is judged by what it resolves to.
fn names_private(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or("");
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let local = |name: &str| name.eq_ignore_ascii_case("localhost");
    match literal.parse() {
        Ok(address) => is_private(address),
        Err(_) => literal
            .trim_end_matches('.')
            .rsplit('.')
            .next()
            .is_some_and(local),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test's server ends with it")]
mod tests;
