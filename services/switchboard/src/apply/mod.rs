//! Configuration as code (ROUTE-7): one catalogue file, planned everywhere, then committed in an order in which any
//! prefix is safe: credentials, prices, accounts with models and groups (one version), tenants and keys, balances and
//! budgets. Each step is idempotent: after a failure in the middle, running again converges.
//!
//! Secrets are resolved here, where the file is read, and travel only to the service that keeps them.

mod fragments;
mod secrets;
mod sheets;

use std::collections::HashMap;

use switchboard_common::{error::Failure, grpc::MAX_MESSAGE, grpc::Rpc};
use switchboard_proto::{
    auth::v1::{self as auth, auth_admin_client::AuthAdminClient},
    billing::v1::{self as billing, billing_admin_client::BillingAdminClient},
    common::v1::{Actor, PlannedChange},
    credentials::v1::{self as credentials, credentials_admin_client::CredentialsAdminClient},
    scheduler::v1::{self as scheduler, scheduler_admin_client::SchedulerAdminClient},
};
use tonic::{Code, Status};

pub use fragments::Fragments;
pub use secrets::{Secrets, SystemSecrets};

/// Clients of the four services that have facts.
#[derive(Clone, Debug)]
pub struct AdminClients {
    /// Tenants, groups' access side, keys.
    pub auth: AuthAdminClient<Rpc>,
    /// Accounts, models, groups' supply side.
    pub scheduler: SchedulerAdminClient<Rpc>,
    /// The vault.
    pub credentials: CredentialsAdminClient<Rpc>,
    /// Prices, balances, budgets, usage, ledger.
    pub billing: BillingAdminClient<Rpc>,
}

impl AdminClients {
    /// Over one transport to each.
    #[must_use]
    pub fn new(auth: Rpc, scheduler: Rpc, credentials: Rpc, billing: Rpc) -> Self {
        Self {
            auth: AuthAdminClient::new(auth)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE),
            scheduler: SchedulerAdminClient::new(scheduler)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE),
            credentials: CredentialsAdminClient::new(credentials)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE),
            billing: BillingAdminClient::new(billing)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE),
        }
    }

    /// Over one transport for all (the edge).
    #[must_use]
    pub fn over(rpc: Rpc) -> Self {
        Self::new(rpc.clone(), rpc.clone(), rpc.clone(), rpc)
    }
}

/// A step that did not commit.
#[derive(Debug, thiserror::Error)]
#[error(
    "{step} {}: {}; {}",
    if is_away(status) { "not reached" } else { "refused" },
    Failure::from_status(status).message,
    applied_text(applied)
)]
pub struct Error {
    /// Which step.
    pub step: &'static str,
    /// What the service said.
    pub status: Status,
    /// Steps that had committed before.
    pub applied: Vec<&'static str>,
    /// Secrets that these steps generated: shown now or never, since no later run makes them again.
    issued: Issued,
}

impl Error {
    /// Secrets that were generated before the failure. The keys exist: whoever runs `apply` must be shown them.
    #[must_use]
    pub fn issued(&self) -> &[auth::IssuedKey] {
        &self.issued.0
    }
}

/// Secrets in an error, which is written out more easily than a result.
struct Issued(Vec<auth::IssuedKey>);

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// Whether a status says that nobody answered, rather than what.
pub(crate) fn is_away(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled
    )
}

fn applied_text(applied: &[&str]) -> String {
    if applied.is_empty() {
        "nothing was applied".to_owned()
    } else {
        format!(
            "applied before: {}; run it again to converge",
            applied.join(", ")
        )
    }
}

/// What an apply did, or would do.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Differences, in the order of the steps; one for each thing that changes, however many services keep a part of it.
    pub changes: Vec<PlannedChange>,
    /// Secrets that were generated, shown this once.
    pub issued: Vec<auth::IssuedKey>,
    /// The catalogue's version afterwards (of a plan: now).
    pub catalogue_version: u64,
}

