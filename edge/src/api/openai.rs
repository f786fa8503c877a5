//! OpenAI's paths, with and without `/v1`, a trailing slash tolerated (SURF-1).

use axum::{
    Router,
    extract::{Path, Request, State},
    http::Method,
    routing::any,
};
use switchboard_proto::common::v1::Dialect;

use super::{Edge, Endpoint, serve, wrong_method};

const CHAT: Endpoint = Endpoint {
    route: "/v1/chat/completions",
    dialect: Dialect::OpenaiChat,
    has_body: true,
};
const EMBEDDINGS: Endpoint = Endpoint {
    route: "/v1/embeddings",
    dialect: Dialect::OpenaiEmbeddings,
    has_body: true,
};
const MODELS: Endpoint = Endpoint {
    route: "/v1/models",
    dialect: Dialect::OpenaiModels,
    has_body: false,
};
const MODEL: Endpoint = Endpoint {
    route: "/v1/models/{model}",
    dialect: Dialect::OpenaiModels,
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
                            wrong_method(&edge, "POST")
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
                if request.method() == Method::GET {
                    serve(edge, MODELS, String::new(), request).await
                } else {
                    wrong_method(&edge, "GET")
                }
            }),
        );
    }
    // Model names may hold slashes.
    for path in ["/v1/models/{*model}", "/models/{*model}"] {
        router = router.route(
            path,
            any(
                |State(edge): State<Edge>, Path(model): Path<String>, request: Request| async move {
                    if request.method() == Method::GET {
                        let model = model.trim_end_matches('/').to_owned();
                        serve(edge, MODEL, model, request).await
                    } else {
                        wrong_method(&edge, "GET")
                    }
                },
            ),
        );
    }
    router
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
