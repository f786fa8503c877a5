//! `billing.v1.BillingAdmin`: for admins, through the edge.

use std::{collections::HashSet, sync::Arc, time::Duration};

use switchboard_common::{
    error::{Failure, Reason},
    feed::Feed,
    ids::TenantName,
    money::NanoUsd,
};
use switchboard_proto::{
    billing::v1::{
        ApplyPricesRequest, ApplyPricesResponse, ApplyTenantsRequest, ApplyTenantsResponse,
        Budget as WireBudget, BudgetState, ExplainRequest, ExplainResponse, GetTenantRequest,
        GetTenantResponse, ListAuditRequest, ListAuditResponse, ListUsageRequest,
        ListUsageResponse, ResolveDeadLetterRequest, ResolveDeadLetterResponse, TopUpRequest,
        TopUpResponse, VerifyLedgerRequest, VerifyLedgerResponse,
        billing_admin_server::BillingAdmin,
    },
    common::v1::PlannedChange,
};
use tonic::{Request, Response, Status};

use super::validation::{actor, budgets, invalid, sheets};
use crate::{
    domain::budget::{SubjectKind, tenant_owner},
    purse,
    reservation::Reservations,
    store::{AppliedTenants, Fault, Limits, OwnerBudgets, Resolved, Store, TenantTerms, ToppedUp},
};

const DEFAULT_ROWS: u32 = 100;
const MOST_ROWS: u32 = 1_000;
const MOST_KEY: usize = 200;
/// Holds that a verification lists at most.
const MOST_HOLDS: usize = 100;

/// What the service needs.
pub(crate) struct Admin {
    pub(crate) store: Store,
    pub(crate) reservations: Reservations,
    pub(crate) feed: Feed,
    pub(crate) hold_limit: Duration,
}

/// Prices, balances, usage, verification.
#[derive(Clone)]
pub struct AdminService(pub(crate) Arc<Admin>);

#[tonic::async_trait]
impl BillingAdmin for AdminService {
    async fn plan_prices(
        &self,
        request: Request<ApplyPricesRequest>,
    ) -> Result<Response<ApplyPricesResponse>, Status> {
        let (_, sheets) = sheets(request.into_inner())?;
        let planned = self.0.store.plan_prices(&sheets).await.map_err(broken)?;
        Ok(Response::new(ApplyPricesResponse {
            changes: planned.changes,
            sheets: planned.sheets,
        }))
    }

    async fn apply_prices(
        &self,
        request: Request<ApplyPricesRequest>,
    ) -> Result<Response<ApplyPricesResponse>, Status> {
        let (actor, sheets) = sheets(request.into_inner())?;
        let now_ms = self.0.reservations.clock.now_ms();
        let planned = self
            .0
            .store
            .apply_prices(&sheets, &actor, now_ms)
            .await
            .map_err(broken)?;
        self.0.feed.wake();
        Ok(Response::new(ApplyPricesResponse {
            changes: planned.changes,
            sheets: planned.sheets,
        }))
    }

    async fn plan_tenants(
        &self,
        request: Request<ApplyTenantsRequest>,
    ) -> Result<Response<ApplyTenantsResponse>, Status> {
        let changes = self.0.tenants(request.into_inner(), false).await?;
        Ok(Response::new(ApplyTenantsResponse { changes }))
    }

    async fn apply_tenants(
        &self,
        request: Request<ApplyTenantsRequest>,
    ) -> Result<Response<ApplyTenantsResponse>, Status> {
        let changes = self.0.tenants(request.into_inner(), true).await?;
        Ok(Response::new(ApplyTenantsResponse { changes }))
    }

    async fn get_tenant(
        &self,
        request: Request<GetTenantRequest>,
    ) -> Result<Response<GetTenantResponse>, Status> {
        let name = request.into_inner().name;
        Ok(Response::new(self.0.tenant(name).await?))
    }

    async fn top_up(
        &self,
        request: Request<TopUpRequest>,
    ) -> Result<Response<TopUpResponse>, Status> {
        let balance_nanos = self.0.top_up(request.into_inner()).await?;
        Ok(Response::new(TopUpResponse { balance_nanos }))
    }

