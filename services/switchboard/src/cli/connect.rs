//! The way to the admin services: the edge of a running installation (SURF-4), or the services of a stopped data
//! directory, started in this process under its lock. Commands see the same clients either way.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret as _, SecretString};
use switchboard_common::{
    error::{Failure, Reason},
    grpc::{Role, Rpc},
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderValue, Request, Response, Uri, header::AUTHORIZATION},
    transport::{Channel, Endpoint},
};
use tower::{Service, ServiceExt as _};

use super::{args::Place, exit::Error};
use crate::{
    apply::AdminClients,
    data_dir::{self, DataDir},
    serve::{self, AdminGuard},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A whole ledger may have to be added up.
const CALL_TIMEOUT: Duration = Duration::from_secs(600);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const DEFAULT_DIR: &str = "switchboard-data";

/// Clients, and what must be ended after them.
pub(super) struct Connection {
    pub(super) clients: AdminClients,
    opened: Option<AdminGuard>,
}

impl Connection {
    /// Finds the installation that the command line means.
    pub(super) async fn open(place: &Place) -> Result<Self, Error> {
        if let Some(addr) = &place.addr {
            let token = given(place).ok_or_else(|| {
                Error::Usage("--addr needs an admin token: set SWITCHBOARD_TOKEN".to_owned())
            })?;
            return Self::remote(addr, token);
        }
        let path = match &place.data_dir {
            Some(path) => path.clone(),
            None if Path::new(DEFAULT_DIR).is_dir() => PathBuf::from(DEFAULT_DIR),
            None => {
                return Err(Error::Usage(format!(
                    "which installation? Give --addr http://HOST:PORT (or https://HOST) with SWITCHBOARD_TOKEN, or --data-dir DIR (there is no ./{DEFAULT_DIR})"
                )));
            }
        };
        if !path.is_dir() {
            let missing = data_dir::Error::Missing(path.display().to_string());
            return Err(Error::Usage(missing.to_string()));
        }
        let in_use = DataDir::is_in_use(&path).map_err(|error| Error::Wrong(error.to_string()))?;
        if let Some(error) = elsewhere(&path, in_use)? {
            return Err(error);
        }
        if in_use {
            return Self::running(&path, given(place));
        }
        let (clients, guard) =
            Box::pin(serve::open_admin(&path))
                .await
                .map_err(|error| match error {
                    serve::Error::DataDir(
                        error @ (data_dir::Error::Missing(_) | data_dir::Error::KeyElsewhere(_)),
                    ) => Error::Usage(error.to_string()),
                    serve::Error::DataDir(error @ data_dir::Error::InUse(_)) => {
                        Error::Unreachable(error.to_string())
                    }
                    error => Error::Wrong(error.to_string()),
                })?;
        Ok(Self {
            clients,
            opened: Some(guard),
        })
    }

    /// The program that has a data directory's lock.
    fn running(path: &Path, token: Option<&SecretString>) -> Result<Self, Error> {
        let shown = path.display();
        let dir = DataDir::create(path).map_err(|error| Error::Wrong(error.to_string()))?;
        let endpoint = dir.endpoint().ok_or_else(|| {
            Error::Unreachable(format!(
                "data directory {shown} is in use by a program that is not ready; try again shortly"
            ))
        })?;
        // Only its owner makes the token.
        if path.join("admin.token").is_file() {
            let (token, _) = dir
                .admin_token()
                .map_err(|error| Error::Wrong(error.to_string()))?;
            return Self::remote(&endpoint.http, &token);
        }
        let token = token.ok_or_else(|| {
            Error::Usage(format!("{shown} has no admin.token: set SWITCHBOARD_TOKEN"))
        })?;
        Self::remote(&endpoint.http, token)
    }

    fn remote(addr: &str, token: &SecretString) -> Result<Self, Error> {
        Ok(Self {
            clients: AdminClients::over(rpc(addr, token)?),
            opened: None,
        })
    }

    /// Ends what was started for the command.
    pub(super) async fn close(self) {
        drop(self.clients);
        if let Some(opened) = self.opened {
            Box::pin(opened.close()).await;
        }
    }
}

/// The token that was given; a variable that is set to nothing gives none.
fn given(place: &Place) -> Option<&SecretString> {
    let token = place.token.as_ref();
    token.filter(|token| !token.expose_secret().trim().is_empty())
}

/// Why what lives in a data directory is not administered through it: its facts are somewhere else.
fn elsewhere(path: &Path, in_use: bool) -> Result<Option<Error>, Error> {
    let shown = path.display();
    let dir = DataDir::create(path).map_err(|error| Error::Wrong(error.to_string()))?;
    let Some(lives) = dir.installation() else {
        return Ok(None);
    };
    if in_use && lives.roles.contains(&Role::Edge) {
        return Ok(None);
    }
    let is_whole = Role::ALL.iter().all(|role| lives.roles.contains(role));
    if !is_whole {
        let names: Vec<_> = lives.roles.iter().map(|role| role.name()).collect();
        return Ok(Some(Error::Usage(format!(
            "{shown} is the data directory of {} in a split system, which is administered through its edge: give --addr http://HOST:PORT of the edge, and as SWITCHBOARD_TOKEN the admin token, which auth keeps in admin.token of its data directory",
            names.join(", ")
        ))));
    }
    Ok((!lives.has_facts).then(|| {
        Error::Unreachable(format!(
            "the program of data directory {shown} is not running, and its facts lie in PostgreSQL: start it, or give --addr of another one"
        ))
    }))
}

/// A transport to an edge, as the admin whose token it is.
fn rpc(addr: &str, token: &SecretString) -> Result<Rpc, Error> {
    let uri = if addr.contains("://") {
        addr.to_owned()
    } else {
        format!("http://{addr}")
    };
    let malformed = || {
        Error::Usage(format!(
            "`{addr}` is no address of an HTTP listener; expected http://HOST:PORT or https://HOST"
        ))
    };
    let target: Uri = uri.parse().map_err(|_| malformed())?;
    let endpoint = |uri: String| {
        Endpoint::from_shared(uri).map(|endpoint| {
            endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(CALL_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .tcp_nodelay(true)
        })
    };
    let channel = match (target.scheme_str(), target.authority()) {
        (Some("http"), Some(_)) => endpoint(uri.clone())
            .map_err(|_| malformed())?
            .connect_lazy(),
        (Some("https"), Some(authority)) => {
            // The transport's own TLS knows no platform verifier: it is told of plain HTTP, and the connector speaks TLS.
            let plain = endpoint(format!("http://{authority}")).map_err(|_| malformed())?;
            let tls = tls()?;
            let connector = tower::service_fn(move |_: Uri| tls.clone().oneshot(target.clone()));
            let origin = uri.parse().map_err(|_| malformed())?;
            plain.origin(origin).connect_with_connector_lazy(connector)
        }
        _ => return Err(malformed()),
    };
    let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        .map_err(|_| Error::Usage("the admin token has characters that no token has".to_owned()))?;
    authorization.set_sensitive(true);
    Ok(Rpc::new(Bearer {
        channel,
        addr: uri,
        authorization,
    }))
}

/// TLS as the platform trusts it, for HTTP/2.
fn tls() -> Result<HttpsConnector<HttpConnector>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| {
            Error::Wrong(format!(
                "the system's trusted roots cannot be used: {error}"
            ))
        })?
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http2()
        .wrap_connector(tcp))
}

/// Adds the admin's token to each call.
#[derive(Clone)]
struct Bearer {
    channel: Channel,
    addr: String,
    authorization: HeaderValue,
}

impl Service<Request<Body>> for Bearer {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request
            .headers_mut()
            .insert(AUTHORIZATION, self.authorization.clone());
        let channel = self.channel.clone();
        let addr = self.addr.clone();
        Box::pin(async move {
            channel.oneshot(request).await.or_else(|error| {
                let mut cause = innermost(&error);
                if cause.starts_with("received corrupt message") {
                    cause.push_str(" (does it speak TLS? Else write http://)");
                }
                let failure = Failure::new(
                    Reason::Unavailable,
                    format!("no answer from {addr}: {cause}"),
                );
                Ok(Status::from(failure).into_http())
            })
        })
    }
}

/// The cause that says most: transports wrap it in their own names.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
