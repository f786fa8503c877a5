//! One method of a peer, asked with its message as it is where the peer runs in this process.
//!
//! What each request asks would otherwise be encoded, framed, copied and decoded between two parts of one process: for a
//! short answer that is a fifth of its cost, for a large body three copies. A neighbour that offers a method straight
//! ([`Rpc::offering`]) is called instead; the deadline, the span, the role table and the care about panics are as on
//! the way through [`local`](super::local). Everywhere else, and for all that is rare, the generated clients serve.

use std::{any::Any, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, Stream};
use tonic::{IntoRequest, Request, Status};
use tracing::Instrument as _;

use super::{Role, Rpc, local::panicked, role::may_call};

/// Messages of a peer, one after the other.
pub type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

type Answer<A> = Pin<Box<dyn Future<Output = Result<A, Status>> + Send>>;

/// A method that takes `Q` and gives `A`. Clones share it.
pub struct Method<Q, A>(Arc<dyn Fn(Q, Option<Duration>) -> Answer<A> + Send + Sync>);

impl<Q, A> Clone for Method<Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q, A> std::fmt::Debug for Method<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Method")
    }
}

impl<Q: Send + 'static, A: Send + 'static> Method<Q, A> {
    /// The method that `rpc`'s neighbour offers straight, else one that asks `over` the wire. `over` gets the message and
    /// the time that the answer may take.
    pub fn of<F>(rpc: &Rpc, over: impl Fn(Q, Option<Duration>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<A, Status>> + Send + 'static,
    {
        rpc.offered().unwrap_or_else(|| {
            Self(Arc::new(move |message, within| {
                Box::pin(over(message, within))
            }))
        })
    }

    /// `work` in this process, which is `path` to the tracing.
    fn straight<F>(path: &'static str, work: impl Fn(Q) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<A, Status>> + Send + 'static,
    {
        let work = Arc::new(work);
        Self(Arc::new(move |message, within| {
            let work = Arc::clone(&work);
            let span = tracing::info_span!(
                target: "trace",
                "rpc",
                otel.name = path,
                otel.kind = "server",
                rpc.system = "grpc",
            );
            // The call itself may panic as well as the future.
            let answer = AssertUnwindSafe(async move { work(message).await })
                .catch_unwind()
                .map(|caught| caught.unwrap_or_else(|panic| Err(panicked(&*panic))));
            match within {
                None => Box::pin(answer.instrument(span)),
                Some(limit) => Box::pin(async move {
                    let answer = tokio::time::timeout(limit, answer.instrument(span));
                    let late = |_| Status::deadline_exceeded("Timeout expired");
                    answer.await.map_err(late)?
                }),
            }
        }))
    }

    /// Asks. The answer may take as long as `within` says.
    ///
    /// # Errors
    /// The peer's own, or that of the way to it.
    pub async fn ask(&self, message: Q, within: Option<Duration>) -> Result<A, Status> {
        (self.0)(message, within).await
    }
}

impl Rpc {
    /// Also calls `work` straight for the method at `path`, where `caller` may call it. A peer has one method of the same
    /// message and answer: they are found by both.
    #[must_use]
    pub fn offering<Q, A, F>(
        self,
        caller: Role,
        path: &'static str,
        work: impl Fn(Q) -> F + Send + Sync + 'static,
    ) -> Self
    where
        Q: Send + 'static,
        A: Send + 'static,
        F: Future<Output = Result<A, Status>> + Send + 'static,
    {
        if may_call(caller, path) {
            self.with(Arc::new(Method::straight(path, work)))
        } else {
            self
        }
    }

    fn offered<Q: 'static, A: 'static>(&self) -> Option<Method<Q, A>> {
        let mut all = self.methods().iter();
        all.find_map(|one: &Arc<dyn Any + Send + Sync>| one.downcast_ref::<Method<Q, A>>())
            .cloned()
    }
}

/// A message with the time that its answer may take, as the wire has it.
pub fn within<Q>(message: impl IntoRequest<Q>, within: Option<Duration>) -> Request<Q> {
    let mut request = message.into_request();
    if let Some(limit) = within {
        request.set_timeout(limit);
    }
    request
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    const RELAY: &str = "/switchboard.inference.v1.Inference/Relay";

    fn away() -> Rpc {
        Rpc::new(tower::service_fn(|_request| async {
            Ok(Status::unavailable("away").into_http())
        }))
    }

    fn method(rpc: &Rpc) -> Method<u32, u64> {
        Method::of(rpc, |_, _| async { Err(Status::unavailable("away")) })
    }

    #[tokio::test]
    async fn what_a_neighbour_offers_is_called_and_anything_else_goes_over_the_wire() {
        let twice = |number: u32| async move { Ok(u64::from(number) * 2) };
        let offering = away().offering(Role::Edge, RELAY, twice);
        assert_eq!(method(&offering).ask(21, None).await.unwrap(), 42);
        // A role that may not call it gets what the wire says of that.
        let refused = away().offering(Role::Billing, RELAY, twice);
        for rpc in [away(), refused] {
            let status = method(&rpc).ask(21, None).await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_an_internal_error_and_an_answer_that_is_late_none() {
        let work = |number: u32| {
            assert!(number != 0, "secret");
            async move {
                assert!(number != 1, "secret");
                std::future::pending::<()>().await;
                Ok(u64::from(number))
            }
        };
        let method = method(&away().offering(Role::Edge, RELAY, work));
        for (number, within) in [
            (0, None),
            (1, None),
            (0, Some(Duration::MAX)),
            (1, Some(Duration::MAX)),
        ] {
            let status = method.ask(number, within).await.unwrap_err();
            assert_eq!(status.code(), Code::Internal);
            assert!(!status.message().contains("secret"));
        }
        let late = method.ask(2, Some(Duration::from_secs(1))).await;
        assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
    }
}
