//! `Advance`: from a failed attempt to the next candidate, without waiting (FWD-4).
//!
//! The new slot is taken before the old one is given back, so that the request never stands without one; when nobody is left it
//! keeps the one it has.

use std::{str::FromStr as _, sync::Arc};

use switchboard_common::{
    error::Failure,
    ids::{ModelName, RequestId},
};
use switchboard_proto::{
    common::v1::Dialect,
    scheduler::v1::{AdvanceRequest, AdvanceResponse, Renewal},
};
use switchboard_state::admission::{AccountGrant, Correction, Pool, Release};

use super::{core::Core, refusal, table::Held, undo::Undo};
use crate::{
    Error,
    domain::{
        choice::rests_until_ms,
        filter::{self, Ask, Membership},
        rule::Rule,
        supply::{Capabilities, Target},
    },
};

/// When to come again to an account whose slots are all in use.
const FULL_RETRY_MS: u64 = 1_000;

impl Core {
    /// Moves a request to the first usable candidate that is left.
    ///
    /// # Errors
    /// The request makes no sense, or a store does not answer. Nothing has changed then.
    pub async fn advance(&self, asked: &AdvanceRequest) -> Result<AdvanceResponse, Failure> {
        let request = RequestId::from_str(&asked.request_id)
            .map_err(|_| refusal::invalid("request_id", "a UUID"))?;
        let held = self.lease_of(request, asked);
        if let Some(held) = held
            .as_ref()
            .filter(|held| held.lease.attempt == asked.attempt)
            && let Some(answer) = again(asked, held)
        {
            return Ok(answer);
        }
        if let Some(failed) = &asked.failed {
            self.learn(failed).await;
        }
        let supply = self.catalogue.pinned(asked.catalogue_version).await?;
        let model = supply
            .models
            .get(asked.model.as_str())
            .ok_or_else(|| refusal::model_not_found(&asked.public_model))?;
        // Group, capability and dialect were decided when the candidates were; what may have changed is asked again.
        let ask = Ask {
            model,
            group: Membership::All,
            rule: Rule::of(asked.route.as_ref()),
            dialect: Dialect::try_from(asked.dialect).unwrap_or_default(),
            endpoint: asked.endpoint(),
            needs: Capabilities::default(),
            bound: None,
            now_ms: self.clock.now_ms(),
        };
        let public_model = ModelName::from(asked.public_model.as_str());
        let tokens = held.as_ref().map_or(1, |held| held.tokens);
        let mut retry_after_ms: Option<u64> = None;
        let mut later =
            |ms: u64| retry_after_ms = Some(retry_after_ms.map_or(ms, |least| least.min(ms)));
        let mut undo = Undo::new(self);
        for (place, left) in asked.left.iter().enumerate() {
            let same = |target: &&Target| {
                target.account.name.as_str() == left.account
                    && target.upstream_model(&asked.public_model) == left.upstream_model
            };
            let Some(target) = model.targets.iter().find(same) else {
                continue;
            };
            let known = match &target.known {
                Some(_) => None,
                None => self
                    .registry
                    .find_target(&target.account.name, &public_model),
            };
            let rests = rests_until_ms(target, known.as_deref());
            let outcomes = filter::outcomes(&ask, target, rests);
            if !outcomes.pass() {
                if outcomes.only_rests() {
                    later(u64::try_from(rests - ask.now_ms).unwrap_or(0));
                }
                continue;
            }
            let here = held
                .as_ref()
                .filter(|held| held.lease.account == left.account);
            if let Some(held) = here {
                // Another model at the same account: the slot that it has will do.
                return Ok(self.stays(request, held, place, &left.upstream_model));
            }
            let take = self.account_take(&target.account, request, asked.attempt, tokens, false);
            undo.pool(take.account.clone(), request, asked.attempt);
            match self
                .admission
                .take_account(&take)
                .await
                .map_err(Error::from)?
            {
                AccountGrant::Granted { used, .. } => {
                    target
                        .account
                        .known
                        .set_used(i64::try_from(used).unwrap_or(i64::MAX));
                    undo.keep();
                    let lease = self.moved(request, asked, held, target).await;
                    return Ok(AdvanceResponse {
                        granted: u32::try_from(place).ok(),
                        retry_after_ms: None,
                        lease: Some(lease),
                    });
                }
                AccountGrant::Full { retry_after_ms, .. }
                | AccountGrant::RateLimited { retry_after_ms, .. } => later(retry_after_ms),
                AccountGrant::WaitersFirst => later(FULL_RETRY_MS),
                AccountGrant::Gone => return Err(refusal::gone()),
            }
            undo.pool_gave_nothing();
        }
        Ok(AdvanceResponse {
            granted: None,
            retry_after_ms,
            lease: None,
        })
    }

