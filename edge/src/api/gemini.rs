//! Gemini's paths, under `/v1beta` and, as its current SDK asks, under `/v1` (SURF-2; PROTOCOLS §1.1, §8).
//!
//! What is asked stands behind the last colon of the path; a model's name may hold colons and slashes itself.

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, Method, Response},
    routing::any,
};
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::error::Shape;
use switchboard_proto::common::v1::{self as proto, Dialect};

use super::{Edge, Endpoint, named, refuse, serve, wrong_method};

/// Where only this dialect's paths lie, served or not.
const VERSIONS: [&str; 2] = ["/v1beta/", "/v1alpha/"];
/// Under which name this dialect's clients bring their key.
const KEY: &str = "x-goog-api-key";

const MODELS: Endpoint = endpoint("/v1beta/models", proto::Endpoint::GeminiModels, false);
const MODEL: Endpoint = endpoint(
    "/v1beta/models/{model}",
    proto::Endpoint::GeminiModels,
    false,
);

/// What can be asked of a model, by its word in the path.
const CALLS: [(&str, Endpoint); 5] = [
    (
        "generateContent",
        endpoint(
            "/v1beta/models/{model}:generateContent",
            proto::Endpoint::Unspecified,
            true,
        ),
    ),
    (
        "streamGenerateContent",
        endpoint(
            "/v1beta/models/{model}:streamGenerateContent",
            proto::Endpoint::Stream,
            true,
        ),
    ),
    (
        "countTokens",
        endpoint(
            "/v1beta/models/{model}:countTokens",
            proto::Endpoint::CountTokens,
            true,
        ),
    ),
    (
        "embedContent",
        endpoint(
            "/v1beta/models/{model}:embedContent",
            proto::Endpoint::Embed,
            true,
        ),
    ),
    (
        "batchEmbedContents",
        endpoint(
            "/v1beta/models/{model}:batchEmbedContents",
            proto::Endpoint::EmbedBatch,
            true,
        ),
    ),
];

const fn endpoint(route: &'static str, what: proto::Endpoint, has_body: bool) -> Endpoint {
    Endpoint {
        route,
        dialect: Dialect::GeminiGenerate,
        what,
        has_body,
    }
}

pub(super) fn routes() -> Router<Edge> {
    let mut router = Router::new();
    for path in ["/v1beta/models", "/v1beta/models/"] {
        router = router.route(
            path,
            any(|State(edge): State<Edge>, request: Request| async move {
                if request.method() == Method::GET {
                    serve(edge, MODELS, String::new(), request).await
                } else {
                    wrong_method(&edge, "GET, HEAD", Shape::Gemini)
                }
            }),
        );
    }
    router.route(
        "/v1beta/models/{*model}",
        any(
            |State(edge): State<Edge>,
             name: Result<Path<String>, PathRejection>,
             request: Request| async move {
                let name = match named(name) {
                    Ok(name) => name,
                    Err(failure) => return refuse(&edge, &failure, Shape::Gemini),
                };
                match *request.method() {
                    Method::GET => serve(edge, MODEL, name, request).await,
                    Method::POST => call(edge, &name, request).await,
                    _ => wrong_method(&edge, "GET, HEAD, POST", Shape::Gemini),
                }
            },
        ),
    )
}

/// Whether a request that nobody serves is one of this dialect.
pub(super) fn is_meant(path: &str, headers: &HeaderMap) -> bool {
    headers.contains_key(KEY) || VERSIONS.iter().any(|version| path.starts_with(version))
}

/// A path of models, which several vendors' clients share (PROTOCOLS §1.1): Gemini's brings its key under a name of its own.
pub(super) fn models(endpoint: Endpoint, headers: &HeaderMap) -> Endpoint {
    if headers.contains_key(KEY) {
        Endpoint {
            dialect: Dialect::GeminiGenerate,
            what: proto::Endpoint::GeminiModels,
            ..endpoint
        }
    } else {
        endpoint
    }
}

/// `{model}:{what}`: a call on a model.
pub(super) async fn call(edge: Edge, path: &str, request: Request) -> Response<Body> {
    let found = path.rsplit_once(':').and_then(|(model, what)| {
        let (_, endpoint) = CALLS.iter().find(|(word, _)| *word == what)?;
        (!model.is_empty()).then_some((model, *endpoint))
    });
    match found {
        Some((model, endpoint)) => serve(edge, endpoint, model.to_owned(), request).await,
        None => refuse(&edge, &no_such_call(), Shape::Gemini),
    }
}

fn no_such_call() -> Failure {
    let words = CALLS.map(|(word, _)| format!("`:{word}`")).join(", ");
    Failure::new(
        Reason::NotFound,
        format!("the path must name a model and end with one of {words}"),
    )
}