impl Outcome {
    /// Adds what a step changes. What an earlier step told of the same thing gets the rest; a sheet is told by its rates, not
    /// once more by the number under which the catalogue knows it.
    fn add(&mut self, changes: Vec<PlannedChange>) {
        let is_sheet = |change: &PlannedChange| matches!(change.section.as_str(), "price" | "cost");
        let thing = |change: &PlannedChange| {
            let kind = (!is_sheet(change)).then(|| change.kind.clone());
            (change.section.clone(), change.name.clone(), kind)
        };
        let mut places: HashMap<_, _> = self.changes.iter().map(thing).zip(0_usize..).collect();
        for change in changes {
            let is_sheet = is_sheet(&change);
            let next = self.changes.len();
            let place = *places.entry(thing(&change)).or_insert(next);
            match self.changes.get_mut(place) {
                None => self.changes.push(change),
                Some(_) if is_sheet || change.detail.is_empty() => {}
                Some(told) if told.detail.is_empty() => told.detail = change.detail,
                Some(told) if told.detail == change.detail => {}
                Some(told) => {
                    told.detail.push_str("; ");
                    told.detail.push_str(&change.detail);
                }
            }
        }
    }
}

const CREDENTIALS: &str = "credentials";
const PRICES: &str = "prices";
const CATALOGUE: &str = "accounts, models and groups";
const ACCESS: &str = "tenants and keys";
const MONEY: &str = "balances and budgets";

/// Says what would change and writes nothing. Every service validates.
///
/// # Errors
/// The first service that refuses.
pub async fn plan(
    clients: &AdminClients,
    fragments: &Fragments,
    actor: &Actor,
) -> Result<Outcome, Error> {
    let mut run = Run::new(clients, fragments, actor);
    run.plan().await?;
    Ok(run.outcome)
}

/// Plans everywhere, then commits in order.
///
/// # Errors
/// The first service that refuses, with what was applied before.
pub async fn apply(
    clients: &AdminClients,
    fragments: &Fragments,
    actor: &Actor,
) -> Result<Outcome, Error> {
    Run::new(clients, fragments, actor).plan().await?;
    let mut run = Run::new(clients, fragments, actor);
    run.commit().await?;
    Ok(run.outcome)
}

struct Run<'a> {
    clients: AdminClients,
    fragments: &'a Fragments,
    actor: &'a Actor,
    outcome: Outcome,
    applied: Vec<&'static str>,
}

impl<'a> Run<'a> {
    fn new(clients: &AdminClients, fragments: &'a Fragments, actor: &'a Actor) -> Self {
        Self {
            clients: clients.clone(),
            fragments,
            actor,
            outcome: Outcome::default(),
            applied: Vec::new(),
        }
    }

    async fn plan(&mut self) -> Result<(), Error> {
        let answer = self.clients.credentials.plan(self.credentials()).await;
        let credentials = self.step(CREDENTIALS, answer)?;
        self.outcome.add(credentials.changes);
        let answer = self.clients.billing.plan_prices(self.prices()).await;
        let prices = self.step(PRICES, answer)?;
        self.outcome.add(prices.changes);
        let answer = self
            .clients
            .scheduler
            .plan(self.catalogue(prices.sheets))
            .await;
        let catalogue = self.step(CATALOGUE, answer)?;
        self.outcome.add(catalogue.changes);
        self.outcome.catalogue_version = catalogue.version;
        let answer = self.clients.auth.plan(self.access()).await;
        let access = self.step(ACCESS, answer)?;
        self.outcome.add(access.changes);
        let answer = self.clients.billing.plan_tenants(self.money()).await;
        let money = self.step(MONEY, answer)?;
        self.outcome.add(money.changes);
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), Error> {
        let answer = self.clients.credentials.apply(self.credentials()).await;
        let done = self.step(CREDENTIALS, answer)?;
        self.done(CREDENTIALS, done.changes);
        let answer = self.clients.billing.apply_prices(self.prices()).await;
        let prices = self.step(PRICES, answer)?;
        self.done(PRICES, prices.changes);
        let answer = self
            .clients
            .scheduler
            .apply(self.catalogue(prices.sheets))
            .await;
        let catalogue = self.step(CATALOGUE, answer)?;
        self.outcome.catalogue_version = catalogue.version;
        self.done(CATALOGUE, catalogue.changes);
        let answer = self.clients.auth.apply(self.access()).await;
        let access = self.step(ACCESS, answer)?;
        self.outcome.issued = access.issued;
        self.done(ACCESS, access.changes);
        let answer = self.clients.billing.apply_tenants(self.money()).await;
        let money = self.step(MONEY, answer)?;
        self.done(MONEY, money.changes);
        Ok(())
    }