    /// What the request holds: as this process knows it, unless it moved through another one since.
    fn lease_of(&self, request: RequestId, asked: &AdvanceRequest) -> Option<Held> {
        let own = self.table.get(request);
        let told = asked.held.as_ref().filter(|told| !told.account.is_empty());
        match (own, told) {
            (Some(own), Some(told)) if told.attempt > own.lease.attempt => {
                Some(self.told(told, &own.upstream_model))
            }
            (None, Some(told)) => {
                let failed = asked.failed.as_ref();
                Some(self.told(told, failed.map_or("", |failed| &failed.upstream_model)))
            }
            (own, _) => own,
        }
    }

    fn stays(
        &self,
        request: RequestId,
        held: &Held,
        place: usize,
        upstream_model: &str,
    ) -> AdvanceResponse {
        let lease = held.lease.clone();
        self.note(
            request,
            Held {
                upstream_model: upstream_model.to_owned(),
                ends_ms: self.lease_end_ms(),
                ..held.clone()
            },
        );
        AdvanceResponse {
            granted: u32::try_from(place).ok(),
            retry_after_ms: None,
            lease: Some(lease),
        }
    }

    /// Notes where the request is now and frees where it was.
    async fn moved(
        &self,
        request: RequestId,
        asked: &AdvanceRequest,
        held: Option<Held>,
        target: &Target,
    ) -> Renewal {
        let old = match (&held, &asked.failed) {
            (Some(held), _) => Some((held.lease.account.as_str().into(), held.lease.attempt)),
            (None, Some(failed)) => Some((
                failed.account.as_str().into(),
                asked.attempt.saturating_sub(1),
            )),
            (None, None) => None,
        };
        let mut lease = held
            .as_ref()
            .map(|held| held.lease.clone())
            .unwrap_or_default();
        lease.account = target.account.name.to_string();
        lease.attempt = asked.attempt;
        lease.account_slot = true;
        if let Some(known) = held.as_ref().and_then(|held| held.known.as_ref()) {
            known.freed();
        }
        self.note(
            request,
            Held {
                lease: lease.clone(),
                upstream_model: target.upstream_model(&asked.public_model).to_owned(),
                tokens: held.map_or(1, |held| held.tokens),
                known: Some(Arc::clone(&target.account.known)),
                ends_ms: self.lease_end_ms(),
            },
        );
        if let Some((account, attempt)) = old {
            let releases = [Release::Account {
                account: Pool::Account(account),
                request,
                attempt: Some(attempt),
                // The upstream counted the request and served no token.
                correction: Correction::Used(0),
            }];
            if let Err(error) = self.admission.release(&releases).await {
                tracing::warn!(%error, "the failed attempt's slot ends by itself");
            }
            self.freed(&releases).await;
        }
        lease
    }
}

/// The answer to a call that was answered before.
fn again(asked: &AdvanceRequest, held: &Held) -> Option<AdvanceResponse> {
    let place = asked.left.iter().position(|left| {
        left.account == held.lease.account && left.upstream_model == held.upstream_model
    })?;
    Some(AdvanceResponse {
        granted: u32::try_from(place).ok(),
        retry_after_ms: None,
        lease: Some(held.lease.clone()),
    })
}
