//! What the gRPC library refuses by itself on the public listener comes with a reason and a request id like every error (ERR-1).

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use switchboard_common::error::{Failure, Reason};
use switchboard_common::grpc::Rpc;
use switchboard_integration_tests::stack::{Builder, GrpcCaller};
use switchboard_proto::inference::v1::RelayRequest;
use tonic::{Code, Status, body::Body};
use tower::ServiceExt as _;

scenarios! { [in_process, split] {
    errors_that_no_handler_wrote_have_a_reason_and_an_id,
} }

/// A message of this declared length, of which only these bytes come.
fn framed(length: u32, bytes: &[u8]) -> Vec<u8> {
    [&[0], &length.to_be_bytes()[..], bytes].concat()
}

async fn call(rpc: &Rpc, method: &str, message: Vec<u8>) -> Status {
    let request = Request::post(format!("/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(message))))
        .unwrap();
    let answer = rpc.clone().oneshot(request).await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let body = answer.into_body().collect().await.unwrap();
    let none = HeaderMap::new();
    Status::from_header_map(body.trailers().unwrap_or(&none)).unwrap()
}

fn assert_told(status: &Status, code: Code, reason: Reason) {
    assert_eq!(status.code(), code, "{status:?}");
    let failure = Failure::from_status(status);
    assert_eq!(failure.reason, reason, "{status:?}");
    assert!(!status.details().is_empty(), "{status:?}");
    let id = status.metadata().get("x-request-id").unwrap();
    assert_eq!(id.to_str().unwrap().len(), 36);
}

async fn errors_that_no_handler_wrote_have_a_reason_and_an_id(builder: Builder) {
    let stack = builder.start().await;
    let GrpcCaller { mut inference, rpc } = stack.grpc_caller("k");
    let generate = "switchboard.inference.v1.Inference/Generate";
    // A field that says it is longer than the message.
    let garbage = framed(3, b"\x0a\x7fx");
    let whole = framed(0, b"");
    for (method, message, code, reason) in [
        (
            generate,
            garbage,
            Code::InvalidArgument,
            Reason::InvalidRequest,
        ),
        (
            generate,
            framed(u32::MAX, b"x"),
            Code::OutOfRange,
            Reason::BodyTooLarge,
        ),
        (
            "switchboard.inference.v1.Inference/Degenerate",
            whole.clone(),
            Code::Unimplemented,
            Reason::MethodNotAllowed,
        ),
        (
            "switchboard.billing.v1.Billing/Reserve",
            whole,
            Code::Unimplemented,
            Reason::MethodNotAllowed,
        ),
    ] {
        assert_told(&call(&rpc, method, message).await, code, reason);
    }
    let relayed = futures_util::stream::iter([RelayRequest::default()]);
    let refused = inference.relay(relayed).await.unwrap_err();
    assert_told(&refused, Code::Unimplemented, Reason::MethodNotAllowed);
    stack.finish().await;
}
