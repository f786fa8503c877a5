//! The caller's own rates, for the headers of every answer (SPEC FLOW-5).
//!
//! What `Acquire` answered or refused carries them. For an answer that it had no part in, the scheduler is asked for them; an
//! answer never fails for want of them.

use std::time::Duration;

use bytes::Bytes;
use switchboard_common::rate_limit;
use switchboard_proto::{
    auth::v1::Principal,
    common::v1::Limits,
    inference::v1::Header,
    scheduler::v1::{Demand, GetRateLimitsRequest, RateLimitState},
};

use super::{Conductor, Course, Ended, admit::Request};
use crate::{caller::Caller, domain::admission, pipe::Stop};

/// How long an answer waits for its headers at most.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Whose limits count for this caller.
pub(super) fn demand(who: &Principal) -> Demand {
    Demand {
        tenant: who.tenant.clone(),
        user: who.user.clone(),
        key_id: who.key_id.clone(),
        group: who.group.clone(),
        tenant_limits: who.tenant_limits,
        user_limits: who.user_limits,
        key_limits: who.key_limits,
        group_limits: who.group_limits,
        group_user_limits: who.group_user_limits,
    }
}

/// The rates that count for a request.
pub(super) async fn of_request(conductor: &Conductor, request: &Request) -> Vec<RateLimitState> {
    let model = &request.resolved.model.name;
    of(
        conductor,
        &request.who,
        Some((model, request.catalogue_version)),
    )
    .await
}

/// The rates of a caller, and of a model in a version of the catalogue.
pub(super) async fn of(
    conductor: &Conductor,
    who: &admission::Caller,
    model: Option<(&str, u64)>,
) -> Vec<RateLimitState> {
    let who = &who.principal;
    let own = [
        &who.tenant_limits,
        &who.user_limits,
        &who.key_limits,
        &who.group_limits,
        &who.group_user_limits,
    ];
    if model.is_none() && !own.into_iter().flatten().any(has_rates) {
        return Vec::new();
    }
    let (model, catalogue_version) = model.unwrap_or_default();
    let mut call = tonic::Request::new(GetRateLimitsRequest {
        demand: Some(demand(who)),
        model: model.to_owned(),
        catalogue_version,
    });
    call.set_timeout(conductor.config.peer_timeout.min(PATIENCE));
    match conductor.scheduler.clone().get_rate_limits(call).await {
        Ok(answer) => answer.into_inner().rate_limits,
        Err(status) => {
            tracing::debug!(code = ?status.code(), "an answer goes without the caller's rates");
            Vec::new()
        }
    }
}

fn has_rates(limits: &Limits) -> bool {
    let Limits {
        requests_per_second,
        requests_per_minute,
        tokens_per_minute,
        ..
    } = limits;
    requests_per_second
        .or(*requests_per_minute)
        .or(*tokens_per_minute)
        .is_some()
}

/// As headers of the caller's dialect.
pub(super) fn headers(course: &Course, rates: &[RateLimitState]) -> Vec<Header> {
    rate_limit::headers(course.dialect, rates, course.live.now_ms())
        .into_iter()
        .map(|(name, value)| Header {
            name,
            value: Bytes::from(value),
        })
        .collect()
}

impl Course {
    /// Finds out the rates for an answer that brings none along.
    pub(super) async fn learn_limits(
        &mut self,
        conductor: &Conductor,
        ended: &Ended,
        caller: &Caller,
    ) {
        let brought = match ended {
            Ended::Failed(failure) => !failure.headers.is_empty(),
            Ended::Stopped(stop) => *stop == Stop::Left,
        };
        if brought || caller.opened() || !self.rate_limits.is_empty() {
            return;
        }
        self.rate_limits = match (&self.request, &self.who) {
            (Some(request), _) => of_request(conductor, request).await,
            (None, Some(who)) => of(conductor, who, None).await,
            (None, None) => return,
        };
    }
}
