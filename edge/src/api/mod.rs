//! The public routes. One file a vendor's dialects; nothing here reads a body.

mod anthropic;
mod gemini;
mod openai;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Path, Request, State, rejection::PathRejection},
    http::{HeaderValue, Method, Response, header},
    middleware::map_request,
    routing::any,
};
use bytes::Bytes;
use switchboard_common::{
    clock::SharedClock,
    error::{Failure, Reason},
    grpc::continue_trace,
    ids::RequestId,
};
use switchboard_dialects::{error::Shape, gemini::asks_for_events, headers::passes_to_upstream};
use switchboard_proto::{
    common::v1::{self as proto, Dialect},
    inference::v1::{Header, RelayHead},
};
use tracing::Instrument as _;

use crate::{
    Config,
    admin::{self, Admins},
    body::{self, Budget},
    caller,
    compression::Compression,
    error,
    observed::Observed,
    relay::Forwarders,
    response,
};

/// What every route needs.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: SharedClock,
    pub(crate) forwarders: Forwarders,
    pub(crate) admins: Admins,
    pub(crate) budget: Budget,
    pub(crate) compression: Compression,
    pub(crate) observed: Observed,
}

/// One endpoint of one dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    /// Bounded metric label.
    pub(crate) route: &'static str,
    pub(crate) dialect: Dialect,
    /// What is asked of the dialect.
    pub(crate) what: proto::Endpoint,
    /// Whether a body is expected.
    pub(crate) has_body: bool,
}

/// All routes.
pub(crate) fn router(edge: Edge) -> Router {
    openai::routes()
        .merge(anthropic::routes())
        .merge(gemini::routes())
        .route("/{service}/{method}", any(admin::pass))
        .fallback(unknown)
        .layer(map_request(head_as_get))
        .with_state(edge)
}

/// `HEAD` asks for what `GET` answers; the server leaves the body out.
async fn head_as_get(mut request: Request) -> Request {
    if request.method() == Method::HEAD {
        *request.method_mut() = Method::GET;
    }
    request
}

/// Answers one request: reads what the edge may read, relays the rest. `resource` is the path's own id, if it has one.
pub(crate) async fn serve(
    edge: Edge,
    endpoint: Endpoint,
    resource: String,
    request: Request,
) -> Response<Body> {
    let arrived_us = edge.clock.now_us();
    let id = RequestId::generate(arrived_us / 1_000).to_string();
    let span = tracing::info_span!(
        target: "trace",
        "http",
        otel.name = endpoint.route,
        otel.kind = "server",
        http.route = endpoint.route,
        request_id = %id,
        http.response.status_code = tracing::field::Empty,
    );
    continue_trace(&span, request.headers());
    let (observed, compression) = (edge.observed.clone(), edge.compression.clone());
    let accepted = Compression::accepted(request.headers());
    let mut response = relay(edge, endpoint, resource, request, arrived_us, &id)
        .instrument(span.clone())
        .await
        .unwrap_or_else(|failure| error::respond(&failure, error::shape(endpoint.dialect), &id));
    span.record("http.response.status_code", response.status().as_u16());
    name(&mut response, &id, error::shape(endpoint.dialect));
    observed.answered(endpoint.route, response.status().as_u16());
    compression.apply(accepted, response).await
}

/// Puts the request's id on an answer, also where the dialect's client looks for it (PROTOCOLS §1.2).
fn name(response: &mut Response<Body>, id: &str, shape: Shape) {
    let Ok(id) = HeaderValue::from_str(id) else {
        return;
    };
    let headers = response.headers_mut();
    if shape == Shape::Anthropic {
        headers.insert("request-id", id.clone());
    }
    headers.insert("x-request-id", id);
}

/// `/v1/x` as `/v1/x`, `/v1/x/`, `/x`, `/x/`.
fn spellings(route: &str) -> [String; 4] {
    let bare = route.strip_prefix("/v1").unwrap_or(route);
    [
        route.to_owned(),
        format!("{route}/"),
        bare.to_owned(),
        format!("{bare}/"),
    ]
}

