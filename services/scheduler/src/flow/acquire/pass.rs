//! One pass: the tenant's limits, the model's, then the candidates in the drawn order, all or nothing.

use std::sync::Arc;

use rand::{SeedableRng as _, rngs::SmallRng};
use switchboard_common::{error::Failure, ids::RequestId};
use switchboard_state::admission::{
    AccountGrant, AccountTake, Correction, Pool, Release, TenantGrant,
};

use super::{Call, FIRST, Granted, Pass};
use crate::{
    Error,
    domain::{
        choice::{Choice, choose},
        filter::Ask,
        limits::{Level, Needs},
        supply::Account,
    },
    flow::{core::Core, refusal, room::Line, undo::Undo},
};

/// A rest that a continuation waits for, milliseconds (SCHED-7).
const SHORT_REST_MS: u64 = 30_000;

impl Call<'_> {
    /// One pass over limits and candidates.
    pub(super) async fn pass(
        &self,
        undo: &mut Undo<'_>,
        newcomer: bool,
        passes: u64,
    ) -> Result<Pass<'_>, Failure> {
        let (ask, mut choice) = self.choose(passes);
        if choice.order.is_empty() {
            if let Some(rest_ms) = choice.rested_in_ms(ask.now_ms)
                && self.bound.is_some()
                && rest_ms <= SHORT_REST_MS
            {
                return Ok(Pass::Wait {
                    line: self.supply_line(),
                    accounts: Arc::default(),
                    refusal: refusal::response_unavailable(Some(rest_ms)),
                });
            }
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
                    ..
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
                    ..
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

    pub(super) fn choose(&self, passes: u64) -> (Ask<'_>, Choice<'_>) {
        let ask = Ask {
            model: self.model,
            group: self.membership,
            rule: self.rule,
            dialect: self.dialect,
            endpoint: self.asked.endpoint(),
            needs: self.needs,
            bound: self.bound.as_ref(),
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
            account: self.bound.clone(),
        }
    }

    pub(super) fn limit_line(&self, level: Level, id: &Arc<str>) -> Line {
        Line::Limit {
            tenant: self.tenant.tenant.clone(),
            level,
            id: Arc::clone(id),
        }
    }

    /// Nothing is free in this line.
    pub(super) fn wait_for<'c>(
        &self,
        choice: &Choice<'_>,
        line: Line,
        retry_after_ms: u64,
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
            refusal,
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
