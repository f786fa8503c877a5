//! What `Acquire` answers: the candidates with every value an attempt needs, the lease, the state of the rates, and why; or
//! which limit refused.

use std::{sync::Arc, time::Duration};

use switchboard_common::{error::Failure, rate_limit::headers};
use switchboard_proto::scheduler::v1::{
    AcquireResponse, Candidate, CredentialHeader, Demand, Proxy, Renewal,
};
use switchboard_state::admission::{BucketState, LimitKind};

use super::{Call, FIRST, Granted, Pass};
use crate::{
    domain::{
        choice::Choice,
        decision,
        limits::Level,
        supply::{Target, operation, upstream_dialect},
    },
    flow::{rates::rate_limit, refusal, table::Held},
};

impl Call<'_> {
    pub(super) fn held(&self, granted: &Granted<'_>) -> Held {
        let target = granted.target();
        let demand = self.asked.demand.as_ref();
        let text = |field: fn(&Demand) -> &String| demand.map(field).cloned().unwrap_or_default();
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

    pub(super) fn respond(
        &self,
        granted: &Granted<'_>,
        lease: Renewal,
        queued_us: u64,
    ) -> AcquireResponse {
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
    pub(super) fn again(&self, held: &Held) -> AcquireResponse {
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

    /// A limit of the caller's own refused: a rate ends the request, a slot may be waited for.
    pub(super) fn limited<'c>(
        &self,
        choice: &Choice<'_>,
        (kind, index): (LimitKind, usize),
        retry_after_ms: u64,
        buckets: &[BucketState],
    ) -> Result<Pass<'c>, Failure> {
        let slot = self.levels.get(index).zip(self.tenant.slots.get(index));
        match (kind, slot, self.labels.get(index)) {
            (LimitKind::Slot, Some((level, slot)), _) => {
                let line = self.limit_line(*level, &slot.id);
                let mut pass = self.wait_for(choice, line, retry_after_ms);
                if let Pass::Wait { refusal, .. } = &mut pass {
                    refusal.headers = self.told(buckets);
                }
                Ok(pass)
            }
            (LimitKind::Bucket, _, Some(label)) => {
                let mut refusal = refusal::rate_limited(label, retry_after_ms);
                refusal.headers = self.told(buckets);
                Err(refusal)
            }
            _ => Err(Failure::internal()),
        }
    }

    /// The states of the caller's own rates that came with the refusal of one of its limits, as headers: one question to
    /// the store less in a flood. Other refusals have them looked up.
    fn told(&self, buckets: &[BucketState]) -> Vec<(String, String)> {
        let states: Vec<_> = self.labels.iter().zip(buckets).map(rate_limit).collect();
        headers(self.dialect, &states, self.core.clock.now_ms())
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
        let dialect = upstream_dialect(self.dialect, self.asked.endpoint(), account.dialects)
            .unwrap_or(self.dialect);
        let upstream_model = target.upstream_model(&self.asked.public_model);
        let timeouts = &self.model.timeouts;
        let operation = operation(self.asked.endpoint(), self.asked.stream);
        Candidate {
            account: account.name.to_string(),
            upstream_model: upstream_model.to_owned(),
            dialect: dialect as i32,
            provider: account.provider.to_owned(),
            url: account.url(dialect, operation, upstream_model),
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
            parameters: account.parameters.clone(),
            errors: account.errors.clone(),
            proxy: account
                .proxy
                .clone()
                .map(|place| Proxy { place: Some(place) }),
        }
    }
}

impl Granted<'_> {
    fn target(&self) -> Option<&Target> {
        let index = self.choice.order.get(self.place)?;
        self.choice.considered.get(*index).map(|one| one.target)
    }
}