    fn step<T>(
        &self,
        step: &'static str,
        answer: Result<tonic::Response<T>, Status>,
    ) -> Result<T, Error> {
        match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(Error {
                step,
                status,
                applied: self.applied.clone(),
                issued: Issued(self.outcome.issued.clone()),
            }),
        }
    }

    fn done(&mut self, step: &'static str, changes: Vec<PlannedChange>) {
        self.applied.push(step);
        self.outcome.add(changes);
    }

    fn credentials(&self) -> credentials::ApplyRequest {
        credentials::ApplyRequest {
            actor: Some(self.actor.clone()),
            credentials: self.fragments.credentials.clone(),
        }
    }

    fn prices(&self) -> billing::ApplyPricesRequest {
        billing::ApplyPricesRequest {
            actor: Some(self.actor.clone()),
            sheets: self.fragments.sheets.clone(),
        }
    }

    fn catalogue(&self, sheets: Vec<scheduler::Sheet>) -> scheduler::ApplyRequest {
        scheduler::ApplyRequest {
            actor: Some(self.actor.clone()),
            catalogue_json: self.fragments.catalogue_json.clone(),
            sheets,
        }
    }

    fn access(&self) -> auth::ApplyRequest {
        auth::ApplyRequest {
            actor: Some(self.actor.clone()),
            groups: self.fragments.groups.clone(),
            tenants: self.fragments.tenants.clone(),
        }
    }

    fn money(&self) -> billing::ApplyTenantsRequest {
        billing::ApplyTenantsRequest {
            actor: Some(self.actor.clone()),
            tenants: self.fragments.money.clone(),
            budgets: self.fragments.group_budgets.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(section: &str, name: &str, kind: &str, detail: &str) -> PlannedChange {
        PlannedChange {
            section: section.to_owned(),
            name: name.to_owned(),
            kind: kind.to_owned(),
            detail: detail.to_owned(),
        }
    }

    #[test]
    fn what_several_services_keep_a_part_of_is_one_change() {
        let mut outcome = Outcome::default();
        outcome.add(vec![change("price", "m", "change", "input 0.5 → 0.6")]);
        outcome.add(vec![
            change("group", "g", "add", ""),
            change("group", "old", "disable", ""),
            // The catalogue's number of the sheet that was told above, and one that billing had already.
            change("price", "m", "change", "sheet 5 → 0"),
            change("cost", "a/m", "change", "sheet 6 → 7"),
        ]);
        outcome.add(vec![
            change("group", "g", "add", ""),
            change("group", "old", "disable", "it left the file"),
            change("tenant", "t", "add", "strict hold"),
            change("tenant", "u", "change", "hold"),
        ]);
        outcome.add(vec![
            change("tenant", "t", "add", "prepaid"),
            change("tenant", "u", "add", "prepaid"),
        ]);
        assert_eq!(
            outcome.changes,
            [
                change("price", "m", "change", "input 0.5 → 0.6"),
                change("group", "g", "add", ""),
                change("group", "old", "disable", "it left the file"),
                change("cost", "a/m", "change", "sheet 6 → 7"),
                change("tenant", "t", "add", "strict hold; prepaid"),
                change("tenant", "u", "change", "hold"),
                change("tenant", "u", "add", "prepaid"),
            ]
        );
    }
}
