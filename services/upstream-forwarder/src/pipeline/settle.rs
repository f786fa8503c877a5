//! settle: the one accounting of a request, and giving back what it held (SPEC BILL-5, BILL-6, FLOW-2).
//!
//! Runs whatever happened before, and cannot fail: the settlement is in the journal and on its way to billing, the release
//! on its way to the scheduler, when it returns.

use std::{sync::Arc, time::Duration};

use switchboard_dialects::usage::{ModelUsage as PartUsage, usage_by_model};
use switchboard_proto::{
    billing::v1::{ModelUsage, Settlement, VoidRequest},
    common::v1::UsageSource,
    scheduler::v1::{GetSheetsRequest, LeaseUpdate, ModelSheets, Release, lease_update::Update},
};

use super::{Conductor, Course, admit::Request, select::estimated_tokens};
use crate::{
    caller::Caller,
    domain::settlement::{Charge, Counted, End, Story, tokens_of},
    metrics::{ByModel, Ended},
    routes::{Lease, Money},
    tokens, usage,
};

pub(super) async fn settle(conductor: &Conductor, mut course: Course, end: End, caller: &Caller) {
    course.note_usage();
    course.note_finished();
    course.share.set(0);
    conductor.measure(&course, end);
    let Some(request) = course.request.clone() else {
        return;
    };
    if !course.selecting {
        return;
    }
    // One row for each request that was admitted, or whose caller left waiting (CON-1); none for what is never billed.
    let row = course.admitted || end == End::Left;
    release(conductor, &course, end);
    if !row || !course.admitted {
        undo_hold(conductor, &course, &request).await;
    }
    if row && !request.asked.free() {
        record(conductor, &mut course, &request, end, caller).await;
    }
}

/// Counts what has to be counted, writes the settlement down and sends it.
async fn record(
    conductor: &Conductor,
    course: &mut Course,
    request: &Arc<Request>,
    end: End,
    caller: &Caller,
) {
    let needed = course.live.story(|story| {
        story.content_bytes = course.stream.as_ref().map_or(0, |s| s.text().bytes());
        story.to_count(end)
    });
    let now_us = course.live.elapsed_us();
    let counted = count(conductor, course, request, needed).await;
    let write_us = u64::try_from(caller.waited().as_micros()).unwrap_or(u64::MAX);
    let mut settlement = course
        .live
        .story(|story| story.settlement(end, counted, now_us, write_us));
    if course.unfinished {
        settlement = course.live.story(|story| story.unfinished(now_us));
    }
    settlement.models = Box::pin(models(conductor, request, &settlement)).await;
    settlement.span_id = switchboard_common::grpc::span_id();
    // From here on its drafts are late news.
    course.live.close();
    hand_over(conductor, settlement).await;
}

/// Writes a settlement down and sends it.
pub(super) async fn hand_over(conductor: &Conductor, settlement: Settlement) {
    let settlement = Arc::new(settlement);
    let promised = conductor.money.promise();
    conductor
        .journal
        .settled(Arc::clone(&settlement), !promised)
        .await;
    if promised {
        let id = settlement.request_id.clone();
        conductor.money.carry(id, Money::Settlement(settlement));
    }
}

/// What each model used of an answer that the provider let several models make, each with its own sheets (CASES A24): its price is
/// that of the model that has the provider's name here, or that this account serves with it. The model that was asked for has the
/// request's. Empty for any other answer.
async fn models(
    conductor: &Conductor,
    request: &Request,
    settlement: &Settlement,
) -> Vec<ModelUsage> {
    if settlement.usage_source() != UsageSource::Provider {
        return Vec::new();
    }
    let Some(attempt) = settlement.attempts.last() else {
        return Vec::new();
    };
    let parts = usage_by_model(&settlement.usage_raw);
    let is_asked = |name: &str| name.is_empty() || name == attempt.upstream_model;
    if parts.iter().all(|part| is_asked(&part.model)) {
        return Vec::new();
    }
    let mut call = tonic::Request::new(GetSheetsRequest {
        catalogue_version: request.catalogue_version,
        account: attempt.account.clone(),
        public_model: request.resolved.public_name.clone(),
        upstream_models: parts.iter().map(|part| part.model.clone()).collect(),
    });
    call.set_timeout(conductor.config.peer_timeout);
    let sheets = match conductor.scheduler.clone().get_sheets(call).await {
        Ok(answer) => answer.into_inner().models,
        Err(status) => {
            tracing::warn!(code = ?status.code(), "what several models cost is booked by the sheets of the one that was asked for");
            Vec::new()
        }
    };
    let sheets = sheets
        .into_iter()
        .chain(std::iter::repeat(ModelSheets::default()));
    let priced = |(part, sheets): (PartUsage, ModelSheets)| {
        let (price_version, cost_version) = if is_asked(&part.model) {
            (0, 0)
        } else {
            let named = request.catalogue.price_of(&part.model);
            (named.unwrap_or(sheets.price_version), sheets.cost_version)
        };
        ModelUsage {
            price_version,
            cost_version,
            usage: Some(usage::to_wire(&part.usage)),
            model: part.model,
        }
    };
    parts.into_iter().zip(sheets).map(priced).collect()
}

