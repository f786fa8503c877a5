//! Anthropic's paths, with and without `/v1`, a trailing slash tolerated (SURF-2).

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Method},
    routing::any,
};
use switchboard_dialects::error::Shape;
use switchboard_proto::common::v1::{self as proto, Dialect};

use super::{Edge, Endpoint, serve, spellings, wrong_method};

/// With which header this dialect's clients say which version they speak.
const VERSION: &str = "anthropic-version";

const MESSAGES: Endpoint = Endpoint {
    route: "/v1/messages",
    dialect: Dialect::AnthropicMessages,
    what: proto::Endpoint::Unspecified,
    has_body: true,
};
const COUNT_TOKENS: Endpoint = Endpoint {
    route: "/v1/messages/count_tokens",
    dialect: Dialect::AnthropicMessages,
    what: proto::Endpoint::CountTokens,
    has_body: true,
};

pub(super) fn routes() -> Router<Edge> {
    let mut router = Router::new();
    for endpoint in [MESSAGES, COUNT_TOKENS] {
        for path in spellings(endpoint.route) {
            router = router.route(
                &path,
                any(
                    move |State(edge): State<Edge>, request: Request| async move {
                        if request.method() == Method::POST {
                            serve(edge, endpoint, String::new(), request).await
                        } else {
                            wrong_method(&edge, "POST", Shape::Anthropic)
                        }
                    },
                ),
            );
        }
    }
    router
}

/// Whether a request that nobody serves is one of this dialect.
pub(super) fn is_meant(path: &str, headers: &HeaderMap) -> bool {
    let messages = path.strip_prefix("/v1").unwrap_or(path);
    headers.contains_key(VERSION) || messages.starts_with("/messages/")
}

/// A path of models, which several vendors' clients share (PROTOCOLS §1.1): Anthropic's says which version it speaks.
pub(super) fn models(endpoint: Endpoint, headers: &HeaderMap) -> Endpoint {
    if headers.contains_key(VERSION) {
        Endpoint {
            dialect: Dialect::AnthropicMessages,
            what: proto::Endpoint::AnthropicModels,
            ..endpoint
        }
    } else {
        endpoint
    }
}