    async fn list_usage(
        &self,
        request: Request<ListUsageRequest>,
    ) -> Result<Response<ListUsageResponse>, Status> {
        let request = request.into_inner();
        let before = match request.before.as_str() {
            "" => None,
            id => Some(
                id.parse()
                    .map_err(|_| invalid("before", "the request id of a row"))?,
            ),
        };
        let limit = match request.limit {
            0 => DEFAULT_ROWS,
            limit => limit.min(MOST_ROWS),
        };
        let rows = self
            .0
            .store
            .usage(&request.tenant, before, limit)
            .await
            .map_err(broken)?;
        Ok(Response::new(ListUsageResponse { rows }))
    }

    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        let id = request.into_inner().id;
        if id.is_empty() {
            return Err(invalid("id", "a request id or a client_request_id").into());
        }
        let found = self.0.store.explain(&id).await.map_err(broken)?;
        let explained = found.ok_or_else(|| {
            Failure::new(
                Reason::NotFound,
                "no request with this id or client_request_id is settled; refusals have no row, and a running request has \
                 none yet",
            )
        })?;
        Ok(Response::new(explained))
    }

    async fn verify_ledger(
        &self,
        _: Request<VerifyLedgerRequest>,
    ) -> Result<Response<VerifyLedgerResponse>, Status> {
        Ok(Response::new(self.0.verify().await?))
    }

    async fn resolve_dead_letter(
        &self,
        request: Request<ResolveDeadLetterRequest>,
    ) -> Result<Response<ResolveDeadLetterResponse>, Status> {
        let resolved = self.0.resolve(request.into_inner()).await?;
        Ok(Response::new(ResolveDeadLetterResponse { resolved }))
    }

    async fn list_audit(
        &self,
        request: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        let limit = match request.into_inner().limit {
            0 => DEFAULT_ROWS,
            limit => limit.min(MOST_ROWS),
        };
        let entries = self.0.store.audit(limit).await.map_err(broken)?;
        Ok(Response::new(ListAuditResponse { entries }))
    }
}

impl Admin {
    async fn tenants(
        &self,
        request: ApplyTenantsRequest,
        keep: bool,
    ) -> Result<Vec<PlannedChange>, Failure> {
        let actor = actor(request.actor)?;
        let mut seen = HashSet::new();
        let mut tenants = Vec::with_capacity(request.tenants.len());
        for tenant in request.tenants {
            if tenant.name.is_empty() || !seen.insert(tenant.name.clone()) {
                return Err(invalid("tenants.name", "each tenant's name, once"));
            }
            if tenant.opening_balance_nanos.is_some_and(|nanos| nanos < 0) {
                return Err(invalid(
                    "tenants.opening_balance_nanos",
                    "an amount that is not negative",
                ));
            }
            tenants.push(TenantTerms {
                budgets: budgets(
                    &tenant.budgets,
                    &[SubjectKind::Tenant, SubjectKind::User, SubjectKind::Key],
                )?,
                name: tenant.name,
                opening_nanos: tenant.opening_balance_nanos,
            });
        }
        let mut groups: Vec<OwnerBudgets> = Vec::new();
        for budget in budgets(&request.budgets, &[SubjectKind::Group])? {
            match groups.iter_mut().find(|group| group.name == budget.subject) {
                Some(group) => group.budgets.push(budget),
                None => groups.push(OwnerBudgets {
                    name: budget.subject.clone(),
                    budgets: vec![budget],
                }),
            }
        }
        let now_ms = self.reservations.clock.now_ms();
        let AppliedTenants { changes, recounted } = self
            .store
            .apply_tenants(&tenants, &groups, &actor, now_ms, keep)
            .await
            .map_err(faulty)?;
        if keep && !changes.is_empty() {
            // Here at once; elsewhere by the feed.
            self.reservations.terms.doubt_all();
            for change in changes.iter().filter(|change| change.section == "tenant") {
                self.reservations.refresh_balance(&change.name).await;
            }
            for owner in &recounted {
                self.reservations.refresh_windows(owner).await;
            }
            self.feed.wake();
        }
        Ok(changes)
    }

    async fn tenant(&self, name: String) -> Result<GetTenantResponse, Failure> {
        let owner = tenant_owner(&name);
        let wallet = self
            .store
            .wallet(&owner)
            .await
            .map_err(broken)?
            .ok_or_else(|| no_tenant(&name))?;
        let terms = self.store.terms(&owner).await.map_err(broken)?;
        let now_ms = self.reservations.clock.now_ms();
        let mut budgets = Vec::new();
        for budget in terms.budgets.iter() {
            let window = budget.span.window(now_ms);
            let row = self
                .store
                .window(
                    &owner,
                    budget.kind.name(),
                    &budget.subject,
                    budget.span.name(),
                    window.starts_ms,
                )
                .await
                .map_err(broken)?;
            budgets.push(BudgetState {
                budget: Some(WireBudget {
                    subject_kind: budget.kind.name().to_owned(),
                    subject: budget.subject.clone(),
                    window: budget.span.name().to_owned(),
                    amount_nanos: budget.amount_nanos,
                    tokens: budget.tokens.and_then(|tokens| u64::try_from(tokens).ok()),
                }),
                used_nanos: row.as_ref().map_or(0, |row| row.used_nanos),
                used_tokens: row.map_or(0, |row| u64::try_from(row.used_tokens).unwrap_or(0)),
                resets_at_ms: window.ends_ms,
            });
        }
        let key = |state: &BudgetState| {
            state.budget.as_ref().map(|budget| {
                (
                    budget.subject_kind.clone(),
                    budget.subject.clone(),
                    state.resets_at_ms,
                )
            })
        };
        budgets.sort_by_key(key);
        let held_nanos = self
            .reservations
            .purses
            .held(&TenantName::from(name.as_str()))
            .await
            .map_err(|error| {
                tracing::warn!(%error, "open holds cannot be read");
                Failure::new(
                    Reason::Unavailable,
                    "open holds cannot be read right now; try again shortly",
                )
            })?;
        Ok(GetTenantResponse {
            prepaid: wallet.wallet.prepaid,
            balance_nanos: wallet.wallet.worth(),
            overrun_nanos: wallet.wallet.overrun_nanos.saturating_neg(),
            held_nanos,
            budgets,
            name,
        })
    }