async fn relay(
    edge: Edge,
    endpoint: Endpoint,
    resource: String,
    request: Request,
    arrived_us: i64,
    id: &str,
) -> Result<Response<Body>, Failure> {
    let Some(in_flight) = edge.observed.enter(edge.config.requests_in_flight) else {
        return Err(Failure::new(
            Reason::Unavailable,
            "this gateway has as many requests in flight as it may; try again shortly",
        )
        .retry_after(std::time::Duration::from_secs(1)));
    };
    let (parts, body) = request.into_parts();
    let connection = parts
        .extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |info| info.0.ip());
    let (body, _share) = if endpoint.has_body {
        let (bytes, share) = body::read(body, &parts.headers, &edge.config, &edge.budget)
            .await?
            .into_parts();
        (bytes, Some(share))
    } else {
        (Bytes::new(), None)
    };
    let head = RelayHead {
        dialect: endpoint.dialect.into(),
        request_id: id.to_owned(),
        client_request_id: caller::client_request_id(&parts.headers),
        credential: caller::credential(&parts.headers, &parts.uri),
        peer: caller::peer(connection, &parts.headers, &edge.config.trusted_proxies).to_string(),
        headers: parts
            .headers
            .iter()
            .filter(|(name, _)| passes_to_upstream(name))
            .map(|(name, value)| Header {
                name: name.as_str().to_owned(),
                value: Bytes::copy_from_slice(value.as_bytes()),
            })
            .collect(),
        resource,
        content_length: Some(body.len() as u64),
        tags: caller::tags(&parts.headers),
        hops: caller::hops(&parts.headers),
        arrived_us,
        endpoint: endpoint.what.into(),
        content_type: caller::content_type(&parts.headers),
        query: caller::query(&parts.uri),
    };
    let array = endpoint.what == proto::Endpoint::Stream && !asks_for_events(&head.query);
    let begun = edge.forwarders.relay(head, body).await?;
    let teller = error::Teller::new(endpoint.dialect, id, array);
    Ok(response::respond(begun, teller, in_flight))
}

/// A path that is none of ours, in the form of the vendor for whose API it is meant.
pub(crate) async fn unknown(State(edge): State<Edge>, request: Request) -> Response<Body> {
    let failure = Failure::new(
        Reason::NotFound,
        format!(
            "there is no {} {}; see the API's reference for the paths",
            request.method(),
            printable(request.uri().path())
        ),
    );
    let (path, headers) = (request.uri().path(), request.headers());
    let shape = if gemini::is_meant(path, headers) {
        Shape::Gemini
    } else if anthropic::is_meant(path, headers) {
        Shape::Anthropic
    } else {
        Shape::OpenAi
    };
    refuse(&edge, &failure, shape)
}

/// A path of ours with another method.
pub(crate) fn wrong_method(edge: &Edge, allowed: &'static str, shape: Shape) -> Response<Body> {
    let failure = Failure::new(
        Reason::MethodNotAllowed,
        format!("this path takes {allowed} only"),
    );
    let mut response = refuse(edge, &failure, shape);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A refusal that reaches no forwarder, with an id of its own.
pub(crate) fn refuse(edge: &Edge, failure: &Failure, shape: Shape) -> Response<Body> {
    let id = RequestId::generate(edge.clock.now_ms()).to_string();
    let mut response = error::respond(failure, shape, &id);
    name(&mut response, &id, shape);
    edge.observed.answered("other", response.status().as_u16());
    response
}

/// The name in a path. Percent-coding can hold bytes that are no text, and names are text.
pub(crate) fn named(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    match path {
        Ok(Path(name)) => Ok(name.trim_end_matches('/').to_owned()),
        Err(_) => Err(Failure::new(
            Reason::InvalidRequest,
            "the model's name in the path is not valid UTF-8 once its percent-coding is undone",
        )
        .param("model")),
    }
}

/// A stranger's path, short enough for a message. Percent-coding keeps it printable.
fn printable(path: &str) -> String {
    path.chars().take(100).collect()
}
