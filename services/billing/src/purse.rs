//! Which purses of the state store a request holds against, and what they are worth by SQL.

use switchboard_proto::billing::v1::Party;
use switchboard_state::purses::{PurseId, PurseKind, PurseTake, PurseValue, Unit};

use crate::{
    domain::{
        budget::{Budget, SubjectKind, group_owner, tenant_owner},
        hold::Size,
        window::Window,
    },
    store::{Terms, WalletRow, WindowRow},
};

/// The state store counts exactly below this.
const EXACT: i64 = 8_999_999_999_999_999;

/// A purse and where its value comes from.
#[derive(Clone, Debug)]
pub(crate) struct Purse {
    pub(crate) id: PurseId,
    pub(crate) kind: PurseKind,
    /// Absent: the tenant's balance.
    pub(crate) counted: Option<Counted>,
}

/// A budget in one window.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) owner: String,
    pub(crate) budget: Budget,
    pub(crate) window: Window,
    pub(crate) unit: Unit,
}

/// The balance of a prepaid tenant and every budget of the party, in the windows of `at_ms`.
pub(crate) fn purses(
    party: &Party,
    at_ms: i64,
    prepaid: bool,
    tenant: &Terms,
    group: &Terms,
) -> Vec<Purse> {
    let mut purses = Vec::new();
    if prepaid {
        purses.push(Purse {
            id: balance_id(),
            kind: PurseKind::Balance,
            counted: None,
        });
    }
    let of_tenant = tenant.budgets.of(party).map(|budget| (true, budget));
    let of_group = group.budgets.of(party).map(|budget| (false, budget));
    for (own, budget) in of_tenant.chain(of_group) {
        let window = budget.span.window(at_ms);
        let ceilings = [
            (Unit::Nanos, budget.amount_nanos),
            (Unit::Tokens, budget.tokens),
        ];
        for (unit, limit) in ceilings {
            let Some(limit) = limit else {
                continue;
            };
            let owner = if own {
                tenant_owner(&party.tenant)
            } else {
                group_owner(&party.group)
            };
            purses.push(Purse {
                id: window_id(
                    budget.kind.name(),
                    budget.span.name(),
                    window.starts_ms,
                    unit,
                    &budget.subject,
                ),
                kind: PurseKind::Budget {
                    limit: limit.clamp(0, EXACT),
                    window_ends_ms: window.ends_ms,
                    unit,
                },
                counted: Some(Counted {
                    owner,
                    budget: budget.clone(),
                    window,
                    unit,
                }),
            });
        }
    }
    purses
}

impl Purse {
    /// What a new request takes of it.
    pub(crate) fn take(&self, size: &Size) -> PurseTake {
        let (want, min) = match self.kind.unit() {
            Unit::Nanos => (size.want_nanos, size.min_nanos),
            Unit::Tokens => (size.want_tokens, size.min_tokens),
        };
        PurseTake {
            purse: self.id.clone(),
            kind: self.kind,
            want,
            min,
        }
    }

    /// What a running request holds of it.
    pub(crate) fn held(&self, nanos: i64, tokens: i64) -> PurseTake {
        let held = match self.kind.unit() {
            Unit::Nanos => nanos,
            Unit::Tokens => tokens,
        };
        PurseTake {
            purse: self.id.clone(),
            kind: self.kind,
            want: held.clamp(0, EXACT),
            min: 0,
        }
    }
}

impl Counted {
    /// Whose budget, for people.
    pub(crate) fn whose(&self, tenant: &str) -> String {
        match self.budget.kind {
            SubjectKind::Tenant => format!("tenant {tenant}"),
            kind => format!("{} {}", kind.name(), self.budget.subject),
        }
    }
}

/// The balance, debt taken off.
pub(crate) fn balance_value(wallet: Option<&WalletRow>) -> PurseValue {
    PurseValue {
        purse: balance_id(),
        value: wallet
            .map_or(0, |row| row.wallet.worth())
            .clamp(-EXACT, EXACT),
        version: wallet.map_or(0, |row| version(row.version)),
        window_ends_ms: None,
    }
}

/// A window that has no row yet was not spent in.
pub(crate) fn empty_value(counted: &Counted) -> PurseValue {
    let Counted {
        budget,
        window,
        unit,
        ..
    } = counted;
    PurseValue {
        purse: window_id(
            budget.kind.name(),
            budget.span.name(),
            window.starts_ms,
            *unit,
            &budget.subject,
        ),
        value: 0,
        version: 0,
        window_ends_ms: Some(window.ends_ms),
    }
}

/// A window's value in a unit.
pub(crate) fn window_value(row: &WindowRow, unit: Unit) -> PurseValue {
    let used = match unit {
        Unit::Nanos => row.used_nanos,
        Unit::Tokens => row.used_tokens,
    };
    PurseValue {
        purse: window_id(
            &row.subject_kind,
            &row.span,
            row.starts_ms,
            unit,
            &row.subject,
        ),
        value: used.clamp(-EXACT, EXACT),
        version: version(row.version),
        window_ends_ms: Some(row.ends_ms),
    }
}

/// A window's values in both units.
pub(crate) fn window_values(row: &WindowRow) -> [PurseValue; 2] {
    [Unit::Nanos, Unit::Tokens].map(|unit| window_value(row, unit))
}

fn version(version: i64) -> u64 {
    u64::try_from(version).unwrap_or(0)
}

fn balance_id() -> PurseId {
    PurseId::from("balance")
}

/// A new window is a new purse.
fn window_id(kind: &str, span: &str, starts_ms: i64, unit: Unit, subject: &str) -> PurseId {
    let unit = match unit {
        Unit::Nanos => "nanos",
        Unit::Tokens => "tokens",
    };
    PurseId::from(format!("{kind}:{span}:{starts_ms}:{unit}:{subject}"))
}
