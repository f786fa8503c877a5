//! The life of a request: admit → select → credential → send → relay → settle. One file a stage; values go in and come
//! out; whatever must not be lost is written down in the [`Course`], outside of the stages.
//!
//! A request runs as one tracked task. The RPC only reads its pipe; when the caller drops the RPC the task is told, never
//! dropped: `settle` always runs, also after a panic.

mod admit;
mod advance;
mod attempt;
mod credential;
mod ended;
mod head;
mod keep;
mod limits;
mod lost;
mod models;
mod page;
mod relay;
mod select;
mod send;
mod settle;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use switchboard_common::{
    clock::SharedClock,
    error::{Failure, Reason, ReasonExt as _},
    grpc::Rpc,
    rate_limit,
};
use switchboard_dialects::{AnswerStream, DialectRequest, TextBuffer, convert::Translation};
use switchboard_proto::{
    billing::v1::billing_client::BillingClient,
    common::v1::Dialect,
    scheduler::v1::{
        AttemptOutcome, Candidate, RateLimitState, TargetKey, scheduler_client::SchedulerClient,
    },
};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, info_span};

use self::{
    admit::{Admitted, Request},
    attempt::Attempted,
    settle::settle,
};
pub(crate) use self::{
    admit::{Body, Call},
    ended::Ended,
};
use crate::{
    adapter::Adapters,
    asked::shape,
    asks::Asks,
    caller::Caller,
    config::Config,
    courier::Courier,
    domain::{admission, outcome::Fault, retry::RetryBudget, settlement::End},
    journal::Journal,
    metrics::Meters,
    pipe::{Buffers, Share, Stop},
    principals::Principals,
    roster::{Place, Roster},
    routes::{Lease, Money},
    supply::Supply,
    tokens::Tokens,
    upstream::Upstreams,
    vault::Vault,
    warnings::Warnings,
};

/// What all requests share.
pub(crate) struct Conductor {
    pub(crate) config: Config,
    pub(crate) clock: SharedClock,
    pub(crate) meters: Meters,
    /// Bytes of answers that wait.
    pub(crate) buffers: Arc<Buffers>,
    /// Bytes of request bodies in flight.
    pub(crate) bodies: Arc<Buffers>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) principals: Principals,
    pub(crate) supply: Supply,
    pub(crate) vault: Vault,
    pub(crate) adapters: Adapters,
    pub(crate) upstreams: Upstreams,
    pub(crate) retries: RetryBudget,
    pub(crate) tokens: Tokens,
    pub(crate) journal: Journal,
    /// Accounts whose upstreams cannot be reached.
    pub(crate) warnings: Warnings,
    pub(crate) money: Courier<Money>,
    pub(crate) leases: Courier<Lease>,
    pub(crate) billing: BillingClient<Rpc>,
    pub(crate) scheduler: SchedulerClient<Rpc>,
    /// What is asked for each request.
    pub(crate) asks: Asks,
}

/// Where a request is, and what it owes.
pub(crate) struct Course {
    /// Its place among those that run, with its story.
    live: Place,
    /// How the caller speaks.
    dialect: Dialect,
    /// Who called, once let in.
    who: Option<Arc<admission::Caller>>,
    /// What was asked for, once it is known.
    request: Option<Arc<Request>>,
    /// Money and slots may have been taken.
    selecting: bool,
    /// Money and slots were taken.
    admitted: bool,
    /// A hold was taken, or may have been.
    held: bool,
    rate_limits: Vec<RateLimitState>,
    /// Who is tried now, and who is left, in order.
    candidate: Candidate,
    left: Vec<Candidate>,
    /// Tries on the last candidate after its 429.
    last_tries: u32,
    /// It is asked over a new connection, as one that it had closed was used.
    fresh: bool,
    /// How each target failed that was tried, in the order of their last attempts.
    failed: Vec<FailedTarget>,
    /// When the first byte of the attempt's answer must be there.
    first_byte_due: Option<Instant>,
    /// What the attempt taught that the scheduler does not know yet.
    outcome: Option<AttemptOutcome>,
    /// The answer that is being relayed.
    stream: Option<Box<dyn AnswerStream>>,
    /// The caller's edge knows what stream it is.
    introduced: bool,
    /// It is written down who keeps the answer.
    bound: bool,
    /// The answer may go on to be made in the background.
    unfinished: bool,
    /// The request in the dialect of the candidate, where that is not the caller's (DIAL-1).
    translated: Option<Translation>,
    /// Parameters that the account does not take and that were left out (FWD-11).
    dropped: Vec<String>,
    /// An account refused what another one sealed: the conversation goes without seals from now on (CASES C19).
    unsealed: bool,
    /// A whole answer's text, where it must be counted.
    text: Option<TextBuffer>,
    /// Its held bytes, counted.
    share: Share,
}

/// How a target failed when it was tried last.
struct FailedTarget {
    target: TargetKey,
    fault: Fault,
    /// Until when it is limited, if it said 429 for a while.
    limited_until: Option<Instant>,
}

/// Carries a request from its arrival to its settlement.
pub(crate) async fn run(conductor: Arc<Conductor>, call: Call, mut caller: Caller, live: Place) {
    let mut course = Course::new(live, &conductor, call.dialect);
    let conducted = AssertUnwindSafe(conduct(&conductor, call, &mut course, &mut caller));
    let end = match conducted.catch_unwind().await {
        Ok(Ok(end)) => end,
        Ok(Err(ended)) => {
            Box::pin(course.learn_limits(&conductor, &ended, &caller)).await;
            course.tell(ended, &caller)
        }
        Err(_) => course.give_up(&caller),
    };
    let span = info_span!(target: "trace", "settle");
    Box::pin(settle(&conductor, course, end, &caller))
        .instrument(span)
        .await;
}

