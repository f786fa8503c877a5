//! OpenAI's paths, with and without `/v1`, a trailing slash tolerated (SURF-1).

use axum::{
    Router,
    extract::{Path, Request, State, rejection::PathRejection},
    http::Method,
    routing::any,
};
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::common::v1::{self as proto, Dialect};

use super::{Edge, Endpoint, refuse, serve, wrong_method};

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
                |State(edge): State<Edge>,
                 model: Result<Path<String>, PathRejection>,
                 request: Request| async move {
                    if request.method() != Method::GET {
                        return wrong_method(&edge, "GET");
                    }
                    // Percent-coding can hold bytes that are no text, and names are text.
                    let Ok(Path(model)) = model else {
                        let failure = Failure::new(
                            Reason::InvalidRequest,
                            "the model's name in the path is not valid UTF-8 once its percent-coding is undone",
                        );
                        return refuse(&edge, &failure.param("model"));
                    };
                    let model = model.trim_end_matches('/').to_owned();
                    serve(edge, MODEL, model, request).await
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