    async fn top_up(&self, request: TopUpRequest) -> Result<i64, Failure> {
        let actor = actor(request.actor)?;
        if request.idempotency_key.is_empty() || request.idempotency_key.len() > MOST_KEY {
            return Err(invalid(
                "idempotency_key",
                "1 to 200 bytes of your choice; the same key twice is one top-up",
            ));
        }
        if request.amount_nanos == 0 {
            return Err(invalid(
                "amount_nanos",
                "an amount; negative for a correction",
            ));
        }
        let now_ms = self.reservations.clock.now_ms();
        let done = self
            .store
            .top_up(
                &request.tenant,
                request.amount_nanos,
                &request.idempotency_key,
                &actor,
                now_ms,
            )
            .await
            .map_err(faulty)?;
        match done {
            ToppedUp::Done(row) => {
                let value = purse::balance_value(Some(&row));
                let tenant = TenantName::from(request.tenant.as_str());
                if let Err(error) = self.reservations.purses.load(&tenant, &[value]).await {
                    tracing::warn!(%error, "a top-up does not reach the state store yet");
                }
                self.feed.wake();
                Ok(row.wallet.worth())
            }
            ToppedUp::NoTenant => Err(no_tenant(&request.tenant)),
            ToppedUp::OtherAmount(before) => Err(Failure::new(
                Reason::Conflict,
                format!(
                    "idempotency_key was used for {} USD before; another top-up needs another key",
                    NanoUsd(before)
                ),
            )
            .param("idempotency_key")),
        }
    }

    async fn resolve(&self, request: ResolveDeadLetterRequest) -> Result<u64, Failure> {
        let actor = actor(request.actor)?;
        if actor.reason.trim().is_empty() {
            return Err(invalid(
                "actor.reason",
                "why the request may stay unsettled",
            ));
        }
        // As verification names it: what was put aside need not have had an id.
        let id = request.request_id;
        if id.is_empty() || id.contains('\0') {
            return Err(invalid("request_id", "the id that `ledger verify` names"));
        }
        let now_ms = self.reservations.clock.now_ms();
        match self
            .store
            .resolve(&id, &actor, now_ms)
            .await
            .map_err(faulty)?
        {
            Resolved::Now(resolved) => Ok(resolved),
            Resolved::Before => Ok(0),
            Resolved::Unknown => Err(Failure::new(
                Reason::NotFound,
                "no dead letter bears this id; `ledger verify` lists those that need a decision",
            )
            .param("request_id")),
        }
    }

    async fn verify(&self) -> Result<VerifyLedgerResponse, Failure> {
        let now_ms = self.reservations.clock.now_ms();
        let mut findings = self.store.verify(Limits { now_ms }).await.map_err(broken)?;
        let purses = &self.reservations.purses;
        let limit = u64::try_from(self.hold_limit.as_millis()).unwrap_or(u64::MAX);
        let away = |error| {
            tracing::warn!(%error, "open holds cannot be read");
            Failure::new(
                Reason::Unavailable,
                "open holds cannot be read right now; try again shortly",
            )
        };
        for hold in purses.stale(limit, MOST_HOLDS).await.map_err(away)? {
            findings.problems.push(format!(
                "hold of request {} (tenant {}): {} USD, silent for {} s",
                hold.request,
                hold.tenant,
                NanoUsd(hold.amount_nanos),
                hold.silent_ms / 1_000
            ));
        }
        Ok(VerifyLedgerResponse {
            balanced: findings.problems.is_empty(),
            problems: findings.problems,
            settlements: findings.settlements,
            entries: findings.entries,
            open_holds: purses.open_holds().await.map_err(away)?,
            dead_letters: findings.dead_letters,
            resolved: findings.resolved,
        })
    }
}

fn no_tenant(name: &str) -> Failure {
    Failure::new(
        Reason::NotFound,
        format!("billing knows no tenant {name}; apply a catalogue that has it"),
    )
}

fn broken(error: sea_orm::DbErr) -> Failure {
    faulty(Fault::from(error))
}

fn faulty(fault: Fault) -> Failure {
    match fault {
        Fault::Data(problem) => {
            tracing::warn!(%problem, "a change is refused by the database");
            Failure::new(
                Reason::InvalidRequest,
                "a value is beyond what can be stored; check amounts and texts",
            )
        }
        Fault::Outage(error) => {
            tracing::warn!(%error, "billing's database is not available");
            Failure::new(
                Reason::Unavailable,
                "billing's database is not available; try again shortly",
            )
            .retry_after(Duration::from_secs(1))
        }
        Fault::Other(error) => {
            tracing::error!(%error, "billing's database failed");
            Failure::internal()
        }
    }
}
