//! What the state store is told of changes that no settlement made: top-ups, opening balances, budgets that count again.
//!
//! Values are absolute and have versions: told twice, or by several replicas, they are the same. What cannot be told now the
//! next settlement tells.

use sea_orm::DbErr;
use switchboard_common::ids::TenantName;
use switchboard_state::purses::PurseValue;

use crate::{domain::budget::tenant_owner, purse, reservation::Reservations};

/// Values that are loaded into the state store in one step at most.
const LOADED_AT_ONCE: usize = 500;

impl Reservations {
    /// Tells the state store what a tenant has; for changes that no settlement made.
    pub(crate) async fn refresh_balance(&self, tenant: &str) {
        match self.store.wallet(&tenant_owner(tenant)).await {
            Ok(wallet) => {
                let value = purse::balance_value(wallet.as_ref());
                if let Err(error) = self.purses.load(&TenantName::from(tenant), &[value]).await {
                    tracing::warn!(%error, tenant, "a changed balance does not reach the state store yet");
                }
            }
            Err(error) => tracing::warn!(%error, tenant, "a changed balance cannot be read yet"),
        }
    }

    /// Tells the state store what was spent in an owner's windows of now, of each tenant that spends in them.
    pub(crate) async fn refresh_windows(&self, owner: &str) {
        let tenants = match owner.split_once(':') {
            Some(("tenant", tenant)) => vec![tenant.to_owned()],
            Some(("group", group)) => {
                let known = self.group_tenants.lock();
                known.get(group).into_iter().flatten().cloned().collect()
            }
            _ => return,
        };
        match self.windows_of(owner).await {
            Ok(values) => {
                for tenant in tenants {
                    self.tell(&TenantName::from(tenant.as_str()), &values).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, owner, "what was spent of a budget cannot be read yet");
            }
        }
    }

    async fn tell(&self, tenant: &TenantName, values: &[PurseValue]) {
        for values in values.chunks(LOADED_AT_ONCE) {
            if let Err(error) = self.purses.load(tenant, values).await {
                tracing::warn!(%error, %tenant, "a budget that counts again does not reach the state store yet");
            }
        }
    }

    async fn windows_of(&self, owner: &str) -> Result<Vec<PurseValue>, DbErr> {
        let terms = self.store.terms(owner).await?;
        let now_ms = self.clock.now_ms();
        let mut values = Vec::new();
        for budget in terms.budgets.iter() {
            let (kind, span) = (budget.kind.name(), budget.span);
            let starts_ms = span.window(now_ms).starts_ms;
            let row = self
                .store
                .window(owner, kind, &budget.subject, span.name(), starts_ms)
                .await?;
            values.extend(row.iter().flat_map(purse::window_values));
        }
        Ok(values)
    }
}
