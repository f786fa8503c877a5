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
use tonic_reflection::pb::{v1, v1alpha};
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
use crate::{clock::SharedClock, http2::CONNECTION_WINDOW, lifecycle::Lifecycle};

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

/// Adds gRPC reflection to a public listener's services, in both versions that clients ask for. It describes what callers can
/// call there and nothing of what roles say to each other.
///
/// # Errors
/// The embedded descriptor set does not decode: a broken build.
pub fn with_reflection(routes: Routes) -> Result<Routes, tonic_reflection::server::Error> {
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(switchboard_proto::CALLER_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(v1alpha::FILE_DESCRIPTOR_SET)
            .include_reflection_service(false)
    };
    Ok(routes
        .add_service(described().build_v1()?)
        .add_service(described().build_v1alpha()?))
}

fn run(listener: Listener, routes: Routes, gate: Gate, config: &GrpcConfig, lifecycle: &Lifecycle) {
    let mut server = tonic::transport::Server::builder()
        .initial_stream_window_size(config.stream_window)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(config.streams_per_connection)
        // As many calls as may be open may also be cancelled before they were looked at: a caller's callers left together.
        .http2_max_pending_accept_reset_streams(Some(config.streams_per_connection as usize))
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

#[cfg(test)]
mod tests {
    use tonic_reflection::pb::{
        v1::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        },
        v1alpha,
    };

    use super::*;

    fn reflecting() -> axum::Router {
        with_reflection(Routes::default())
            .unwrap()
            .prepare()
            .into_axum_router()
    }

    fn request(asked: MessageRequest) -> tokio_stream::Once<ServerReflectionRequest> {
        tokio_stream::once(ServerReflectionRequest {
            host: String::new(),
            message_request: Some(asked),
        })
    }

    async fn reflected(asked: MessageRequest) -> Result<MessageResponse, Status> {
        let mut client = ServerReflectionClient::new(reflecting());
        let answer = client.server_reflection_info(request(asked)).await?;
        let message = answer.into_inner().message().await?.unwrap();
        Ok(message.message_response.unwrap())
    }

    const CALLABLE: [&str; 4] = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "switchboard.inference.v1.Inference",
    ];

    #[tokio::test]
    async fn reflection_lists_what_callers_can_call_and_nothing_else() {
        let listed = reflected(MessageRequest::ListServices(String::new())).await;
        let Ok(MessageResponse::ListServicesResponse(list)) = listed else {
            panic!("{listed:?}");
        };
        let mut names: Vec<_> = list.service.into_iter().map(|found| found.name).collect();
        names.sort_unstable();
        assert_eq!(names, CALLABLE);

        let mut older =
            v1alpha::server_reflection_client::ServerReflectionClient::new(reflecting());
        let asked = v1alpha::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(
                v1alpha::server_reflection_request::MessageRequest::ListServices(String::new()),
            ),
        };
        let answer = older
            .server_reflection_info(tokio_stream::once(asked))
            .await;
        let message = answer
            .unwrap()
            .into_inner()
            .message()
            .await
            .unwrap()
            .unwrap();
        let listed = message.message_response.unwrap();
        let v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(list) =
            listed
        else {
            panic!("{listed:?}");
        };
        let mut names: Vec<_> = list.service.into_iter().map(|found| found.name).collect();
        names.sort_unstable();
        assert_eq!(names, CALLABLE);
    }

    #[tokio::test]
    async fn reflection_describes_whole_calls_and_none_of_another_role() {
        let of = |symbol: &str| reflected(MessageRequest::FileContainingSymbol(symbol.to_owned()));
        for symbol in [
            "switchboard.inference.v1.Inference.Generate",
            "switchboard.inference.v1.Inference.Embed",
            "switchboard.inference.v1.Inference.ListModels",
            "switchboard.inference.v1.GenerateRequest",
            "switchboard.common.v1.Usage",
            "grpc.health.v1.Health.Check",
        ] {
            let found = of(symbol).await;
            assert!(
                matches!(found, Ok(MessageResponse::FileDescriptorResponse(_))),
                "{symbol}: {found:?}"
            );
        }
        for symbol in [
            "switchboard.inference.v1.Inference.Relay",
            "switchboard.inference.v1.RelayRequest",
            "switchboard.billing.v1.BillingAdmin",
            "switchboard.credentials.v1.GetResponse",
        ] {
            let refused = of(symbol).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::NotFound, "{symbol}");
        }
    }
}
