//! `Acquire`: limits, choice, slot, and the queue when all is full (FLOW-1 to FLOW-5, SCHED-2 to SCHED-4).
//!
//! One pass takes the tenant's slots and buckets, then asks the candidates in the drawn order. When all are full it gives back
//! what it took and waits in line; each time it is its turn it makes a whole pass again. Dropping the call at any point releases
//! what was taken.

use std::{str::FromStr as _, sync::Arc, time::Duration};

use rand::{SeedableRng as _, rngs::SmallRng};
use switchboard_common::{
    error::Failure,
    ids::{GroupName, ModelName, RequestId},
};
use switchboard_proto::{
    common::v1::{Dialect, Limits},
    scheduler::v1::{
        AcquireRequest, AcquireResponse, Candidate, CredentialHeader, RateLimitState, Renewal,
    },
};
use switchboard_state::admission::{
    AccountGrant, AccountTake, BucketState, Correction, LimitKind, Pool, Release, TenantGrant,
    TenantTake,
};
use tokio::time::Instant;

use super::{
    core::Core,
    refusal,
    room::{Crowded, Line, Ticket, Turn, Waiter},
    table::{Asking, Claim, Held},
    undo::Undo,
};
use crate::{
    Error,
    domain::{
        choice::{Choice, choose},
        compile::capability,
        decision,
        filter::{Ask, Membership},
        limits::{Ceilings, Label, Level, Needs, group_user},
        supply::{Account, Capabilities, Model, QueueRule, Supply, Target, upstream_dialect},
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

impl<'a> Call<'a> {
    fn read(
        core: &'a Core,
        asked: &'a AcquireRequest,
        request: RequestId,
        supply: &'a Supply,
        model: &'a Model,
    ) -> Result<Self, Failure> {
        let demand = asked
            .demand
            .as_ref()
            .filter(|demand| !demand.tenant.is_empty())
            .ok_or_else(|| refusal::invalid("demand.tenant", "the tenant's name"))?;
        let dialect = Dialect::try_from(asked.dialect)
            .ok()
            .filter(|dialect| *dialect != Dialect::Unspecified)
            .ok_or_else(|| refusal::invalid("dialect", "the caller's dialect"))?;
        let mut needs = Capabilities::default();
        for word in &asked.capabilities {
            let known = word
                .parse()
                .map_err(|_| refusal::invalid("capabilities", "words such as `tools`, `vision`"))?;
            needs = Capabilities(needs.0 | capability(known).0);
        }
        let membership = match supply.groups.get(demand.group.as_str()) {
            Some(group) => Membership::Of(group),
            None if demand.group.is_empty() => Membership::All,
            None => Membership::Unknown(&demand.group),
        };
        let tokens = asked.estimated_tokens;
        let mut own = Needs::default();
        for (level, id, limits) in [
            (Level::Tenant, "", &demand.tenant_limits),
            (Level::User, demand.user.as_str(), &demand.user_limits),
            (Level::Key, demand.key_id.as_str(), &demand.key_limits),
            (Level::Group, demand.group.as_str(), &demand.group_limits),
        ] {
            if let Some(limits) = limits {
                own.add(level, id, &ceilings(limits), tokens);
            }
        }
        if let Some(limits) = &demand.group_user_limits {
            let id = group_user(&demand.group, &demand.user, &demand.key_id);
            own.add(Level::GroupUser, &id, &ceilings(limits), tokens);
        }
        let mut of_model = Needs::default();
        of_model.add(Level::Model, "", &model.limits, tokens);
        Ok(Self {
            core,
            asked,
            request,
            supply,
            model,
            membership,
            public_model: asked.public_model.as_str().into(),
            group: demand.group.as_str().into(),
            dialect,
            needs,
            tenant: TenantTake {
                tenant: demand.tenant.as_str().into(),
                request,
                slots: own.slots,
                buckets: own.buckets,
                ttl: core.lease_ttl,
            },
            levels: own.slot_levels,
            labels: own.labels,
            model_take: model.limits.any().then(|| AccountTake {
                account: Pool::Model(model.name.clone()),
                request,
                attempt: FIRST,
                limit: model.limits.concurrency,
                buckets: of_model.buckets,
                newcomer: false,
                ttl: core.lease_ttl,
            }),
            model_labels: of_model.labels,
        })
    }

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
                        None => ticket = Some(self.enter(rule, line, accounts)?),
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
            return Ok(self.wait_for(&choice, line, 1_000));
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
                ..
            } => {
                undo.releases.clear();
                return self.limited(&choice, kind, index, retry_after_ms);
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
                    return Err(match self.model_labels.get(index) {
                        Some(label) => refusal::rate_limited(label, retry_after_ms),
                        None => refusal::supply_full(&self.asked.public_model, retry_after_ms),
                    });
                }
                AccountGrant::Full { retry_after_ms, .. } => {
                    undo.pool_gave_nothing();
                    self.give_back(undo).await?;
                    return Ok(self.wait_for(&choice, self.supply_line(), retry_after_ms));
                }
                AccountGrant::WaitersFirst => {
                    undo.pool_gave_nothing();
                    self.give_back(undo).await?;
                    return Ok(self.wait_for(&choice, self.supply_line(), 1_000));
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
                Ok(self.wait_for(&choice, self.supply_line(), retry_after_ms))
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
        }
    }

    fn limit_line(&self, level: Level, id: &Arc<str>) -> Line {
        Line::Limit {
            tenant: self.tenant.tenant.clone(),
            level,
            id: Arc::clone(id),
        }
    }

    fn wait_for<'c>(&self, choice: &Choice<'_>, line: Line, retry_after_ms: u64) -> Pass<'c> {
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
            refusal,
        }
    }

    fn limited<'c>(
        &self,
        choice: &Choice<'_>,
        kind: LimitKind,
        index: usize,
        retry_after_ms: u64,
    ) -> Result<Pass<'c>, Failure> {
        let slot = self.levels.get(index).zip(self.tenant.slots.get(index));
        match (kind, slot, self.labels.get(index)) {
            (LimitKind::Slot, Some((level, slot)), _) => {
                let line = self.limit_line(*level, &slot.id);
                Ok(self.wait_for(choice, line, retry_after_ms))
            }
            (LimitKind::Bucket, _, Some(label)) => {
                Err(refusal::rate_limited(label, retry_after_ms))
            }
            _ => Err(Failure::internal()),
        }
    }

    /// Gives back what this pass took, so that the request waits with empty hands.
    async fn give_back(&self, undo: &mut Undo<'_>) -> Result<(), Failure> {
        let done = self.core.admission.give_back(&undo.releases).await;
        done.map_err(Error::from)?;
        undo.releases.clear();
        Ok(())
    }

    fn held(&self, granted: &Granted<'_>) -> Held {
        let target = granted.target();
        let demand = self.asked.demand.as_ref();
        let text = |field: fn(&switchboard_proto::scheduler::v1::Demand) -> &String| {
            demand.map(field).cloned().unwrap_or_default()
        };
        let has = |level| self.levels.contains(&level);
        Held {
            lease: Renewal {
                account: target.map_or_else(String::new, |t| t.account.name.to_string()),
                attempt: FIRST,
                user: text(|demand| &demand.user),
                key_id: text(|demand| &demand.key_id),
                group: text(|demand| &demand.group),
                tenant_slot: has(Level::Tenant),
                user_slot: has(Level::User),
                key_slot: has(Level::Key),
                group_user_slot: has(Level::GroupUser),
                group_slot: has(Level::Group),
                account_slot: true,
                model: match &self.model_take {
                    Some(_) => self.model.name.to_string(),
                    None => String::new(),
                },
            },
            upstream_model: target
                .map(|t| t.upstream_model(&self.asked.public_model).to_owned())
                .unwrap_or_default(),
            tokens: self.asked.estimated_tokens,
            known: target.map(|t| Arc::clone(&t.account.known)),
            ends_ms: self.core.lease_end_ms(),
        }
    }

    fn respond(&self, granted: &Granted<'_>, lease: Renewal, queued_us: u64) -> AcquireResponse {
        let own = self.labels.iter().zip(&granted.buckets);
        let of_model = self.model_labels.iter().zip(&granted.model_buckets);
        let (candidates, place) = self.candidates(&granted.choice, granted.place);
        AcquireResponse {
            granted: place,
            candidates,
            rate_limits: own.chain(of_model).map(rate_limit).collect(),
            decision: None,
            queued_us,
            lease_ttl_ms: u64::try_from(self.core.lease_ttl.as_millis()).unwrap_or(u64::MAX),
            lease: Some(lease),
            decision_json: decision::json(
                self.supply.version,
                &granted.choice,
                &granted.ask,
                &self.asked.public_model,
                queued_us / 1_000,
            ),
        }
    }

    /// The answer to a request that holds already: the same lease.
    fn again(&self, held: &Held) -> AcquireResponse {
        let (ask, mut choice) = self.choose(0);
        let same = |target: &Target| {
            target.account.name.as_str() == held.lease.account
                && target.upstream_model(&self.asked.public_model) == held.upstream_model
        };
        let index = choice.considered.iter().position(|one| same(one.target));
        let place = match (
            index,
            index.and_then(|i| choice.order.iter().position(|o| *o == i)),
        ) {
            (_, Some(place)) => place,
            (Some(index), None) => {
                choice.order.insert(0, index);
                0
            }
            (None, None) => 0,
        };
        let granted = Granted {
            choice,
            ask,
            place,
            buckets: Vec::new(),
            model_buckets: Vec::new(),
        };
        self.respond(&granted, held.lease.clone(), 0)
    }

    /// The candidates in order, as many as are told, and the place of the granted one among them.
    fn candidates(&self, choice: &Choice<'_>, granted: usize) -> (Vec<Candidate>, u32) {
        let most = self.core.config.candidates;
        let (mut told, mut place): (Vec<usize>, usize) =
            (choice.order.iter().copied().take(most).collect(), granted);
        if granted >= most
            && let (Some(index), Some(last)) = (choice.order.get(granted), told.last_mut())
        {
            *last = *index;
            place = most - 1;
        }
        let candidates = told
            .into_iter()
            .filter_map(|index| choice.considered.get(index))
            .map(|one| self.candidate(one.target, one.cost.map_or(0, |cost| cost.version)))
            .collect();
        (candidates, u32::try_from(place).unwrap_or(0))
    }

    fn candidate(&self, target: &Target, cost_version: u64) -> Candidate {
        let account = &*target.account;
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let dialect = upstream_dialect(self.dialect, account.dialects).unwrap_or(self.dialect);
        let timeouts = &self.model.timeouts;
        Candidate {
            account: account.name.to_string(),
            upstream_model: target.upstream_model(&self.asked.public_model).to_owned(),
            dialect: dialect as i32,
            provider: account.provider.to_owned(),
            url: account.urls.get(&dialect).cloned().unwrap_or_default(),
            allow_private_address: account.allow_private_address,
            credential: account
                .credential
                .as_ref()
                .map(|(name, format)| CredentialHeader {
                    name: name.clone(),
                    format: format.clone(),
                }),
            connect_timeout_ms: millis(timeouts.connect),
            first_byte_timeout_ms: millis(timeouts.first_byte),
            idle_timeout_ms: millis(timeouts.idle),
            cost_version,
            tier: target.tier,
            cooldown_max_ms: millis(account.cooldown_max),
        }
    }
}

impl Granted<'_> {
    fn target(&self) -> Option<&Target> {
        let index = self.choice.order.get(self.place)?;
        self.choice.considered.get(*index).map(|one| one.target)
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

fn rate_limit((label, state): (&Label, &BucketState)) -> RateLimitState {
    RateLimitState {
        unit: label.rate.unit().to_owned(),
        level: label.level.name().to_owned(),
        limit: label.limit,
        remaining: state.remaining,
        reset_ms: state.reset_ms,
    }
}

fn ceilings(limits: &Limits) -> Ceilings {
    Ceilings {
        requests_per_second: limits.requests_per_second,
        requests_per_minute: limits.requests_per_minute,
        tokens_per_minute: limits.tokens_per_minute,
        concurrency: limits.concurrency,
        burst: limits.burst,
    }
}
