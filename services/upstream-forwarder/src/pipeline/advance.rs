//! advance: after a failed attempt, who is tried next (SPEC FWD-4).

use std::{sync::Arc, time::Duration};

use rand::RngExt as _;
use switchboard_common::error::Failure;
use switchboard_proto::scheduler::v1::{AdvanceRequest, Candidate, TargetKey};
use tokio::time::Instant;

use super::{Conductor, Course, Ended, FailedTarget, admit::Request};
use crate::{
    asked::shape,
    caller::Caller,
    domain::{
        outcome::{Fault, Kind, telling},
        retry,
    },
};

/// Moves to the next candidate; where there is none, to the same one after a pause, or over a new connection.
///
/// # Errors
/// None is left: what the caller is told.
pub(super) async fn advance(
    conductor: &Conductor,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
    fault: Fault,
) -> Result<(), Ended> {
    course.note_failure(&fault);
    let made = course.live.story(|story| story.attempts.len());
    let allowed = match request.resolved.model.max_attempts {
        0 => 3,
        allowed => usize::try_from(allowed).unwrap_or(usize::MAX),
    };
    if made >= allowed || !conductor.retries.take(conductor.clock.now_us()) {
        return Err(course.last_word(request, &fault, None).into());
    }
    conductor.meters.retries.inc();
    let mut again_in = None;
    if !course.left.is_empty() {
        let asked = next(conductor, request, course, &fault, made);
        match caller.attend(asked).await? {
            Next::Granted => return Ok(()),
            Next::None(after) => again_in = after,
        }
    }
    if fault.kind == Kind::Worn {
        // Nobody's fault, and no other to ask: the same over a new connection, which cannot be worn.
        course.fresh = true;
        return Ok(());
    }
    if fault.rate_limited() && course.last_tries < conductor.config.last_tries {
        #[expect(clippy::disallowed_methods, reason = "jitter decides nothing")]
        let jitter = Duration::from_millis(rand::rng().random_range(0..=100));
        let patience = conductor.config.patience;
        if let Some(pause) = retry::pause(fault.retry_after, jitter, caller.time_left(), patience) {
            course.last_tries += 1;
            caller.attend(tokio::time::sleep(pause)).await?;
            return Ok(());
        }
    }
    Err(course.last_word(request, &fault, again_in).into())
}

fn key(candidate: &Candidate) -> TargetKey {
    TargetKey {
        account: candidate.account.clone(),
        upstream_model: candidate.upstream_model.clone(),
    }
}

enum Next {
    Granted,
    /// None is usable; the first may be again after this time.
    None(Option<Duration>),
}

/// Asks for the next candidate's slot, and tells what the attempt taught.
async fn next(
    conductor: &Conductor,
    request: &Request,
    course: &mut Course,
    fault: &Fault,
    made: usize,
) -> Next {
    let tried = &course.candidate;
    let message = AdvanceRequest {
        request_id: request.call.request_id.clone(),
        failed: Some(fault.outcome(&tried.account, &tried.upstream_model)),
        catalogue_version: request.catalogue_version,
        model: request.resolved.model.name.clone(),
        public_model: request.resolved.public_name.clone(),
        dialect: request.call.dialect as i32,
        endpoint: request.call.endpoint as i32,
        left: course.left.iter().map(key).collect(),
        tenant: request.who.principal.tenant.clone(),
        deadline_ms: request.deadline_ms(),
        attempt: u32::try_from(made).unwrap_or(u32::MAX),
        held: course.live.lease(),
        route: request.who.route(&request.resolved).cloned(),
    };
    let mut call = tonic::Request::new(message);
    call.set_timeout(conductor.config.peer_timeout);
    let answer = match conductor.scheduler.clone().advance(call).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => {
            tracing::warn!(code = ?status.code(), "the scheduler names no next candidate");
            return Next::None(None);
        }
    };
    course.outcome = None;
    let granted = answer.granted.and_then(|at| usize::try_from(at).ok());
    match granted.filter(|at| *at < course.left.len()) {
        Some(at) => {
            course.candidate = course.left.remove(at);
            course.last_tries = 0;
            course.fresh = false;
            if answer.lease.is_some() {
                course.live.set_lease(answer.lease);
            }
            Next::Granted
        }
        None => Next::None(answer.retry_after_ms.map(Duration::from_millis)),
    }
}

impl Course {
    /// Writes down how the target that was tried failed, and until when it says it is limited.
    fn note_failure(&mut self, fault: &Fault) {
        let tried = key(&self.candidate);
        self.failed.retain(|failed| failed.target != tried);
        let limit = fault.failure().retry_after;
        self.failed.push(FailedTarget {
            target: tried,
            fault: fault.clone(),
            limited_until: limit
                .filter(|_| fault.rate_limited())
                .map(|after| Instant::now() + after),
        });
    }

    /// The failure that [`telling`] chooses. When to come back is the earliest time at which anyone may be usable again: one of
    /// those that were tried, or one whom the scheduler left out (CASES D12).
    fn last_word(&self, request: &Request, fault: &Fault, again_in: Option<Duration>) -> Failure {
        let told = telling(self.failed.iter().map(|failed| &failed.fault));
        let mut failure = told
            .unwrap_or(fault)
            .failure_in(shape(request.call.dialect));
        if let Some(own) = failure.retry_after {
            let now = Instant::now();
            let limits = self.failed.iter().filter_map(|failed| failed.limited_until);
            let tried = limits.map(|at| at - now);
            failure.retry_after = tried.chain(again_in).chain([own]).min();
        }
        failure
    }
}
