//! OpenAI's paths, with and without `/v1`, a trailing slash tolerated (SURF-1).

use axum::{
    Router,
    extract::{Path, Request, State, rejection::PathRejection},
    http::Method,
    routing::any,
};
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::error::Shape;
use switchboard_proto::common::v1::{self as proto, Dialect};

use super::{Edge, Endpoint, anthropic, refuse, serve, spellings, wrong_method};
use crate::error;

const CHAT: Endpoint = Endpoint {
    route: "/v1/chat/completions",
    dialect: Dialect::OpenaiChat,
    what: proto::Endpoint::Unspecified,
    has_body: true,
};
const EMBEDDINGS: Endpoint = Endpoint {
    route: "/v1/embeddings",
    dialect: Dialect::OpenaiEmbeddings,
    what: proto::Endpoint::Unspecified,
    has_body: true,
};
const MODELS: Endpoint = Endpoint {
    route: "/v1/models",
    dialect: Dialect::OpenaiModels,
    what: proto::Endpoint::Unspecified,
    has_body: false,
};
const MODEL: Endpoint = Endpoint {
    route: "/v1/models/{model}",
    dialect: Dialect::OpenaiModels,
    what: proto::Endpoint::Unspecified,
    has_body: false,
};

pub(super) fn routes() -> Router<Edge> {
    let mut router = Router::new();
    for endpoint in [CHAT, EMBEDDINGS] {
        for path in spellings(endpoint.route) {
            router = router.route(
                &path,
                any(
                    move |State(edge): State<Edge>, request: Request| async move {
                        if request.method() == Method::POST {
                            serve(edge, endpoint, String::new(), request).await
                        } else {
                            wrong_method(&edge, "POST", Shape::OpenAi)
                        }
                    },
                ),
            );
        }
    }
    for path in spellings(MODELS.route) {
        router = router.route(
            &path,
            any(|State(edge): State<Edge>, request: Request| async move {
                let endpoint = anthropic::models(MODELS, request.headers());
                if request.method() == Method::GET {
                    serve(edge, endpoint, String::new(), request).await
                } else {
                    wrong_method(&edge, "GET", error::shape(endpoint.dialect))
                }
            }),
        );
    }
    // Model names may hold slashes.
    for path in ["/v1/models/{*model}", "/models/{*model}"] {
        router = router.route(
            path,
            any(
                |State(edge): State<Edge>,
                 model: Result<Path<String>, PathRejection>,
                 request: Request| async move {
                    let endpoint = anthropic::models(MODEL, request.headers());
                    if request.method() != Method::GET {
                        return wrong_method(&edge, "GET", error::shape(endpoint.dialect));
                    }
                    // Percent-coding can hold bytes that are no text, and names are text.
                    let Ok(Path(model)) = model else {
                        let failure = Failure::new(
                            Reason::InvalidRequest,
                            "the model's name in the path is not valid UTF-8 once its percent-coding is undone",
                        );
                        let shape = error::shape(endpoint.dialect);
                        return refuse(&edge, &failure.param("model"), shape);
                    };
                    let model = model.trim_end_matches('/').to_owned();
                    serve(edge, endpoint, model, request).await
                },
            ),
        );
    }
    router
}
