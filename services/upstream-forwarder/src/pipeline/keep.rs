//! keep: responses that upstreams keep (SCHED-6): who keeps which is written down before its caller learns the id, and looked
//! up when someone asks for it.
//!
//! A response that is made in the background is settled twice: provisionally with what was expected of it when it was begun,
//! and finally with what was used when its end is first seen. Seeing the end again changes nothing: a request is settled once.

use std::{
    future::{Future, poll_fn},
    pin::pin,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use prost::Message as _;
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::{Finished, UsageReport};
use switchboard_proto::{
    billing::v1::Settlement,
    scheduler::v1::{BindResponseRequest, FindResponseRequest, ResponseBinding},
};

use super::{
    Conductor, Course, Ended,
    admit::{Call, Request},
    settle,
};
use crate::{
    asked::stored_call,
    caller::Caller,
    domain::{admission, settlement},
    pipe::Stop,
    usage,
};

/// What is known of the response that a call is about; `None`: it is about none.
///
/// # Errors
/// 404: the caller's tenant has no such response. No account is asked.
pub(super) async fn find(
    conductor: &Conductor,
    call: &Call,
    who: &admission::Caller,
    caller: &mut Caller,
) -> Result<Option<ResponseBinding>, Ended> {
    if stored_call(call.endpoint).is_none() {
        return Ok(None);
    }
    let mut asked = tonic::Request::new(FindResponseRequest {
        tenant: who.principal.tenant.clone(),
        response_id: call.resource.clone(),
    });
    asked.set_timeout(conductor.config.peer_timeout);
    let mut scheduler = conductor.scheduler.clone();
    let found = caller.attend(scheduler.find_response(asked)).await?;
    let found = found.map_err(|status| Failure::from_status(&status))?;
    match found.into_inner().binding {
        Some(binding) => Ok(Some(binding)),
        None => Err(not_found(&call.resource).into()),
    }
}

fn not_found(id: &str) -> Failure {
    let id: String = id.chars().take(128).collect();
    Failure::new(
        Reason::NotFound,
        format!("there is no response `{id}`, or it is kept no longer"),
    )
}

/// Why a model cannot be used, to someone who asked for a response of it.
pub(super) fn of_kept(kept: Option<&ResponseBinding>, failure: Failure) -> Failure {
    if kept.is_some() && failure.reason == Reason::ModelNotFound {
        let text = "the model of this response is not served any more";
        return Failure::new(Reason::PreviousResponseUnavailable, text);
    }
    failure
}

/// Writes down who keeps the answer, once. What cannot be written down costs the caller the continuation, not the answer.
///
/// # Errors
/// The caller is not to be served on.
pub(super) async fn bind(
    conductor: &Conductor,
    request: &Request,
    course: &mut Course,
    caller: &mut Caller,
    id: String,
) -> Result<(), Stop> {
    let binding = begin(conductor, request, course, id);
    caller.attend(binding).await
}

/// Waits for something, and gets on with writing down who keeps the answer until then.
pub(super) async fn meanwhile<F: Future>(
    binding: &mut Option<BoxFuture<'_, ()>>,
    awaited: F,
) -> F::Output {
    let mut awaited = pin!(awaited);
    poll_fn(|cx| {
        if let Some(writing) = binding
            && writing.as_mut().poll(cx).is_ready()
        {
            *binding = None;
        }
        awaited.as_mut().poll(cx)
    })
    .await
}

/// The writing that [`bind`] waits for.
pub(super) fn begin<'a>(
    conductor: &'a Conductor,
    request: &'a Request,
    course: &mut Course,
    id: String,
) -> BoxFuture<'a, ()> {
    course.bound = true;
    course.unfinished = request.asked.background();
    let unsettled = if course.unfinished {
        let now_us = course.live.elapsed_us();
        let settlement = course.live.story(|story| story.unfinished(now_us));
        settlement.encode_to_vec().into()
    } else {
        Bytes::new()
    };
    let binding = ResponseBinding {
        account: course.candidate.account.clone(),
        public_model: request.resolved.public_name.clone(),
        unsettled,
    };
    conductor.bind(request, id, binding).boxed()
}

/// Whether a request asks for a response that may owe something.
pub(super) fn may_owe(request: &Request) -> bool {
    let kept = request.kept.as_ref();
    kept.is_some_and(|kept| !kept.unsettled.is_empty())
}

/// The end of a response that was asked for is seen: what it owes is settled, once.
pub(super) async fn seen(
    conductor: &Conductor,
    request: &Request,
    finished: Option<Finished>,
    report: Option<&UsageReport>,
) {
    let (Some(kept), Some(finished)) = (&request.kept, finished) else {
        return;
    };
    let Ok(unfinished) = Settlement::decode(kept.unsettled.clone()) else {
        tracing::error!("what a background response owes cannot be read");
        return;
    };
    let used = report.map(|report| usage::to_wire(&report.usage));
    let raw = report.map(|report| report.raw.clone()).unwrap_or_default();
    let settlement = settlement::finished(unfinished, finished, used, &raw);
    settle::hand_over(conductor, settlement).await;
    // From here on it is the journal's; a second settlement would change nothing.
    let binding = ResponseBinding {
        unsettled: Bytes::new(),
        ..kept.clone()
    };
    let id = request.call.resource.clone();
    conductor.bind(request, id, binding).await;
}

impl Conductor {
    async fn bind(&self, request: &Request, id: String, binding: ResponseBinding) {
        let mut asked = tonic::Request::new(BindResponseRequest {
            tenant: request.who.principal.tenant.clone(),
            response_id: id,
            binding: Some(binding),
        });
        asked.set_timeout(self.config.peer_timeout);
        if let Err(status) = self.scheduler.clone().bind_response(asked).await {
            self.meters.unbound.inc();
            tracing::warn!(request_id = %request.call.request_id, code = ?status.code(), "it could not be written down who keeps a response; it cannot be continued");
        }
    }
}

impl Course {
    /// The response that is relayed has ended: nothing is left to be seen.
    pub(super) fn note_finished(&mut self) {
        let stream = self.stream.as_deref();
        if stream.is_some_and(|stream| stream.finished().is_some()) {
            self.unfinished = false;
        }
    }
}
