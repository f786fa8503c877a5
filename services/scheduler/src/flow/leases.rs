//! Renewals and releases, in batches (FLOW-2, FLOW-3). Valid before, during and after the `Acquire` they end.

use std::{str::FromStr as _, sync::Arc};

use switchboard_common::ids::RequestId;
use switchboard_proto::scheduler::v1::{
    LeaseAcks, LeaseUpdates, Release as WireRelease, Renewal as WireRenewal, lease_update::Update,
};
use switchboard_state::admission::{Correction, Pool, Release, Renewal, Scope};

use super::{core::Core, table::Held};
use crate::domain::limits::group_user;

impl Core {
    /// Does a batch; the acknowledged ones are done. What the store did not take is not acknowledged: it is sent again.
    pub async fn updates(&self, updates: LeaseUpdates) -> LeaseAcks {
        let mut batch = Batch::default();
        for update in updates.updates {
            let Ok(request) = RequestId::from_str(&update.request_id) else {
                tracing::warn!("a lease update without request id is dropped");
                continue;
            };
            match update.update {
                Some(Update::Renewal(renewal)) => {
                    self.renewal(request, &update.tenant, renewal, &mut batch.renewals);
                    batch.renewed.push(update.request_id);
                }
                Some(Update::Release(release)) => {
                    self.release(request, &update.tenant, release, &mut batch.releases)
                        .await;
                    batch.released.push(update.request_id);
                }
                None => batch.renewed.push(update.request_id),
            }
        }
        let mut request_ids = Vec::with_capacity(batch.renewed.len() + batch.released.len());
        if batch.renewals.is_empty() {
            request_ids.append(&mut batch.renewed);
        } else {
            match self.admission.renew(&batch.renewals, self.lease_ttl).await {
                Ok(_) => request_ids.append(&mut batch.renewed),
                Err(error) => tracing::warn!(%error, "leases were not renewed"),
            }
        }
        if batch.releases.is_empty() {
            request_ids.append(&mut batch.released);
        } else {
            match self.admission.release(&batch.releases).await {
                Ok(()) => {
                    request_ids.append(&mut batch.released);
                    self.freed(&batch.releases).await;
                }
                Err(error) => tracing::warn!(%error, "leases were not released"),
            }
        }
        LeaseAcks { request_ids }
    }

    fn renewal(
        &self,
        request: RequestId,
        tenant: &str,
        told: WireRenewal,
        renewals: &mut Vec<Renewal>,
    ) {
        // What this process granted it knows, unless the request moved on through another one.
        let lease = match self.table.renewed(request, self.lease_end_ms()) {
            Some(own) if told.attempt <= own.attempt => own,
            _ => {
                self.note(request, self.told(&told, ""));
                told
            }
        };
        let slots = slots(&lease);
        if !slots.is_empty() {
            renewals.push(Renewal::Tenant {
                tenant: tenant.into(),
                request,
                slots,
            });
        }
        if lease.account_slot && !lease.account.is_empty() {
            renewals.push(Renewal::Account {
                account: Pool::Account(lease.account.as_str().into()),
                request,
                attempt: lease.attempt,
            });
        }
        if !lease.model.is_empty() {
            renewals.push(Renewal::Account {
                account: Pool::Model(lease.model.as_str().into()),
                request,
                attempt: 0,
            });
        }
    }

    /// A lease as the forwarder tells it.
    pub fn told(&self, lease: &WireRenewal, upstream_model: &str) -> Held {
        Held {
            lease: lease.clone(),
            upstream_model: upstream_model.to_owned(),
            tokens: 1,
            known: None,
            ends_ms: self.lease_end_ms(),
        }
    }

    /// Remembers what a request holds.
    pub fn note(&self, request: RequestId, held: Held) {
        if self.table.hold(request, held) {
            self.counted.slots_held.inc();
        }
    }

    async fn release(
        &self,
        request: RequestId,
        tenant: &str,
        told: WireRelease,
        releases: &mut Vec<Release>,
    ) {
        if let Some(outcome) = &told.outcome {
            self.learn(outcome).await;
        }
        let known = self.table.release(request);
        if let Some(held) = &known {
            self.counted.slots_held.dec();
            if let Some(cell) = &held.known {
                cell.freed();
            }
        }
        let correction = match (told.undo, told.used_tokens) {
            (true, _) => Correction::Refund,
            (false, Some(used)) => Correction::Used(used),
            (false, None) => Correction::Keep,
        };
        releases.push(Release::Tenant {
            tenant: tenant.into(),
            request,
            correction,
        });
        for account in accounts(known.as_ref(), &told) {
            releases.push(Release::Account {
                account: Pool::Account(account.into()),
                request,
                attempt: None,
                correction,
            });
        }
        let model = known
            .as_ref()
            .map(|held| held.lease.model.as_str())
            .or(told.held.as_ref().map(|held| held.model.as_str()))
            .unwrap_or_default();
        if !model.is_empty() {
            releases.push(Release::Account {
                account: Pool::Model(model.into()),
                request,
                attempt: None,
                correction,
            });
        }
    }
}

#[derive(Default)]
struct Batch {
    renewals: Vec<Renewal>,
    renewed: Vec<String>,
    releases: Vec<Release>,
    released: Vec<String>,
}

/// Whose slots a released request may hold: as this process knows it, and as the forwarder was told last.
fn accounts<'a>(known: Option<&'a Held>, told: &'a WireRelease) -> Vec<&'a str> {
    let own = known.map(|held| held.lease.account.as_str());
    let last = told.held.as_ref().map(|held| held.account.as_str());
    let tried = told
        .outcome
        .as_ref()
        .map(|outcome| outcome.account.as_str());
    let mut accounts: Vec<&str> = match (own, last) {
        (None, None) => tried.into_iter().collect(),
        _ => own.into_iter().chain(last).collect(),
    };
    accounts.retain(|account| !account.is_empty());
    accounts.dedup();
    accounts
}

/// The tenant's slots that a lease holds.
fn slots(lease: &WireRenewal) -> Vec<(Scope, Arc<str>)> {
    let mut slots: Vec<(Scope, Arc<str>)> = Vec::new();
    let mut add = |held: bool, scope: Scope, id: &str| {
        if held {
            slots.push((scope, id.into()));
        }
    };
    add(lease.tenant_slot, Scope::Tenant, "");
    add(lease.user_slot, Scope::User, &lease.user);
    add(lease.key_slot, Scope::Key, &lease.key_id);
    add(lease.group_slot, Scope::Group, &lease.group);
    if lease.group_user_slot {
        let id = group_user(&lease.group, &lease.user, &lease.key_id);
        add(true, Scope::GroupUser, &id);
    }
    slots
}