/// The regular way. Errors are told to the caller by who called this. Stages that are over early are boxed: a stream lives
/// long, and its task keeps the room of the largest stage.
async fn conduct(
    conductor: &Arc<Conductor>,
    call: Call,
    course: &mut Course,
    caller: &mut Caller,
) -> Result<End, Ended> {
    let request = match Box::pin(admit::admit(conductor, call, course, caller)).await? {
        Admitted::Answered(end) => return Ok(end),
        Admitted::Request(request) => course.begin(request),
    };
    Box::pin(select::select(conductor, &request, course, caller)).await?;
    loop {
        let span = course.attempt_span();
        match attempt::attempt(conductor, &request, course, caller)
            .instrument(span)
            .await?
        {
            Attempted::Ended(end) => return Ok(end),
            Attempted::Failed(fault) => {
                Box::pin(advance::advance(conductor, &request, course, caller, fault)).await?;
            }
        }
    }
}

impl Course {
    fn new(live: Place, conductor: &Conductor, dialect: Dialect) -> Self {
        Self {
            live,
            dialect,
            who: None,
            request: None,
            selecting: false,
            admitted: false,
            held: false,
            rate_limits: Vec::new(),
            candidate: Candidate::default(),
            left: Vec::new(),
            last_tries: 0,
            fresh: false,
            failed: Vec::new(),
            first_byte_due: None,
            outcome: None,
            stream: None,
            introduced: false,
            bound: false,
            unfinished: false,
            translated: None,
            dropped: Vec::new(),
            unsealed: false,
            text: None,
            share: Share::none(&conductor.buffers),
        }
    }

    /// The request as the candidate is asked.
    fn asked<'a>(&'a self, request: &'a Request) -> &'a dyn DialectRequest {
        match &self.translated {
            Some(translated) => translated,
            None => request.asked.as_ref(),
        }
    }

    fn begin(&mut self, request: Arc<Request>) -> Arc<Request> {
        self.request = Some(Arc::clone(&request));
        self.live.story(|story| request.introduce(story));
        self.live.asks(request.prompt());
        Span::current()
            .record("gen_ai.operation.name", request.asked.operation())
            .record("gen_ai.request.model", &*request.resolved.public_name);
        request
    }

    fn has_content(&self) -> bool {
        self.live.story(|story| story.has_content())
    }

    /// Tells the caller why there is no more, and how the request has ended by that.
    fn tell(&self, ended: Ended, caller: &Caller) -> End {
        let failure = match ended {
            Ended::Failed(failure) => failure,
            Ended::Stopped(Stop::Left) => return End::Left,
            Ended::Stopped(Stop::Deadline) => Failure::new(
                Reason::UpstreamTimeout,
                "the request's total time is over (total)",
            ),
            Ended::Stopped(Stop::Shutdown) => {
                let failure = Failure::new(
                    Reason::Unavailable,
                    "the gateway is shutting down; try again",
                )
                .retry_after(Duration::from_secs(1));
                let code = failure.reason.wire_code();
                return self.fail(failure, caller, End::Lost(code));
            }
        };
        let code = failure.reason.wire_code();
        self.fail(failure, caller, End::Broke(code))
    }

    /// After a panic.
    fn give_up(&self, caller: &Caller) -> End {
        tracing::error!("a request panicked; it is settled as far as it came");
        let failure = Failure::internal();
        let code = failure.reason.wire_code();
        self.fail(failure, caller, End::Lost(code))
    }

    /// A refused request's limits came with the refusal; those of others are known here.
    fn fail(&self, mut failure: Failure, caller: &Caller, after_content: End) -> End {
        if failure.headers.is_empty() {
            let now_ms = self.live.now_ms();
            failure.headers = rate_limit::headers(self.dialect, &self.rate_limits, now_ms);
        }
        let end = self.failed(&failure, caller, after_content);
        caller.fail(failure);
        end
    }

    fn failed(&self, failure: &Failure, caller: &Caller, after_content: End) -> End {
        if self.has_content() {
            return after_content;
        }
        // An answer whose head went out early has its status already.
        let status = if caller.opened() {
            200
        } else {
            let reason = failure.reason;
            shape(self.dialect).status(reason.wire_code(), reason.http_status())
        };
        End::Failed(status, failure.reason.wire_code())
    }
}

impl Conductor {
    fn count_failure(&self, course: &Course, fault: &Fault) {
        let labels = crate::metrics::Failed {
            account: course.candidate.account.clone(),
            kind: fault.name(),
        };
        if fault.unreached() && self.warnings.due(&labels.account, self.clock.now_ms()) {
            tracing::warn!(
                account = %labels.account,
                kind = labels.kind,
                "no connection to an account's upstream; told once a minute at most"
            );
        }
        self.meters.failures.get_or_create(&labels).inc();
    }
}

/// A body without an answer's text.
const NOTHING: Bytes = Bytes::new();

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// PERF-3: a task lives as long as its stream.
    #[test]
    fn the_task_of_a_request_is_small() {
        let size = size_of_future(run);
        assert!(size <= 8 << 10, "{size} bytes");
    }
}
