//! Servers on a socket: internal ones prove the caller's role first; public ones carry callers with API keys.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{Status, body::Body, service::Routes};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span};

use super::{
    GrpcConfig, ServiceTokens,
    context::continue_trace,
    errors::complete_errors,
    listener::{Bound, Listener},
    local::panicked,
    role::{Caller, may_call},
    token::HEADER,
};
use crate::{clock::SharedClock, lifecycle::Lifecycle};

/// Serves other roles until the lifecycle stops; streams that run then are waited for by the lifecycle's grace period.
pub fn serve(
    listener: Listener,
    routes: Routes,
    tokens: ServiceTokens,
    config: &GrpcConfig,
    lifecycle: &Lifecycle,
) {
    run(listener, routes, Gate::Internal(tokens), config, lifecycle);
}

/// Serves callers. Nothing they say about their role, their address or a request id counts. Every error that they get has a
/// reason and a request id, whoever wrote it.
pub fn serve_public(
    listener: Listener,
    routes: Routes,
    clock: SharedClock,
    config: &GrpcConfig,
    lifecycle: &Lifecycle,
) {
    run(listener, routes, Gate::Public(clock), config, lifecycle);
}

/// gRPC reflection over all protos of ours.
///
/// # Errors
/// The embedded descriptor set does not decode: a broken build.
pub fn reflection() -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(switchboard_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
}

fn run(listener: Listener, routes: Routes, gate: Gate, config: &GrpcConfig, lifecycle: &Lifecycle) {
    let mut server = tonic::transport::Server::builder()
        .initial_stream_window_size(config.stream_window)
        .initial_connection_window_size(config.connection_window)
        .max_concurrent_streams(config.streams_per_connection)
        .http2_keepalive_interval(Some(config.keep_alive))
        .http2_keepalive_timeout(Some(config.keep_alive_timeout))
        .layer(gate);
    let (stopping, killed) = (lifecycle.stopping(), lifecycle.killed());
    let address = listener.address().to_string();
    lifecycle.spawn("grpc server", async move {
        let router = server.add_routes(routes);
        let served = async {
            match listener.into_socket() {
                Bound::Tcp(socket) => {
                    let incoming =
                        tokio_stream::StreamExt::map(TcpListenerStream::new(socket), |accepted| {
                            accepted.inspect(|stream| {
                                let _ = stream.set_nodelay(true);
                            })
                        });
                    router
                        .serve_with_incoming_shutdown(incoming, stopping.cancelled_owned())
                        .await
                }
                Bound::Unix(socket) => {
                    router
                        .serve_with_incoming_shutdown(
                            UnixListenerStream::new(socket),
                            stopping.cancelled_owned(),
                        )
                        .await
                }
            }
        };
        tokio::select! {
            ended = served => if let Err(error) = ended {
                tracing::error!(%address, %error, "grpc server ended");
            },
            () = killed.cancelled() => {}
        }
    });
}

/// Proves the role and applies the table, or completes callers' errors; continues the trace, survives panics.
#[derive(Clone)]
enum Gate {
    Internal(ServiceTokens),
    Public(SharedClock),
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            inner,
            gate: self.clone(),
        }
    }
}

#[derive(Clone)]
struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Gate::Internal(tokens) = &self.gate {
            let role = request
                .headers()
                .get(HEADER)
                .and_then(|token| tokens.verify(token.to_str().ok()?));
            let refusal = match role {
                None if request.uri().path().starts_with("/grpc.health.v1.Health/") => None,
                None => Some(Status::unauthenticated("a service token is needed here")),
                Some(role) if !may_call(role, request.uri().path()) => Some(
                    Status::permission_denied("this role may not call this method"),
                ),
                Some(role) => {
                    request.extensions_mut().insert(Caller(role));
                    None
                }
            };
            if let Some(refusal) = refusal {
                return Box::pin(std::future::ready(Ok(refusal.into_http())));
            }
        }
        request.headers_mut().remove(HEADER);
        let span = rpc_span(&request);
        let answer = self.inner.call(request);
        let public = match &self.gate {
            Gate::Internal(_) => None,
            Gate::Public(clock) => Some(clock.clone()),
        };
        Box::pin(
            async move {
                use futures_util::FutureExt as _;
                let answer = match std::panic::AssertUnwindSafe(answer).catch_unwind().await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(never)) => match never {},
                    Err(panic) => panicked(&*panic).into_http(),
                };
                Ok(match public {
                    Some(clock) => complete_errors(answer, &clock),
                    None => answer,
                })
            }
            .instrument(span),
        )
    }
}

/// The span of one call, on the server's side; disabled while nothing is exported.
pub(super) fn rpc_span<B>(request: &Request<B>) -> Span {
    let span = tracing::info_span!(
        target: "trace",
        "rpc",
        otel.name = request.uri().path(),
        otel.kind = "server",
        rpc.system = "grpc",
    );
    continue_trace(&span, request.headers());
    span
}
