//! One request to a forwarder and the first word of its answer.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_common::{
    error::{Failure, Reason},
    grpc::{MAX_MESSAGE, Rpc, not_sent},
};
use switchboard_proto::inference::v1::{
    RelayHead, RelayRequest, RelayResponse, inference_client::InferenceClient,
};
use tonic::{Status, Streaming};

/// A piece of a body in one message, bytes: large enough that nearly every body is one, which nobody has to put together
/// again, and well within what a message may have.
const PIECE: usize = 2 << 20;

/// The way to the forwarders.
#[derive(Clone)]
pub(crate) struct Forwarders {
    rpc: Rpc,
    tries: u32,
}

/// An answer that has begun.
pub(crate) struct Begun {
    /// The first message; it has the head.
    pub(crate) first: RelayResponse,
    /// What follows it.
    pub(crate) rest: Streaming<RelayResponse>,
}

impl Forwarders {
    pub(crate) fn new(rpc: Rpc, tries: u32) -> Self {
        Self {
            rpc,
            tries: tries.max(1),
        }
    }

    /// Sends the request and waits for the answer's head. Another forwarder gets it only when nothing of it was sent.
    pub(crate) async fn relay(&self, head: RelayHead, body: Bytes) -> Result<Begun, Failure> {
        let head = Arc::new(head);
        let mut tries = self.tries;
        loop {
            tries -= 1;
            match self.once(&head, &body).await {
                Ok(begun) => return Ok(begun),
                Err(status) if tries > 0 && not_sent(&status) => {}
                Err(status) => return Err(Failure::from_status(&status)),
            }
        }
    }

    async fn once(&self, head: &Arc<RelayHead>, body: &Bytes) -> Result<Begun, Status> {
        let mut client = InferenceClient::new(self.rpc.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let mut rest = client
            .relay(futures_util::stream::iter(messages(head, body)))
            .await?
            .into_inner();
        match rest.message().await? {
            Some(first) if first.head.is_some() => Ok(Begun { first, rest }),
            _ => {
                tracing::error!("a forwarder's answer began without a head");
                Err(Failure::new(Reason::Internal, Failure::internal().message).into())
            }
        }
    }
}

/// The head with the first piece, then the other pieces; slices share the body's bytes.
fn messages(head: &RelayHead, body: &Bytes) -> impl Iterator<Item = RelayRequest> + Send + use<> {
    let first = body.slice(..body.len().min(PIECE));
    let mut left = body.slice(first.len()..);
    let opening = RelayRequest {
        turn: 0,
        head: Some(head.clone()),
        end: left.is_empty(),
        body: first,
    };
    std::iter::once(opening).chain(std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let piece = left.split_to(left.len().min(PIECE));
        Some(RelayRequest {
            turn: 0,
            head: None,
            end: left.is_empty(),
            body: piece,
        })
    }))
}
