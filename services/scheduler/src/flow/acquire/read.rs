//! Reads a call to `Acquire`: what is asked for, and whose limits count.

use switchboard_common::{error::Failure, ids::RequestId};
use switchboard_proto::{
    common::v1::{Dialect, Limits},
    scheduler::v1::{AcquireRequest, Demand},
};
use switchboard_state::admission::{AccountTake, Pool, TenantTake};

use super::{Call, FIRST};
use crate::{
    domain::{
        compile::capability,
        filter::Membership,
        limits::{Ceilings, Level, Needs, group_user},
        rule::Rule,
        supply::{Capabilities, Model, Supply},
    },
    flow::{core::Core, refusal},
};

impl<'a> Call<'a> {
    pub(super) fn read(
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
        let own = own_needs(demand, asked.estimated_tokens);
        let of_model = model_needs(model, asked.estimated_tokens);
        Ok(Self {
            core,
            asked,
            request,
            supply,
            model,
            membership,
            rule: Rule::of(asked.route.as_ref()),
            bound: None,
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
}

/// What a caller's own limits ask of a request.
pub fn own_needs(demand: &Demand, tokens: u64) -> Needs {
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
    own
}

/// What a model's limits ask of a request.
pub fn model_needs(model: &Model, tokens: u64) -> Needs {
    let mut needs = Needs::default();
    needs.add(Level::Model, "", &model.limits, tokens);
    needs
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
