//! select: money and an account, asked for at the same time (DESIGN §4).
//!
//! A refusal of either undoes the other; when both refuse, money's word counts. A caller that leaves undoes both. The
//! undoing itself is `settle`'s: it must happen whatever becomes of this stage.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::DialectRequest;
use switchboard_proto::{
    billing::v1::{ReserveRequest, ReserveResponse},
    scheduler::v1::{AcquireRequest, AcquireResponse, RateLimitState},
};
use tonic::{Code, Status};

use super::{Conductor, Course, Ended, admit::Request, head, limits};
use crate::{
    asked::capabilities,
    caller::{Caller, Elapsed},
    domain::catalogue::Resolved,
    roster::Live,
};

/// Output that is expected when nothing else is known, tokens (BILL-3).
const EXPECTED_OUTPUT: u64 = 4_096;

pub(super) async fn select(
    conductor: &Arc<Conductor>,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
) -> Result<(), Ended> {
    (course.selecting, course.held) = (true, !request.asked.free());
    let reserve = pin!(reserve(conductor, request));
    let acquire = pin!(acquire(conductor, request));
    // From then on it shows life, however long it waits: else silence would end the hold before the request runs.
    let live = Arc::clone(&course.live);
    let note = |hold: &Option<ReserveResponse>| note_hold(&live, hold.as_ref());
    let mut both = pin!(both(reserve, note, acquire));
    let (hold, lease) = match request.head_goes_out_at() {
        None => caller.attend(both).await?,
        Some(at) => {
            let before = at.checked_sub(limits::PATIENCE).unwrap_or(at);
            match caller.attend_until(before, both.as_mut()).await? {
                Ok(answers) => answers,
                Err(Elapsed) => {
                    // The head goes out while the request waits, with the rates as they are now.
                    let rates = Box::pin(limits::of_request(conductor, request));
                    let rates = caller.attend(rates).await?;
                    show_head(request, course, &rates, caller);
                    caller.attend(both).await?
                }
            }
        }
    };
    let hold = match hold {
        Ok(hold) => hold,
        Err(mut refused) => {
            // The scheduler knew the caller's rates before money was refused.
            match lease {
                Some(Ok(lease)) => course.rate_limits = lease.rate_limits,
                Some(Err(also)) => refused.headers = also.headers,
                None => {}
            }
            return Err(refused.into());
        }
    };
    let lease = lease.unwrap_or_else(|| Err(Failure::internal()))?;
    course.take(hold.as_ref(), lease)?;
    if request.streams() {
        show_head(request, course, &course.rate_limits, caller);
    }
    Ok(())
}

fn show_head(request: &Request, course: &Course, rates: &[RateLimitState], caller: &mut Caller) {
    let empty = http::HeaderMap::new();
    caller.set_head(head::of_stream(request, rates, Some((course, &empty))));
}

fn note_hold(live: &Live, hold: Option<&ReserveResponse>) {
    live.story(|story| {
        story.held = hold.is_some();
        story.held_nanos = hold.map_or(0, |hold| hold.held_nanos);
        story.held_tokens = hold.map_or(0, |hold| hold.held_tokens);
        story.output_cap = hold.and_then(|hold| hold.output_cap).unwrap_or(0);
    });
}

/// Both answers; a hold is noted as soon as it is there, a lease that is not there yet is not waited for once the hold is refused.
async fn both<H, L>(
    mut reserve: Pin<&mut impl Future<Output = Result<H, Failure>>>,
    note: impl FnOnce(&H),
    mut acquire: Pin<&mut impl Future<Output = L>>,
) -> (Result<H, Failure>, Option<L>) {
    tokio::select! {
        biased;
        hold = &mut reserve => match hold {
            Ok(hold) => {
                note(&hold);
                (Ok(hold), Some(acquire.await))
            }
            refused => (refused, acquire.now_or_never()),
        },
        lease = &mut acquire => (reserve.await, Some(lease)),
    }
}

