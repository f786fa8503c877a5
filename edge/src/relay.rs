//! One request to a forwarder and the first word of its answer.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use switchboard_common::{
    error::{Failure, Reason},
    grpc::{Answers, MAX_ANSWER, MAX_MESSAGE, Method, Rpc, not_sent},
};
use switchboard_proto::inference::v1::{
    RelayHead, RelayRequest, RelayResponse, inference_client::InferenceClient,
};
use tonic::Status;

/// A piece of a body in one message on the wire, bytes: large enough that nearly every body is one, which nobody has to put
/// together again, and well within what a message may have.
const PIECE: usize = 2 << 20;

/// The way to the forwarders.
#[derive(Clone)]
pub(crate) struct Forwarders(Method<RelayRequest, Answers<RelayResponse>>);

/// An answer that has begun.
pub(crate) struct Begun {
    /// The first message; it has the head.
    pub(crate) first: RelayResponse,
    /// What follows it.
    pub(crate) rest: Answers<RelayResponse>,
}

impl Forwarders {
    /// Over the wire another forwarder is tried, up to `tries` in all, when nothing was sent.
    pub(crate) fn new(rpc: &Rpc, tries: u32) -> Self {
        let client = InferenceClient::new(rpc.clone())
            .max_decoding_message_size(MAX_ANSWER)
            .max_encoding_message_size(MAX_MESSAGE);
        Self(Method::of(rpc, move |request, _| {
            over_the_wire(client.clone(), request, tries.max(1))
        }))
    }

    /// Sends the request and waits for the answer's head.
    pub(crate) async fn relay(&self, head: RelayHead, body: Bytes) -> Result<Begun, Failure> {
        let request = RelayRequest {
            turn: 0,
            head: Some(head),
            end: true,
            body,
        };
        self.begin(request)
            .await
            .map_err(|status| Failure::from_status(&status))
    }

    async fn begin(&self, request: RelayRequest) -> Result<Begun, Status> {
        let mut rest = self.0.ask(request, None).await?;
        match rest.next().await.transpose()? {
            Some(first) if first.head.is_some() => Ok(Begun { first, rest }),
            _ => {
                tracing::error!("a forwarder's answer began without a head");
                Err(Failure::new(Reason::Internal, Failure::internal().message).into())
            }
        }
    }
}

async fn over_the_wire(
    mut client: InferenceClient<Rpc>,
    request: RelayRequest,
    mut tries: u32,
) -> Result<Answers<RelayResponse>, Status> {
    loop {
        tries -= 1;
        match client.relay(stream::iter(pieces(request.clone()))).await {
            Ok(answers) => return Ok(answers.into_inner().boxed()),
            Err(status) if tries > 0 && not_sent(&status) => {}
            Err(status) => return Err(status),
        }
    }
}

/// The head with the first piece, then the other pieces; slices share the body's bytes.
fn pieces(mut opening: RelayRequest) -> impl Iterator<Item = RelayRequest> + Send {
    let mut left = opening.body.split_off(opening.body.len().min(PIECE));
    opening.end = left.is_empty();
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
