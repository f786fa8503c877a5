//! How upstreams are reached (SPEC FWD-8, FWD-10).
//!
//! hyper's own client over hyper-rustls: both are in the tree through reqwest anyway, and what reqwest adds (redirects,
//! proxies from the environment, cookies, a second URL type) is what must not happen here; a call costs about half as
//! much. HTTP/2 where TLS offers it. The time-outs of an attempt are kept by who waits for it, not by the client; the
//! connector alone has its own, so that a connection that nobody waits for any more ends too.
//!
//! Invariants: no redirect is followed; no address of a private network is called unless the account allows it, checked
//! on what a name resolves to, literal addresses included; a response that is dropped ends its connection or stream.

mod address;
mod body;
mod decode;
mod request;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::RwLock;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;

use self::address::{Resolver, is_private};
pub(crate) use self::{
    body::{Outgoing, Sent},
    decode::{Decoded, Pieces},
    request::{Hygiene, build, for_caller},
};
use crate::config;

type Http = Client<HttpsConnector<HttpConnector<Resolver>>, Outgoing>;

/// Connections to all upstreams, in pools by host.
#[derive(Debug)]
pub(crate) struct Upstreams {
    config: config::Upstream,
    tls: ClientConfig,
    /// By what a connector cannot be told per call.
    clients: RwLock<HashMap<Needs, Http>>,
}

/// What a connection needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Needs {
    /// Private addresses are allowed.
    pub(crate) private: bool,
    /// How long a connection may take to open.
    pub(crate) connect: Duration,
}

/// Different needs that are kept; the catalogue has a handful.
const MAX_CLIENTS: usize = 256;

/// One read of an HTTP/1.1 upstream brings this much at most, bytes: a stream's bound holds but for one read.
const READ: usize = 64 * 1024;

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The account's address is private, or no address.
    #[error("the address may not be called")]
    Address,
    /// The connection failed.
    #[error("the connection failed")]
    Network(#[from] hyper_util::client::legacy::Error),
}

impl Upstreams {
    /// Reads the system's trust roots.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn new(config: &config::Upstream) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(io::Error::other)?
            .with_no_client_auth();
        Ok(Self {
            config: config.clone(),
            tls,
            clients: RwLock::default(),
        })
    }

    /// Sends a request; gives its answer's head.
    ///
    /// # Errors
    /// Nothing came back.
    pub(crate) async fn send(
        &self,
        needs: Needs,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, SendError> {
        if !needs.private && names_private(request.uri()) {
            return Err(SendError::Address);
        }
        let answer = self.client(needs).request(request).await;
        answer.map_err(|error| {
            if refused_address(&error) {
                SendError::Address
            } else {
                SendError::Network(error)
            }
        })
    }

    fn client(&self, needs: Needs) -> Http {
        if let Some(client) = self.clients.read().get(&needs) {
            return client.clone();
        }
        let client = self.build(needs);
        let mut clients = self.clients.write();
        if clients.len() >= MAX_CLIENTS {
            // Connections in use live on; idle ones go.
            clients.clear();
        }
        clients.entry(needs).or_insert(client).clone()
    }

    fn build(&self, needs: Needs) -> Http {
        let mut http = HttpConnector::new_with_resolver(Resolver::new(needs.private));
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(needs.connect));
        http.set_keepalive(Some(Duration::from_secs(60)));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.clone())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(http);
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.config.idle_timeout)
            .pool_max_idle_per_host(self.config.idle_per_host)
            .http1_max_buf_size(READ)
            .http2_initial_stream_window_size(self.config.stream_window)
            .http2_initial_connection_window_size(self.config.connection_window)
            .build(connector)
    }
}

/// Whether a URL names a private address itself: a name is judged by what it resolves to.
fn names_private(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or("");
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    literal.parse().is_ok_and(is_private)
}

fn refused_address(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<address::Refused>() {
            return true;
        }
        // An `io::Error` does not show what it wraps as its source.
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if inner.is_some_and(|inner| inner.is::<address::Refused>()) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_private_address_is_seen_in_the_url() {
        for (url, private) in [
            ("http://127.0.0.1:80/v1", true),
            ("http://[::1]/v1", true),
            ("http://[::ffff:10.0.0.1]/v1", true),
            ("http://169.254.169.254/latest", true),
            ("https://8.8.8.8/v1", false),
            ("https://api.example.com/v1", false),
        ] {
            let uri: Uri = url.parse().unwrap();
            assert_eq!(names_private(&uri), private, "{url}");
        }
    }
}
