//! The one transport type under every generated client.

use std::{
    any::Any,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Service, ServiceExt as _};

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

/// A transport, whatever it is. Clones share it: clients are cloned for each call.
#[derive(Clone)]
pub struct Rpc {
    transport: Arc<dyn Transport>,
    /// What the peer can be asked without it: [`Method`](super::Method)s.
    methods: Arc<Vec<Arc<dyn Any + Send + Sync>>>,
}

trait Transport: Send + Sync {
    fn call(&self, request: Request<Body>) -> Answer;
}

struct Cloned<S>(S);

impl<S> Transport for Cloned<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Status>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    fn call(&self, request: Request<Body>) -> Answer {
        Box::pin(self.0.clone().oneshot(request))
    }
}

impl Rpc {
    /// Calls go to clones of `service`.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Status>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        Self {
            transport: Arc::new(Cloned(service)),
            methods: Arc::default(),
        }
    }

    pub(super) fn with(mut self, method: Arc<dyn Any + Send + Sync>) -> Self {
        Arc::make_mut(&mut self.methods).push(method);
        self
    }

    pub(super) fn methods(&self) -> &[Arc<dyn Any + Send + Sync>] {
        &self.methods
    }
}

impl Service<Request<Body>> for Rpc {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        self.transport.call(request)
    }
}

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rpc")
    }
}
