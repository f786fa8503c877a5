//! Request ids on answers and errors (CON-6), and a pipe's messages put together.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use switchboard_common::error::Failure;
use switchboard_proto::inference::v1::{RelayResponse, ResponseHead};
use tonic::{Response, Status, metadata::MetadataValue};

use crate::domain::outcome::failure_in;

const REQUEST_ID: &str = "x-request-id";

/// An answer with its request id in the initial metadata.
pub(super) fn with_request_id<T>(answer: T, id: &str) -> Response<T> {
    let mut response = Response::new(answer);
    if let Ok(value) = MetadataValue::try_from(id) {
        response.metadata_mut().insert(REQUEST_ID, value);
    }
    response
}

/// An error with its request id in the trailers.
pub(super) fn mark(mut status: Status, id: &str) -> Status {
    if let Ok(value) = MetadataValue::try_from(id) {
        status.metadata_mut().insert(REQUEST_ID, value);
    }
    status
}

/// The head of an answer and its first bytes; an answer that is an error becomes a status.
pub(super) async fn head(
    answers: &mut (impl Stream<Item = Result<RelayResponse, Status>> + Unpin),
) -> Result<(ResponseHead, Bytes), Status> {
    let first = answers.next().await.transpose()?.unwrap_or_default();
    let head = first.head.unwrap_or_default();
    match u16::try_from(head.status) {
        Ok(status @ 400..) => Err(failure_in(status, &first.frame).into()),
        _ => Ok((head, first.frame)),
    }
}

/// The body of a whole answer: it comes in one message.
pub(super) async fn body(
    mut answers: impl Stream<Item = Result<RelayResponse, Status>> + Unpin,
) -> Result<Bytes, Status> {
    let (_, body) = head(&mut answers).await?;
    Ok(body)
}

/// JSON of an answer that was checked before.
pub(super) fn json<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, Status> {
    serde_json::from_slice(body).map_err(|_| {
        tracing::error!("an answer has no typed form");
        Failure::internal().into()
    })
}