/// Tokens of what nobody reported.
async fn count(
    conductor: &Conductor,
    course: &mut Course,
    request: &Arc<Request>,
    needed: Charge,
) -> Counted {
    if matches!(needed, Charge::Nothing | Charge::Reported) {
        return Counted::default();
    }
    let streamed = course.stream.take().map(|stream| stream.text().clone());
    let output = streamed.or_else(|| course.text.take()).unwrap_or_default();
    let output_bytes = output.bytes();
    let (prompt, bound) = (request.prompt(), conductor.config.count_input);
    let known = course.live.story(|story| story.counted_input);
    let counted = conductor.tokens.run(move || Counted {
        input: known.unwrap_or_else(|| prompt.tokens(bound)),
        output: tokens::of(&output),
    });
    counted.await.unwrap_or_else(|| Counted {
        input: known.unwrap_or_else(|| tokens_of(request.asked.text_bytes())),
        output: tokens_of(output_bytes),
    })
}

/// Gives the lease back, with what was learned and used.
fn release(conductor: &Conductor, course: &Course, end: End) {
    let nothing_served =
        !course.admitted || (end == End::Left && course.used().is_none() && !course.sent());
    let (request_id, release) = course.release(nothing_served);
    course.live.set_lease(None);
    if conductor.leases.promise() {
        conductor.leases.carry(request_id, release);
    }
}

/// Before the end of an answer goes to a caller whose tokens are nearly used up, its lease is given back with what it used: whoever
/// asks again at once is judged by what is left, not by what was expected (FLOW-1, CASES A25). For anyone else that is early enough
/// after the answer. The release that [`settle`] sends later has what else was learned; the slots and tokens of both are one.
pub(super) async fn count_tokens(
    conductor: &Conductor,
    course: &Course,
    request: &Request,
    caller: &mut Caller,
) {
    course.note_usage();
    let Some(used) = course.used() else {
        return;
    };
    let taken = estimated_tokens(request);
    // Less is left than another answer like this one uses.
    let nearly = |left: u64| left == 0 || left.saturating_add(taken) <= used.saturating_mul(2);
    let mut limits = course.rate_limits.iter();
    if !limits.any(|limit| limit.unit == "tokens" && nearly(limit.remaining)) {
        return;
    }
    let (request_id, release) = course.release(false);
    if let Some(arrived) = conductor.leases.hurry(request_id, release) {
        // A scheduler that is away counts them when it is back.
        caller.spare(conductor.config.count_within, arrived).await;
    }
}

/// Gives a hold back that was taken, or may have been. If this does not arrive either, silence ends it (BILL-5).
async fn undo_hold(conductor: &Conductor, course: &Course, request: &Request) {
    if !course.held {
        return;
    }
    let mut call = tonic::Request::new(VoidRequest {
        request_id: request.call.request_id.clone(),
        tenant: request.who.principal.tenant.clone(),
    });
    call.set_timeout(conductor.config.peer_timeout);
    if let Err(status) = conductor.billing.clone().void(call).await {
        tracing::warn!(request_id = %request.call.request_id, code = ?status.code(), "hold could not be given back; silence ends it");
    }
}

impl Course {
    /// What gives its lease back, with what was learned and used so far.
    fn release(&self, undo: bool) -> (String, Lease) {
        let release = Release {
            outcome: self.outcome.clone(),
            used_tokens: self.used(),
            undo,
            held: self.live.lease(),
        };
        let ids = |story: &mut Story| (story.request_id.clone(), story.party.tenant.clone());
        let (request_id, tenant) = self.live.story(ids);
        let update = LeaseUpdate {
            request_id: request_id.clone(),
            tenant,
            update: Some(Update::Release(release)),
        };
        (request_id, Lease(update))
    }

    /// Tokens that the upstream reported of the last attempt; `None` also for what is never charged.
    fn used(&self) -> Option<u64> {
        self.live.story(|story| {
            let last = story.attempts.last().filter(|_| !story.free);
            let usage = last.and_then(|attempt| attempt.usage);
            usage.map(|usage| usage::total(&usage))
        })
    }

    /// Whether any attempt was fully sent.
    fn sent(&self) -> bool {
        self.live
            .story(|story| story.attempts.iter().any(|a| a.sent))
    }
}

impl Conductor {
    fn measure(&self, course: &Course, end: End) {
        let request = course.request.as_ref();
        let model = request
            .map_or("other", |r| r.resolved.model.name.as_str())
            .to_owned();
        let (status, code) = match end {
            End::Complete(status) => (status, ""),
            End::Failed(status, code) => (status, code),
            End::Left => (499, "caller_left"),
            End::Broke(code) => (200, code),
            End::Lost(code) => (course.live.story(|story| story.lost_status()), code),
        };
        let by_model = ByModel {
            model: model.clone(),
        };
        self.meters
            .total
            .get_or_create(&by_model)
            .observe(Duration::from_micros(course.live.elapsed_us()));
        if let Some(first) = course.live.story(|story| story.first_content_us) {
            self.meters
                .first_token
                .get_or_create(&by_model)
                .observe(Duration::from_micros(first));
        }
        let labels = Ended {
            model,
            status,
            code,
        };
        self.meters.requests.get_or_create(&labels).inc();
    }
}
