//! `Embed`: a typed view of `openai.embeddings`.

use futures_util::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use switchboard_common::error::Failure;
use switchboard_proto::{
    common::v1::Dialect,
    inference::v1::{EmbedRequest, EmbedResponse, Embedding, RelayResponse},
};
use tonic::Status;

use super::{
    answer::report,
    intake::{Intake, bounded},
    reply,
};
use crate::pipeline::{Body, Call};

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    model: String,
    data: Vec<Vector>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Vector {
    #[serde(default)]
    index: u32,
    embedding: Vec<f32>,
}

/// The call that a request means.
pub(super) fn call(intake: Intake, request: EmbedRequest) -> Result<Call, Status> {
    let mut call = intake.call;
    call.dialect = Dialect::OpenaiEmbeddings;
    let body = serde_json::to_vec(&Asked {
        model: &request.model,
        input: &request.input,
        encoding_format: "float",
        dimensions: request.dimensions,
        user: request.user.as_deref(),
    });
    let body = body.map_err(|_| Status::from(Failure::internal()))?;
    call.body = Body::Whole(body.into());
    call.client_request_id = bounded(request.client_request_id, 256);
    call.tags = bounded(request.tags, 1_024);
    Ok(call)
}

/// The answer.
pub(super) async fn answer(
    answers: impl Stream<Item = Result<RelayResponse, Status>> + Send + 'static,
) -> Result<EmbedResponse, Status> {
    let body = reply::body(answers.boxed()).await?;
    let answer: Answer<'_> = reply::json(&body)?;
    let vector = |vector: Vector| Embedding {
        index: vector.index,
        vector: vector.embedding,
    };
    let mut embeddings: Vec<_> = answer.data.into_iter().map(vector).collect();
    embeddings.sort_by_key(|embedding| embedding.index);
    Ok(EmbedResponse {
        model: answer.model,
        embeddings,
        usage: answer.usage.and_then(|usage| report(usage.get())),
    })
}