/// Sets money aside. `None`: nothing is owed for it (SURF-1), or billing cannot be reached and the tenant is served
/// without it.
async fn reserve(
    conductor: &Conductor,
    request: &Request,
) -> Result<Option<ReserveResponse>, Failure> {
    if request.asked.free() {
        return Ok(None);
    }
    let who = &request.who.principal;
    let message = || ReserveRequest {
        request_id: request.call.request_id.clone(),
        party: Some(request.party()),
        public_model: request.resolved.public_name.clone(),
        price_version: request.price_version,
        input_bytes: request.asked.text_bytes(),
        requested_output: request.asked.output_limit(),
        model_max_output: request.resolved.model.max_output,
        choices: request.asked.choices(),
        strict: who.strict_hold,
        prepaid: who.prepaid,
        no_output: !request.asked.generates(),
        images: request.asked.images(),
        audio_millis: request.asked.audio_millis(),
        uncapped: !request.asked.can_be_capped(),
    };
    let within = Some(conductor.config.peer_timeout);
    let call = || conductor.asks.reserve.ask(message(), within);
    match ask(call, 2).await {
        Ok(hold) => Ok(Some(hold)),
        Err(failure) if failure.reason == Reason::Unavailable => {
            if !who.prepaid && who.serve_without_billing {
                return Ok(None);
            }
            Err(Failure::new(
                Reason::Unavailable,
                "the account's budget cannot be checked right now",
            )
            .retry_after(Duration::from_secs(1)))
        }
        Err(failure) => Err(failure),
    }
}

/// Takes limits and a slot; waits in the queue.
async fn acquire(conductor: &Conductor, request: &Request) -> Result<AcquireResponse, Failure> {
    let who = &request.who.principal;
    let asked = &request.asked;
    let message = || AcquireRequest {
        request_id: request.call.request_id.clone(),
        catalogue_version: request.catalogue_version,
        model: request.resolved.model.name.clone(),
        public_model: request.resolved.public_name.clone(),
        dialect: request.call.dialect as i32,
        endpoint: request.call.endpoint as i32,
        stream: request.streams(),
        capabilities: capabilities(asked.needs()),
        estimated_tokens: estimated_tokens(request),
        demand: Some(limits::demand(who)),
        arrived_ms: request.call.arrived_us / 1_000,
        deadline_ms: request.deadline_ms(),
        route: request.who.route(&request.resolved).cloned(),
        response_id: asked.previous_response().unwrap_or_default().to_owned(),
    };
    // A scheduler that dies takes its queue along: who waited there queues again, with the age it has.
    let call = || conductor.asks.acquire.ask(message(), None);
    ask(call, 5).await
}

/// Tokens that a request is expected to use: what is taken of its limits until it is known.
pub(super) fn estimated_tokens(request: &Request) -> u64 {
    if request.asked.free() {
        return 0;
    }
    let input = request.asked.text_bytes().div_ceil(3);
    let output = expected_output(request.asked.as_ref(), &request.resolved);
    input.saturating_add(output)
}

/// Output tokens of all answers that are expected before anything is known of them.
pub(super) fn expected_output(asked: &dyn DialectRequest, resolved: &Resolved) -> u64 {
    if !asked.generates() {
        return 0;
    }
    let limits = [asked.output_limit(), resolved.model.max_output];
    let output = limits.into_iter().flatten().fold(EXPECTED_OUTPUT, u64::min);
    output.saturating_mul(u64::from(asked.choices()))
}

/// Asks a peer, again when the line broke: both calls are one however often they are asked.
async fn ask<T, F>(mut call: impl FnMut() -> F, tries: u32) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut left = tries;
    loop {
        left -= 1;
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(status) if left > 0 && line_broke(&status) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(status) => return Err(Failure::from_status(&status)),
        }
    }
}

/// The peer said nothing: a status of the transport's own.
fn line_broke(status: &Status) -> bool {
    let transport = matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled
    );
    transport && status.details().is_empty()
}

impl Course {
    /// Writes down what was taken.
    fn take(
        &mut self,
        hold: Option<&ReserveResponse>,
        lease: AcquireResponse,
    ) -> Result<(), Failure> {
        self.held = hold.is_some();
        self.admitted = true;
        self.rate_limits = lease.rate_limits;
        self.live.set_lease(lease.lease);
        note_hold(&self.live, hold);
        self.live.story(|story| {
            story.admitted = true;
            story.decision_json = lease.decision_json;
            story.queue_us = lease.queued_us;
        });
        self.left = lease.candidates;
        let granted = usize::try_from(lease.granted).unwrap_or(usize::MAX);
        if granted >= self.left.len() {
            tracing::error!("the scheduler granted a candidate that it did not name");
            return Err(Failure::internal());
        }
        self.candidate = self.left.remove(granted);
        Ok(())
    }
}
