//! `Acquire`: limits, choice, slot, and the queue when all is full (FLOW-1 to FLOW-5, SCHED-1 to SCHED-4).
//!
//! One pass takes the tenant's slots and buckets, then asks the candidates in the drawn order. When all are full it gives back
//! what it took and waits in line; each time it is its turn it makes a whole pass again. Dropping the call at any point releases
//! what was taken.

mod answer;
mod pass;
mod read;

pub use read::{model_needs, own_needs};

use std::{str::FromStr as _, sync::Arc, time::Duration};

use switchboard_common::{
    error::{Failure, Reason},
    ids::{AccountName, GroupName, ModelName, RequestId, TenantName},
    rate_limit::headers,
};
use switchboard_proto::{
    common::v1::{Dialect, Endpoint},
    scheduler::v1::{AcquireRequest, AcquireResponse},
};
use switchboard_state::admission::{AccountTake, BucketState, Pool, TenantTake};
use tokio::time::Instant;

use super::{
    core::Core,
    rates, refusal,
    room::{Crowded, Line, Ticket, Turn, Waiter},
    table::{Asking, Claim},
    undo::Undo,
};
use crate::domain::{
    choice::Choice,
    filter::{Ask, Membership},
    limits::{Label, Level},
    rule::Rule,
    supply::{Account, Capabilities, Model, QueueRule, Supply},
};

/// The attempt that `Acquire` makes; `Advance` counts on from 1.
const FIRST: u32 = 0;
/// Accounts at which one waiter makes newcomers step back.
const MARKED: usize = 16;

/// One call, read and checked.
struct Call<'a> {
    core: &'a Core,
    asked: &'a AcquireRequest,
    request: RequestId,
    supply: &'a Supply,
    model: &'a Model,
    membership: Membership<'a>,
    rule: Rule<'a>,
    /// The account that keeps the response which is continued or asked for.
    bound: Option<AccountName>,
    public_model: ModelName,
    group: GroupName,
    dialect: Dialect,
    needs: Capabilities,
    tenant: TenantTake,
    levels: Vec<Level>,
    labels: Vec<Label>,
    model_take: Option<AccountTake>,
    model_labels: Vec<Label>,
}

/// How a pass ended.
enum Pass<'a> {
    Granted(Granted<'a>),
    /// Nothing is held; wait in this line, or be refused like that.
    Wait {
        line: Line,
        accounts: Arc<[Arc<Account>]>,
        refusal: Failure,
    },
}

struct Granted<'a> {
    choice: Choice<'a>,
    ask: Ask<'a>,
    /// Place in the choice's order.
    place: usize,
    buckets: Vec<BucketState>,
    model_buckets: Vec<BucketState>,
}

impl Core {
    /// Takes the limits and a slot for a request, or says why not.
    ///
    /// # Errors
    /// The refusal, as the caller will read it.
    pub async fn acquire(&self, asked: &AcquireRequest) -> Result<AcquireResponse, Failure> {
        let answer = self.answer(asked).await;
        match &answer {
            Ok(answer) => self
                .counted
                .granted((answer.queued_us > 0).then_some(answer.queued_us)),
            Err(failure) => self.counted.refused(failure),
        }
        answer
    }

    async fn answer(&self, asked: &AcquireRequest) -> Result<AcquireResponse, Failure> {
        let request = RequestId::from_str(&asked.request_id)
            .map_err(|_| refusal::invalid("request_id", "a UUID"))?;
        let supply = self.catalogue.pinned(asked.catalogue_version).await?;
        let model = supply
            .models
            .get(asked.model.as_str())
            .filter(|model| model.active)
            .ok_or_else(|| refusal::model_not_found(&asked.public_model))?;
        let mut call = Call::read(self, asked, request, &supply, model)?;
        if !asked.response_id.is_empty() {
            let keeper = self.keeper(&call.tenant.tenant, asked).await?;
            call.bound = Some(keeper);
        }
        match self.table.claim(request).await {
            Claim::Held(held) => Ok(call.again(&held)),
            // A boxed future: the queue's part of it is large and rarely run.
            Claim::Mine(asking) => match Box::pin(call.ask(asking)).await {
                Ok(answer) => Ok(answer),
                Err(refusal) => Err(Box::pin(call.with_rates(refusal)).await),
            },
        }
    }

    /// The account that keeps the response in question.
    async fn keeper(
        &self,
        tenant: &TenantName,
        asked: &AcquireRequest,
    ) -> Result<AccountName, Failure> {
        let keeper = self.responses.account(tenant.as_str(), &asked.response_id);
        keeper
            .await?
            .ok_or_else(|| refusal::response_not_found(&asked.response_id))
    }
}

