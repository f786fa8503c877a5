//! How full the rates are that count for a request, without taking anything (FLOW-5): for answers that no take had a part in.

use switchboard_common::{error::Failure, ids::TenantName};
use switchboard_proto::scheduler::v1::{
    GetRateLimitsRequest, GetRateLimitsResponse, RateLimitState,
};
use switchboard_state::admission::{BucketSpec, BucketState, Place, Pool};

use super::{
    acquire::{model_needs, own_needs},
    core::Core,
    refusal,
};
use crate::domain::limits::Label;

/// A model's rates.
pub struct OfModel<'a> {
    pub pool: &'a Pool,
    pub buckets: &'a [BucketSpec],
    pub labels: &'a [Label],
}

impl Core {
    /// The rates of a caller, and of a model where one is named. An unknown model has none.
    ///
    /// # Errors
    /// The question makes no sense, or the catalogue cannot be read.
    pub async fn rate_limits(
        &self,
        asked: &GetRateLimitsRequest,
    ) -> Result<GetRateLimitsResponse, Failure> {
        let demand = asked
            .demand
            .as_ref()
            .filter(|demand| !demand.tenant.is_empty())
            .ok_or_else(|| refusal::invalid("demand.tenant", "the tenant's name"))?;
        let supply = self.catalogue.pinned(asked.catalogue_version).await?;
        let model = supply.models.get(asked.model.as_str());
        let of_model = model.map(|model| {
            let pool = Pool::Model(model.name.clone());
            (pool, model_needs(model, 1))
        });
        let own = own_needs(demand, 1);
        let of_model = of_model.as_ref().map(|(pool, needs)| OfModel {
            pool,
            buckets: &needs.buckets,
            labels: &needs.labels,
        });
        let tenant = TenantName::from(demand.tenant.as_str());
        let rate_limits = look(self, &tenant, (&own.buckets, &own.labels), of_model).await;
        Ok(GetRateLimitsResponse { rate_limits })
    }
}

/// The states of a caller's own rates and of a model's. What the store does not tell is left out.
pub async fn look(
    core: &Core,
    tenant: &TenantName,
    (buckets, labels): (&[BucketSpec], &[Label]),
    of_model: Option<OfModel<'_>>,
) -> Vec<RateLimitState> {
    let mut rates = of_place(core, Place::Tenant(tenant), buckets, labels).await;
    if let Some(model) = of_model {
        let place = Place::Pool(model.pool);
        rates.extend(of_place(core, place, model.buckets, model.labels).await);
    }
    rates
}

async fn of_place(
    core: &Core,
    place: Place<'_>,
    buckets: &[BucketSpec],
    labels: &[Label],
) -> Vec<RateLimitState> {
    if buckets.is_empty() {
        return Vec::new();
    }
    match core.admission.buckets(place, buckets).await {
        Ok(states) => labels.iter().zip(&states).map(rate_limit).collect(),
        Err(error) => {
            tracing::debug!(%error, "rates cannot be looked at");
            Vec::new()
        }
    }
}

/// As callers are told.
pub fn rate_limit((label, state): (&Label, &BucketState)) -> RateLimitState {
    RateLimitState {
        unit: label.rate.unit().to_owned(),
        level: label.level.name().to_owned(),
        limit: label.limit,
        remaining: state.remaining,
        reset_ms: state.reset_ms,
    }
}
