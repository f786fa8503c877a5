//! A caller over the public gRPC listener.

use switchboard_common::grpc::Rpc;
use switchboard_proto::inference::v1::inference_client::InferenceClient;
use switchboard_proto::inference::v1::{ContentPart, GenerateRequest, Message, content_part};

use super::admin;

/// Clients of the public services with one key.
#[derive(Clone, Debug)]
pub struct GrpcCaller {
    /// Inference.
    pub inference: InferenceClient<Rpc>,
    /// The transport, for other services of the listener.
    pub rpc: Rpc,
}

impl GrpcCaller {
    pub(super) fn new(address: &str, key: &str) -> Self {
        let rpc = admin::rpc(address, key);
        Self {
            inference: InferenceClient::new(rpc.clone()),
            rpc,
        }
    }

    /// A request of one user message.
    #[must_use]
    pub fn request(model: &str, stream: bool) -> GenerateRequest {
        let text = content_part::Part::Text("Say something short.".to_owned());
        GenerateRequest {
            model: model.to_owned(),
            messages: vec![Message {
                role: "user".to_owned(),
                content: vec![ContentPart { part: Some(text) }],
                ..Message::default()
            }],
            stream,
            ..GenerateRequest::default()
        }
    }
}