impl Call<'_> {
    async fn ask(&self, asking: Asking<'_>) -> Result<AcquireResponse, Failure> {
        let began_us = self.core.clock.now_us();
        let mut undo = Undo::new(self.core);
        let mut ticket: Option<Ticket> = None;
        let mut passes = 0;
        loop {
            match self.pass(&mut undo, ticket.is_none(), passes).await? {
                Pass::Granted(granted) => {
                    let queued_us = ticket.as_ref().map_or(0, |_| self.since(began_us));
                    let held = self.held(&granted);
                    let lease = held.lease.clone();
                    undo.keep();
                    asking.hold(held);
                    self.core.counted.slots_held.inc();
                    return Ok(self.respond(&granted, lease, queued_us));
                }
                Pass::Wait {
                    line,
                    accounts,
                    refusal,
                } => {
                    let Some((rule, until)) = self.may_wait() else {
                        return Err(refusal);
                    };
                    match &mut ticket {
                        Some(ticket) => ticket.go_to(line, accounts),
                        None => match self.enter(rule, line, accounts) {
                            Ok(entered) => ticket = Some(entered),
                            Err(crowded) => {
                                let headers = refusal.headers;
                                return Err(Failure { headers, ..crowded });
                            }
                        },
                    }
                    if let Some(ticket) = &ticket
                        && self.wait(ticket, until).await == Turn::TimeUp
                    {
                        return Err(refusal);
                    }
                }
            }
            passes += 1;
        }
    }

    fn since(&self, began_us: i64) -> u64 {
        // Zero means that it did not wait.
        u64::try_from(self.core.clock.now_us() - began_us)
            .unwrap_or(0)
            .max(1)
    }

    /// Whether requests of this kind wait at all, and until when this one may.
    fn may_wait(&self) -> Option<(QueueRule, Instant)> {
        let rule = self.model.queue?;
        let never_waits = matches!(
            self.dialect,
            Dialect::OpenaiEmbeddings | Dialect::OpenaiModerations
        );
        if never_waits || self.asked.endpoint() == Endpoint::CountTokens {
            return None;
        }
        let now = self.core.clock.now_ms();
        let wait = i64::try_from(rule.wait.as_millis()).unwrap_or(i64::MAX);
        let mut left = self.arrived_ms(now).saturating_add(wait) - now;
        if self.asked.deadline_ms > 0 {
            left = left.min(self.asked.deadline_ms - now);
        }
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        Some((rule, Instant::now() + left))
    }

    /// The request's age. What lies in the future, or is not told, counts as now.
    fn arrived_ms(&self, now_ms: i64) -> i64 {
        match self.asked.arrived_ms {
            arrived if arrived > 0 && arrived < now_ms => arrived,
            _ => now_ms,
        }
    }

    fn enter(
        &self,
        rule: QueueRule,
        line: Line,
        accounts: Arc<[Arc<Account>]>,
    ) -> Result<Ticket, Failure> {
        let waiter = Waiter {
            model: self.model.name.clone(),
            depth: rule.depth,
            arrived_ms: self.arrived_ms(self.core.clock.now_ms()),
        };
        self.core
            .room
            .enter(&waiter, line, accounts)
            .map_err(|crowded| match crowded {
                Crowded::Model => refusal::queue_full(&self.asked.public_model, rule.depth),
                Crowded::Total => refusal::all_queues_full(),
            })
    }

    /// Waits for its turn; as the first of its line it makes newcomers elsewhere step back meanwhile.
    async fn wait(&self, ticket: &Ticket, until: Instant) -> Turn {
        if ticket.is_first() {
            let marks = ticket.accounts().iter().take(MARKED).map(|account| async {
                let pool = Pool::Account(account.name.clone());
                // Without its mark a newcomer may overtake; nothing else is lost.
                let _ = self
                    .core
                    .admission
                    .mark_waiters(&pool, self.core.config.waiter_mark)
                    .await;
            });
            futures_util::future::join_all(marks).await;
        }
        ticket.turn(self.core.config.queue_poll, until).await
    }

    /// A refusal with the states of the rates that count for this request, where they did not come with it (FLOW-5).
    async fn with_rates(&self, mut refusal: Failure) -> Failure {
        if refusal.headers.is_empty() && refusal.reason != Reason::CallerLeft {
            let own = (self.tenant.buckets.as_slice(), self.labels.as_slice());
            let of_model = self.model_take.as_ref().map(|take| rates::OfModel {
                pool: &take.account,
                buckets: &take.buckets,
                labels: &self.model_labels,
            });
            let rates = rates::look(self.core, &self.tenant.tenant, own, of_model).await;
            refusal.headers = headers(self.dialect, &rates, self.core.clock.now_ms());
        }
        refusal
    }
}
