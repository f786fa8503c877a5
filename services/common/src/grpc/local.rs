//! The neighbour's server in the same process, behind the generated client.
//!
//! Called directly, a server has no deadline, and a panic unwinds into the caller; both are closed here. The role table
//! applies as it does over a socket.

use std::{
    convert::Infallible,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response};
use tonic::{Status, body::Body};
use tower::Service;
use tracing::Instrument as _;

use crate::error::Failure;

use super::{
    Role, Rpc,
    context::inject_trace,
    role::{Caller, may_call},
    server::rpc_span,
};

/// A transport to a server in this process, as `role`.
pub fn local<S>(server: S, role: Role) -> Rpc
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Rpc::new(Local { server, role })
}

#[derive(Clone)]
struct Local<S> {
    server: S,
    role: Role,
}

impl<S> Service<Request<Body>> for Local<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.server
            .poll_ready(context)
            .map_err(|never| match never {})
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if !may_call(self.role, request.uri().path()) {
            let refusal = Status::permission_denied("this role may not call this method");
            return Box::pin(std::future::ready(Ok(refusal.into_http())));
        }
        inject_trace(request.headers_mut());
        let span = rpc_span(&request);
        request.extensions_mut().insert(Caller(self.role));
        let deadline = deadline(request.headers());
        let mut server = self.server.clone();
        // The call itself may panic as well as the future.
        let answer = AssertUnwindSafe(async move { server.call(request).await })
            .catch_unwind()
            .instrument(span);
        Box::pin(async move {
            let caught = match deadline {
                None => answer.await,
                Some(limit) => match tokio::time::timeout(limit, answer).await {
                    Ok(caught) => caught,
                    Err(_) => return Ok(Status::deadline_exceeded("Timeout expired").into_http()),
                },
            };
            Ok(match caught {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(panic) => panicked(&*panic).into_http(),
            })
        })
    }
}

/// What a caller gets when a handler panicked; the text goes to the log alone.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Status {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown");
    tracing::error!(panic = text, "handler panicked");
    Failure::internal().into()
}

/// `grpc-timeout`: at most 8 digits and a unit.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let value = digits.parse::<u64>().ok()?;
    Some(match unit {
        "n" => Duration::from_nanos(value),
        "u" => Duration::from_micros(value),
        "m" => Duration::from_millis(value),
        "S" => Duration::from_secs(value),
        "M" => Duration::from_secs(value.saturating_mul(60)),
        "H" => Duration::from_secs(value.saturating_mul(3_600)),
        _ => return None,
    })
}
