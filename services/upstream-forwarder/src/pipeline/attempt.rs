//! One attempt: asks the candidate, relays its answer, and writes down how it ended.

use std::sync::Arc;

use tracing::{Span, info_span};

use super::{
    Conductor, Course, Ended,
    admit::Request,
    credential,
    relay::{self, Relayed},
    send,
};
use crate::{
    asked::shape,
    caller::Caller,
    domain::{
        outcome::{Fault, blameless},
        settlement::{End, Story, Tried},
    },
    pipe::Stop,
    usage,
};

/// What became of an attempt.
pub(super) enum Attempted {
    Ended(End),
    Failed(Fault),
}

/// One attempt at the current candidate; a second one at the same when its credential was merely out of date, or when it
/// refused what another account sealed.
pub(super) async fn attempt(
    conductor: &Arc<Conductor>,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
) -> Result<Attempted, Ended> {
    let mut refused = None;
    loop {
        let secret = match credential::credential(conductor, course, caller, refused.take()).await?
        {
            Ok(secret) => secret,
            Err(fault) => return Ok(Attempted::Failed(fault)),
        };
        let proxy = match credential::proxy(conductor, course, caller).await? {
            Ok(proxy) => proxy,
            Err(fault) => return Ok(Attempted::Failed(fault)),
        };
        let key = secret.as_deref();
        let sending = Box::pin(send::send(conductor, request, course, caller, key, proxy));
        let relayed = match sending.await {
            Ok(Ok(answer)) => relay::relay(conductor, request, course, caller, answer, key).await,
            Ok(Err(fault)) => Ok(Relayed::Failed(fault)),
            Err(ended) => Err(ended),
        };
        let relayed = relayed.inspect_err(|ended| course.attempt_stopped(ended))?;
        course.attempt_ended(&relayed);
        match (relayed, secret) {
            (Relayed::Served(end) | Relayed::Refused(_, end), _) => {
                return Ok(Attempted::Ended(end));
            }
            (Relayed::Broke(fault), _) => {
                return Err(Ended::Failed(fault.failure_in(shape(course.dialect))));
            }
            (Relayed::Told(_, failure), _) => return Err(Ended::Failed(failure)),
            (Relayed::Sealed(fault), _) => {
                conductor.count_failure(course, &fault);
                course.unsealed = true;
            }
            (Relayed::Failed(fault), Some(secret))
                if fault.refused_credential() && !course.retried_credential() =>
            {
                conductor.count_failure(course, &fault);
                refused = Some((secret, fault));
            }
            (Relayed::Failed(fault), _) => {
                conductor.count_failure(course, &fault);
                return Ok(Attempted::Failed(fault));
            }
        }
    }
}

impl Course {
    /// The span of the attempt that comes.
    pub(super) fn attempt_span(&self) -> Span {
        info_span!(
            target: "trace",
            "attempt",
            otel.kind = "client",
            account = %self.candidate.account,
            gen_ai.provider.name = %self.candidate.provider,
            gen_ai.request.model = %self.candidate.upstream_model,
            gen_ai.usage.input_tokens = tracing::field::Empty,
            gen_ai.usage.output_tokens = tracing::field::Empty,
            error.type = tracing::field::Empty,
        )
    }

    /// Reads or changes the attempt that runs.
    pub(super) fn tried<T: Default>(&self, change: impl FnOnce(&mut Tried) -> T) -> T {
        let last = |story: &mut Story| story.attempts.last_mut().map(change);
        self.live.story(last).unwrap_or_default()
    }

    /// Whether the last two attempts went to the same account because its credential was out of date.
    fn retried_credential(&self) -> bool {
        self.live.story(|story| {
            let mut last = story.attempts.iter().rev();
            match (last.next(), last.next()) {
                (Some(last), Some(before)) => {
                    last.account == before.account
                        && last.upstream_model == before.upstream_model
                        && before.error == "credential"
                }
                _ => false,
            }
        })
    }

    /// Writes down how the attempt ended, and what its account is to be told.
    fn attempt_ended(&mut self, relayed: &Relayed) {
        self.note_usage();
        let now = self.live.elapsed_us();
        let (account, model) = (&self.candidate.account, &self.candidate.upstream_model);
        let fault = match relayed {
            Relayed::Failed(fault)
            | Relayed::Sealed(fault)
            | Relayed::Broke(fault)
            | Relayed::Told(fault, _)
            | Relayed::Refused(fault, _) => Some(fault),
            Relayed::Served(_) => None,
        };
        let first_content = self.live.story(|story| story.first_content_us);
        let (status, first_token_us) = self.tried(|tried| {
            tried.total_us = now.saturating_sub(tried.began_us);
            if let Some(fault) = fault {
                tried.error = fault.name();
            }
            let first = first_content.map(|at| at.saturating_sub(tried.began_us));
            (tried.status, first)
        });
        self.outcome = Some(match fault {
            Some(fault) => fault.outcome(account, model),
            None => blameless(account, model, status, first_token_us),
        });
        self.show(fault);
        if matches!(relayed, Relayed::Failed(_) | Relayed::Sealed(_)) {
            self.stream = None;
        }
    }

    /// Writes down that the attempt goes no further, for no fault that was found in it.
    fn attempt_stopped(&self, ended: &Ended) {
        self.note_usage();
        let now = self.live.elapsed_us();
        self.tried(|tried| {
            tried.total_us = now.saturating_sub(tried.began_us);
            if *ended == Ended::Stopped(Stop::Deadline) {
                tried.error = "total_timeout";
            }
        });
        self.show(None);
    }

    /// Writes the attempt's end into its span.
    fn show(&self, fault: Option<&Fault>) {
        let span = Span::current();
        if let Some(fault) = fault {
            span.record("error.type", fault.name());
        }
        if let Some(usage) = self.tried(|tried| tried.usage) {
            span.record("gen_ai.usage.input_tokens", usage.input_tokens);
            span.record("gen_ai.usage.output_tokens", usage.output_tokens);
        }
    }

    /// Takes over what the upstream reported so far: also while the answer goes on, for the drafts of the request (BILL-5).
    pub(super) fn note_usage(&self) {
        if let Some(report) = self.stream.as_ref().and_then(|stream| stream.usage()) {
            let (usage, raw) = (usage::to_wire(&report.usage), report.raw.clone());
            self.tried(|tried| {
                tried.usage = Some(usage);
                tried.usage_raw = raw;
            });
        }
    }
}
