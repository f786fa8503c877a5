//! `Acquire`: limits, choice, slot, and the queue when all is full (FLOW-1 to FLOW-5, SCHED-2 to SCHED-4).
//!
//! One pass takes the tenant's slots and buckets, then asks the candidates in the drawn order. When all are full it gives back
//! what it took and waits in line; each time it is its turn it makes a whole pass again. Dropping the call at any point releases
//! what was taken.

mod answer;
mod read;

use std::{str::FromStr as _, sync::Arc, time::Duration};

use rand::{SeedableRng as _, rngs::SmallRng};
use switchboard_common::{
    error::Failure,
    ids::{GroupName, ModelName, RequestId},
};
use switchboard_proto::{
    common::v1::Dialect,
    scheduler::v1::{AcquireRequest, AcquireResponse},
};
use switchboard_state::admission::{
    AccountGrant, AccountTake, BucketState, Correction, Pool, Release, TenantGrant, TenantTake,
};
use tokio::time::Instant;

use super::{
    core::Core,
    refusal,
    room::{Crowded, Line, Ticket, Turn, Waiter},
    table::{Asking, Claim},
    undo::Undo,
};
use crate::{
    Error,
    domain::{
        choice::{Choice, choose},
        filter::{Ask, Membership},
        limits::{Label, Level, Needs},
        rule::Rule,
        supply::{Account, Capabilities, Model, QueueRule, Supply},
    },
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
        let call = Call::read(self, asked, request, &supply, model)?;
        match self.table.claim(request).await {
            Claim::Held(held) => Ok(call.again(&held)),
            // A boxed future: the queue's part of it is large and rarely run.
            Claim::Mine(asking) => Box::pin(call.ask(asking)).await,
        }
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
        if matches!(
            self.dialect,
            Dialect::OpenaiEmbeddings | Dialect::OpenaiModerations
        ) {
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

    /// One pass over limits and candidates.
    async fn pass(
        &self,
        undo: &mut Undo<'_>,
        newcomer: bool,
        passes: u64,
    ) -> Result<Pass<'_>, Failure> {
        let (ask, mut choice) = self.choose(passes);
        if choice.order.is_empty() {
            return Err(refusal::nobody(&choice, &ask, &self.asked.public_model));
        }
        if newcomer && let Some(line) = self.stands_behind() {
            return Ok(self.wait_for(&choice, line, 1_000, &[]));
        }
        undo.releases.push(Release::Tenant {
            tenant: self.tenant.tenant.clone(),
            request: self.request,
            correction: Correction::Refund,
        });
        let grant = self.core.admission.take_tenant(&self.tenant).await;
        let buckets = match grant.map_err(Error::from)? {
            TenantGrant::Granted { buckets } => buckets,
            TenantGrant::Refused {
                index,
                kind,
                retry_after_ms,
                buckets,
            } => {
                undo.releases.clear();
                return self.limited(&choice, (kind, index), retry_after_ms, &buckets);
            }
            TenantGrant::Gone => {
                undo.releases.clear();
                return Err(refusal::gone());
            }
        };
        let mut model_buckets = Vec::new();
        if let Some(take) = &self.model_take {
            undo.pool(take.account.clone(), self.request, FIRST);
            let grant = self.core.admission.take_account(take).await;
            match grant.map_err(Error::from)? {
                AccountGrant::Granted { buckets, .. } => model_buckets = buckets,
                AccountGrant::RateLimited {
                    index,
                    retry_after_ms,
                } => {
                    undo.pool_gave_nothing();
                    self.give_back(undo).await?;
                    let refusal = match self.model_labels.get(index) {
                        Some(label) => refusal::rate_limited(label, retry_after_ms),
                        None => refusal::supply_full(&self.asked.public_model, retry_after_ms),
                    };
                    return Err(self.with_limits(refusal, &buckets));
                }
                AccountGrant::Full { retry_after_ms, .. } => {
                    undo.pool_gave_nothing();
                    self.give_back(undo).await?;
                    return Ok(self.wait_for(
                        &choice,
                        self.supply_line(),
                        retry_after_ms,
                        &buckets,
                    ));
                }
                AccountGrant::WaitersFirst => {
                    undo.pool_gave_nothing();
                    self.give_back(undo).await?;
                    return Ok(self.wait_for(&choice, self.supply_line(), 1_000, &buckets));
                }
                AccountGrant::Gone => return Err(refusal::gone()),
            }
        }
        match self.take_first_free(undo, &mut choice, newcomer).await? {
            Ok(place) => Ok(Pass::Granted(Granted {
                choice,
                ask,
                place,
                buckets,
                model_buckets,
            })),
            Err(retry_after_ms) => {
                self.give_back(undo).await?;
                Ok(self.wait_for(&choice, self.supply_line(), retry_after_ms, &buckets))
            }
        }
    }

    /// Asks the candidates in their order; answers the place of the one that had a slot, or when one may have.
    async fn take_first_free(
        &self,
        undo: &mut Undo<'_>,
        choice: &mut Choice<'_>,
        newcomer: bool,
    ) -> Result<Result<usize, u64>, Failure> {
        let mut soonest = u64::MAX;
        for (place, index) in choice.order.iter().enumerate().take(self.core.config.tries) {
            let Some(one) = choice.considered.get_mut(*index) else {
                continue;
            };
            let account = &one.target.account;
            let take = self.core.account_take(
                account,
                self.request,
                FIRST,
                self.asked.estimated_tokens,
                newcomer,
            );
            undo.pool(take.account.clone(), self.request, FIRST);
            let grant = self.core.admission.take_account(&take).await;
            match grant.map_err(Error::from)? {
                AccountGrant::Granted { used, .. } => {
                    account
                        .known
                        .set_used(i64::try_from(used).unwrap_or(i64::MAX));
                    return Ok(Ok(place));
                }
                AccountGrant::Full {
                    used,
                    retry_after_ms,
                } => {
                    account
                        .known
                        .set_used(i64::try_from(used).unwrap_or(i64::MAX));
                    soonest = soonest.min(retry_after_ms);
                }
                AccountGrant::RateLimited { retry_after_ms, .. } => {
                    soonest = soonest.min(retry_after_ms);
                }
                AccountGrant::WaitersFirst => soonest = soonest.min(1_000),
                AccountGrant::Gone => return Err(refusal::gone()),
            }
            undo.pool_gave_nothing();
            one.full = true;
        }
        Ok(Err(soonest.min(60_000)))
    }

    fn choose(&self, passes: u64) -> (Ask<'_>, Choice<'_>) {
        let ask = Ask {
            model: self.model,
            group: self.membership,
            rule: self.rule,
            dialect: self.dialect,
            needs: self.needs,
            now_ms: self.core.clock.now_ms(),
        };
        let registry = &self.core.registry;
        let choice = choose(
            &ask,
            |target| registry.find_target(&target.account.name, &self.public_model),
            |target| self.supply.cost(target, &self.public_model),
            self.model.queue.map_or(1, |queue| u64::from(queue.depth)),
            &mut self.rng(passes),
        );
        (ask, choice)
    }

    /// The request's own random source: the same request draws the same way wherever it is asked again.
    fn rng(&self, passes: u64) -> SmallRng {
        let (_, random) = self.request.as_uuid().as_u64_pair();
        SmallRng::seed_from_u64(random.wrapping_add(passes))
    }

    /// The line in which others wait for what this request needs.
    fn stands_behind(&self) -> Option<Line> {
        if self.core.room.is_empty() {
            return None;
        }
        let own = self.levels.iter().zip(&self.tenant.slots);
        let lines: Vec<Line> = own
            .map(|(level, slot)| self.limit_line(*level, &slot.id))
            .chain([self.supply_line()])
            .collect();
        self.core.room.busy(&lines).cloned()
    }

    fn supply_line(&self) -> Line {
        Line::Supply {
            model: self.model.name.clone(),
            group: self.group.clone(),
            tenant: self.rule.any().then(|| self.tenant.tenant.clone()),
        }
    }

    fn limit_line(&self, level: Level, id: &Arc<str>) -> Line {
        Line::Limit {
            tenant: self.tenant.tenant.clone(),
            level,
            id: Arc::clone(id),
        }
    }

    /// Nothing is free in this line. `buckets` are the caller's own, as far as they were asked.
    fn wait_for<'c>(
        &self,
        choice: &Choice<'_>,
        line: Line,
        retry_after_ms: u64,
        buckets: &[BucketState],
    ) -> Pass<'c> {
        let refusal = match &line {
            Line::Supply { .. } => refusal::supply_full(&self.asked.public_model, retry_after_ms),
            Line::Limit { level, .. } => {
                let limit = self
                    .levels
                    .iter()
                    .zip(&self.tenant.slots)
                    .find(|(own, _)| *own == level)
                    .map_or(0, |(_, slot)| slot.limit);
                refusal::slots_full(*level, limit, retry_after_ms)
            }
        };
        let tried = choice.order.iter().take(self.core.config.tries);
        Pass::Wait {
            accounts: match &line {
                Line::Supply { .. } => tried
                    .filter_map(|index| choice.considered.get(*index))
                    .map(|one| Arc::clone(&one.target.account))
                    .collect(),
                Line::Limit { .. } => Arc::default(),
            },
            line,
            refusal: self.with_limits(refusal, buckets),
        }
    }

    /// Gives back what this pass took, so that the request waits with empty hands.
    async fn give_back(&self, undo: &mut Undo<'_>) -> Result<(), Failure> {
        let done = self.core.admission.give_back(&undo.releases).await;
        done.map_err(Error::from)?;
        undo.releases.clear();
        Ok(())
    }
}

impl Core {
    /// Asks an account for a slot and its own rates.
    pub fn account_take(
        &self,
        account: &Account,
        request: RequestId,
        attempt: u32,
        tokens: u64,
        newcomer: bool,
    ) -> AccountTake {
        let mut needs = Needs::default();
        if account.limits.rates() {
            needs.add_rates(Level::Account, &Arc::default(), &account.limits, tokens);
        }
        account.known.ask();
        AccountTake {
            account: Pool::Account(account.name.clone()),
            request,
            attempt,
            limit: account.concurrency,
            buckets: needs.buckets,
            newcomer,
            ttl: self.lease_ttl,
        }
    }

    /// When a lease that is granted or renewed now ends.
    pub fn lease_end_ms(&self) -> i64 {
        let ttl = i64::try_from(self.lease_ttl.as_millis()).unwrap_or(i64::MAX);
        self.clock.now_ms().saturating_add(ttl)
    }
}
