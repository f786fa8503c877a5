//! Opens connections: to the upstream or through a proxy, with TLS where the URL says so.

use std::{error::Error, io, sync::Arc};

use http::Uri;
use hyper_util::client::legacy::connect::{HttpConnector, dns::Name};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tower::Service;

use super::{
    Needs, Obstacle, SendError,
    address::{Refused, Resolver, Unresolved},
    pool::Key,
    proxy::{self, Proxy},
};

/// What bytes go over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection on which nothing was said yet.
pub(super) struct Wire {
    pub(super) stream: Box<dyn Stream>,
    /// TLS agreed on HTTP/2.
    pub(super) shared: bool,
}

/// See the module's page.
pub(super) struct Dialer {
    /// To upstreams.
    tls: TlsConnector,
    /// To proxies, which speak HTTP/1.1.
    proxy_tls: TlsConnector,
}

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(60);

impl Dialer {
    pub(super) fn new(tls: ClientConfig) -> Self {
        let with = |protocols: &[&[u8]]| {
            let mut tls = tls.clone();
            tls.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
            TlsConnector::from(Arc::new(tls))
        };
        Self {
            tls: with(&[HTTP2, HTTP1]),
            proxy_tls: with(&[HTTP1]),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// None came about, and whose fault that is.
    pub(super) async fn dial(&self, key: &Key, needs: &Needs) -> Result<Wire, SendError> {
        let stream = match &needs.proxy {
            Some(proxy) => self.through(proxy, key, needs).await?,
            None => {
                let url = url(key.tls, key.authority.as_str())?;
                let stream = tcp(url, needs.private, needs).await;
                Box::new(stream.map_err(of_upstream)?)
            }
        };
        if !key.tls {
            return Ok(Wire {
                stream,
                shared: false,
            });
        }
        let stream = secure(&self.tls, key.host(), stream).await;
        let stream = stream.map_err(|error| SendError::Connect(Obstacle::Tls, error.into()))?;
        let (_, session) = stream.get_ref();
        let shared = session.alpn_protocol() == Some(HTTP2);
        Ok(Wire {
            stream: Box::new(stream),
            shared,
        })
    }

    /// A tunnel to the upstream.
    async fn through(
        &self,
        proxy: &Proxy,
        key: &Key,
        needs: &Needs,
    ) -> Result<Box<dyn Stream>, SendError> {
        let target = if proxy.resolves() {
            key.host().to_owned()
        } else {
            resolve(key.host(), needs.private).await?
        };
        // The proxy is the operator's own.
        let tcp = tcp(proxy.url().clone(), true, needs).await;
        let tcp = tcp.map_err(|error| SendError::Proxy(Box::new(error)))?;
        let mut stream: Box<dyn Stream> = Box::new(tcp);
        if proxy.tls() {
            let secured = secure(&self.proxy_tls, proxy.host(), stream).await;
            stream = Box::new(secured.map_err(|error| SendError::Proxy(error.into()))?);
        }
        let tunnel = proxy.tunnel(&mut stream, &target, key.port()).await;
        tunnel.map_err(|failed| match failed {
            proxy::Error::Upstream(_) => {
                SendError::Connect(Obstacle::Unreachable, Box::new(failed))
            }
            _ => SendError::Proxy(Box::new(failed)),
        })?;
        Ok(stream)
    }
}

/// A TCP connection to one of a host's addresses.
async fn tcp(
    url: Uri,
    private: bool,
    needs: &Needs,
) -> Result<TcpStream, <HttpConnector<Resolver> as Service<Uri>>::Error> {
    let mut connector = HttpConnector::new_with_resolver(Resolver::new(private));
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(needs.connect));
    connector.set_keepalive(Some(KEEP_ALIVE));
    Ok(connector.call(url).await?.into_inner())
}

async fn secure<S: Stream>(
    tls: &TlsConnector,
    host: &str,
    stream: S,
) -> io::Result<tokio_rustls::client::TlsStream<S>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    tls.connect(name, stream).await
}

/// One address of a host, for a proxy that is not to resolve its name.
async fn resolve(host: &str, private: bool) -> Result<String, SendError> {
    if host.parse::<std::net::IpAddr>().is_ok() {
        return Ok(host.to_owned());
    }
    let name: Name = host.parse().map_err(|_| SendError::Address)?;
    let found = Resolver::new(private).call(name).await;
    let mut found = found.map_err(of_upstream)?;
    let first = found.next().ok_or(SendError::Address)?;
    Ok(first.ip().to_string())
}

fn url(tls: bool, authority: &str) -> Result<Uri, SendError> {
    let scheme = if tls { "https" } else { "http" };
    let url = Uri::builder().scheme(scheme).authority(authority);
    url.path_and_query("/")
        .build()
        .map_err(|_| SendError::Address)
}

/// Whether an address was refused, or no connection came about.
fn of_upstream(error: impl Error + Send + Sync + 'static) -> SendError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    let mut obstacle = Obstacle::Other;
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            // An `io::Error` does not show what it wraps as its source.
            let inner = error.get_ref();
            if inner.is_some_and(|inner| inner.is::<Refused>()) {
                return SendError::Address;
            }
            obstacle = match error.kind() {
                _ if inner.is_some_and(|inner| inner.is::<Unresolved>()) => Obstacle::Dns,
                io::ErrorKind::ConnectionRefused => Obstacle::Refused,
                io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown => Obstacle::Unreachable,
                io::ErrorKind::TimedOut => Obstacle::Late,
                _ => obstacle,
            };
        }
        cause = error.source();
    }
    SendError::Connect(obstacle, Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_before_a_proxy_hears_of_it() {
        let refused = resolve("localhost", false).await;
        assert!(matches!(refused, Err(SendError::Address)));
        let address: std::net::IpAddr = resolve("localhost", true).await.unwrap().parse().unwrap();
        assert!(address.is_loopback());
        assert_eq!(resolve("::1", true).await.unwrap(), "::1");
    }
}
