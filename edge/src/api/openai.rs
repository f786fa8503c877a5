//! OpenAI's paths, with and without `/v1`, a trailing slash tolerated (SURF-1).

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

use super::{Edge, Endpoint, anthropic, gemini, named, refuse, serve, spellings, wrong_method};
use crate::error;

const CHAT: Endpoint = call(
    "/v1/chat/completions",
    Dialect::OpenaiChat,
    proto::Endpoint::Unspecified,
);
const EMBEDDINGS: Endpoint = call(
    "/v1/embeddings",
    Dialect::OpenaiEmbeddings,
    proto::Endpoint::Unspecified,
);
const COMPLETIONS: Endpoint = call(
    "/v1/completions",
    Dialect::OpenaiCompletions,
    proto::Endpoint::Unspecified,
);
const IMAGES: Endpoint = call(
    "/v1/images/generations",
    Dialect::OpenaiImages,
    proto::Endpoint::Unspecified,
);
const IMAGE_EDITS: Endpoint = call(
    "/v1/images/edits",
    Dialect::OpenaiImages,
    proto::Endpoint::ImageEdit,
);
const SPEECH: Endpoint = call(
    "/v1/audio/speech",
    Dialect::OpenaiAudio,
    proto::Endpoint::Speech,
);
const TRANSCRIPTIONS: Endpoint = call(
    "/v1/audio/transcriptions",
    Dialect::OpenaiAudio,
    proto::Endpoint::Transcription,
);
const TRANSLATIONS: Endpoint = call(
    "/v1/audio/translations",
    Dialect::OpenaiAudio,
    proto::Endpoint::Translation,
);
const MODERATIONS: Endpoint = call(
    "/v1/moderations",
    Dialect::OpenaiModerations,
    proto::Endpoint::Unspecified,
);
const RERANK: Endpoint = call("/v1/rerank", Dialect::Rerank, proto::Endpoint::Unspecified);
/// Calls that have a body and answer with what a model made.
const CALLS: [Endpoint; 12] = [
    CHAT,
    EMBEDDINGS,
    RESPONSES,
    RESPONSE_TOKENS,
    COMPLETIONS,
    IMAGES,
    IMAGE_EDITS,
    SPEECH,
    TRANSCRIPTIONS,
    TRANSLATIONS,
    MODERATIONS,
    RERANK,
];
const RESPONSES: Endpoint = Endpoint {
    route: "/v1/responses",
    dialect: Dialect::OpenaiResponses,
    what: proto::Endpoint::Unspecified,
    has_body: true,
};
const RESPONSE_TOKENS: Endpoint = Endpoint {
    route: "/v1/responses/input_tokens",
    dialect: Dialect::OpenaiResponses,
    what: proto::Endpoint::CountTokens,
    has_body: true,
};
const RESPONSE: Endpoint = Endpoint {
    route: "/v1/responses/{id}",
    dialect: Dialect::OpenaiResponses,
    what: proto::Endpoint::Retrieve,
    has_body: false,
};
const CANCEL: Endpoint = Endpoint {
    route: "/v1/responses/{id}/cancel",
    what: proto::Endpoint::Cancel,
    ..RESPONSE
};
const INPUT_ITEMS: Endpoint = Endpoint {
    route: "/v1/responses/{id}/input_items",
    what: proto::Endpoint::InputItems,
    ..RESPONSE
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

const fn call(route: &'static str, dialect: Dialect, what: proto::Endpoint) -> Endpoint {
    Endpoint {
        route,
        dialect,
        what,
        has_body: true,
    }
}

pub(super) fn routes() -> Router<Edge> {
    let mut router = Router::new();
    for endpoint in CALLS {
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
                let endpoint = of_vendor(MODELS, request.headers());
                if request.method() == Method::GET {
                    serve(edge, endpoint, String::new(), request).await
                } else {
                    wrong_method(&edge, "GET, HEAD", error::shape(endpoint.dialect))
                }
            }),
        );
    }
    for (endpoint, allowed) in [
        (RESPONSE, "GET, DELETE"),
        (CANCEL, "POST"),
        (INPUT_ITEMS, "GET"),
    ] {
        for path in spellings(endpoint.route) {
            router = router.route(
                &path,
                any(
                    move |State(edge): State<Edge>,
                          id: Result<Path<String>, PathRejection>,
                          request: Request| async move {
                        let what = match (request.method(), endpoint.what) {
                            (&Method::DELETE, proto::Endpoint::Retrieve) => proto::Endpoint::Delete,
                            (&Method::POST, proto::Endpoint::Cancel) => endpoint.what,
                            (&Method::GET, what) if what != proto::Endpoint::Cancel => what,
                            _ => return wrong_method(&edge, allowed, Shape::OpenAi),
                        };
                        // An id that is no text is nobody's.
                        let id = id.map(|Path(id)| id).unwrap_or_default();
                        serve(edge, Endpoint { what, ..endpoint }, id, request).await
                    },
                ),
            );
        }
    }
    for path in spellings("/v1/responses/compact") {
        router = router.route(&path, any(compact));
    }
    // Model names may hold slashes. Gemini's paths lie here too.
    for path in ["/v1/models/{*model}", "/models/{*model}"] {
        router = router.route(
            path,
            any(
                |State(edge): State<Edge>,
                 model: Result<Path<String>, PathRejection>,
                 request: Request| async move {
                    let endpoint = of_vendor(MODEL, request.headers());
                    let shape = error::shape(endpoint.dialect);
                    let model = match named(model) {
                        Ok(model) => model,
                        Err(failure) => return refuse(&edge, &failure, shape),
                    };
                    match *request.method() {
                        Method::GET => serve(edge, endpoint, model, request).await,
                        // Only Gemini has calls on a model.
                        Method::POST if model.contains(':') => {
                            gemini::call(edge, &model, request).await
                        }
                        _ => wrong_method(&edge, "GET, HEAD", shape),
                    }
                },
            ),
        );
    }
    router
}

/// Compaction of a response's input is not served. The path would pass for that of a response.
async fn compact(State(edge): State<Edge>) -> Response<Body> {
    let text = "`/v1/responses/compact` is not served here; send the input whole, or with `truncation` set to `auto`";
    refuse(&edge, &Failure::new(Reason::NotFound, text), Shape::OpenAi)
}

/// The vendor's own form of an endpoint that several vendors' clients share.
fn of_vendor(endpoint: Endpoint, headers: &HeaderMap) -> Endpoint {
    anthropic::models(gemini::models(endpoint, headers), headers)
}
