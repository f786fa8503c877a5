//! Wallets and budgets as one owner's terms.

use std::collections::HashSet;

use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult};

use super::{Store, bulk, query};
use crate::domain::{
    budget::{Budget, Budgets, SubjectKind},
    ledger::Wallet,
    window::Span,
};

/// What bounds an owner's spending, as of a revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) prepaid: bool,
    /// Raised with every change of prepaid or budgets.
    pub(crate) revision: i64,
    pub(crate) budgets: Budgets,
}

/// An owner's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalletRow {
    pub(crate) id: String,
    pub(crate) wallet: Wallet,
    /// The opening balance was given.
    pub(crate) opened: bool,
    /// Raised with every change of the balance.
    pub(crate) version: i64,
    pub(crate) revision: i64,
}

/// How long a lock on wallets lasts, and against whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Balances or budgets change.
    Update,
    /// Budgets must not change meanwhile.
    Share,
}

const COLUMNS: &str =
    "id, prepaid, opened, balance_nanos, overrun_nanos, version, budgets_revision";

pub(super) const WALLETS: bulk::Target = bulk::Target {
    table: "wallet",
    columns: &[
        ("id", bulk::Kind::Text),
        ("prepaid", bulk::Kind::Int),
        ("opened", bulk::Kind::Int),
        ("balance_nanos", bulk::Kind::Int),
        ("overrun_nanos", bulk::Kind::Int),
        ("version", bulk::Kind::Int),
        ("budgets_revision", bulk::Kind::Int),
    ],
    suffix: "ON CONFLICT (id) DO UPDATE SET prepaid = excluded.prepaid, opened = excluded.opened, \
             balance_nanos = excluded.balance_nanos, overrun_nanos = excluded.overrun_nanos, \
             version = excluded.version, budgets_revision = excluded.budgets_revision",
};

const NEW_WALLETS: bulk::Target = bulk::Target {
    suffix: "ON CONFLICT (id) DO NOTHING",
    ..WALLETS
};

impl WalletRow {
    pub(super) fn cells(&self) -> [bulk::Cell; 7] {
        [
            self.id.as_str().into(),
            self.wallet.prepaid.into(),
            self.opened.into(),
            self.wallet.balance_nanos.into(),
            self.wallet.overrun_nanos.into(),
            self.version.into(),
            self.revision.into(),
        ]
    }

    fn from_row(row: &QueryResult) -> Result<Self, DbErr> {
        Ok(Self {
            id: row.try_get("", "id")?,
            wallet: Wallet {
                prepaid: row.try_get::<i64>("", "prepaid")? != 0,
                balance_nanos: row.try_get("", "balance_nanos")?,
                overrun_nanos: row.try_get("", "overrun_nanos")?,
            },
            opened: row.try_get::<i64>("", "opened")? != 0,
            version: row.try_get("", "version")?,
            revision: row.try_get("", "budgets_revision")?,
        })
    }
}

impl Store {
    /// The terms of an owner; empty ones where it has no row.
    pub(crate) async fn terms(&self, owner: &str) -> Result<Terms, DbErr> {
        let on = self.database.reader();
        let Some(row) = wallet(on, owner).await? else {
            return Ok(Terms::default());
        };
        // A revision that is older than the budgets costs one reading more; a newer one would be believed.
        Ok(Terms {
            prepaid: row.wallet.prepaid,
            revision: row.revision,
            budgets: active_budgets(on, owner).await?,
        })
    }

    /// An owner's row, if it has one.
    pub(crate) async fn wallet(&self, owner: &str) -> Result<Option<WalletRow>, DbErr> {
        wallet(self.database.reader(), owner).await
    }
}

async fn wallet(on: &impl ConnectionTrait, owner: &str) -> Result<Option<WalletRow>, DbErr> {
    let sql = format!("SELECT {COLUMNS} FROM wallet WHERE id = $1");
    query(on, &sql, [owner.into()])
        .await?
        .first()
        .map(WalletRow::from_row)
        .transpose()
}

/// Locks owners' rows in the order of their ids, making those that are missing. `owners` are sorted.
pub(super) async fn lock(
    on: &impl ConnectionTrait,
    owners: &[&str],
    lock: Lock,
) -> Result<Vec<WalletRow>, DbErr> {
    if owners.is_empty() {
        return Ok(Vec::new());
    }
    let found = select_locked(on, owners, lock).await?;
    if found.len() == owners.len() {
        return Ok(found);
    }
    let known: HashSet<_> = found.iter().map(|row| row.id.as_str()).collect();
    let mut rows = bulk::Rows::new(NEW_WALLETS);
    for owner in owners.iter().filter(|owner| !known.contains(**owner)) {
        let fresh = WalletRow {
            id: (*owner).to_owned(),
            ..WalletRow::default()
        };
        rows.push(fresh.cells());
    }
    bulk::insert(on, vec![rows]).await?;
    select_locked(on, owners, lock).await
}

async fn select_locked(
    on: &impl ConnectionTrait,
    owners: &[&str],
    lock: Lock,
) -> Result<Vec<WalletRow>, DbErr> {
    let list = serde_json::Value::from(owners).to_string();
    let sql = match (on.get_database_backend(), lock) {
        (DbBackend::Postgres, Lock::Update) => format!(
            "SELECT {COLUMNS} FROM wallet WHERE id IN (SELECT jsonb_array_elements_text($1::jsonb)) ORDER BY id FOR UPDATE"
        ),
        (DbBackend::Postgres, Lock::Share) => format!(
            "SELECT {COLUMNS} FROM wallet WHERE id IN (SELECT jsonb_array_elements_text($1::jsonb)) ORDER BY id FOR SHARE"
        ),
        // The transaction has the only write lock.
        _ => format!(
            "SELECT {COLUMNS} FROM wallet WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id"
        ),
    };
    query(on, &sql, [list.into()])
        .await?
        .iter()
        .map(WalletRow::from_row)
        .collect()
}

/// The budgets of an owner that are switched on.
pub(super) async fn active_budgets(
    on: &impl ConnectionTrait,
    owner: &str,
) -> Result<Budgets, DbErr> {
    let rows = query(
        on,
        "SELECT subject_kind, subject, span, amount_nanos, tokens, since_ms FROM budget WHERE owner = $1 AND active = 1",
        [owner.into()],
    )
    .await?;
    let budgets: Result<Vec<_>, DbErr> = rows.iter().map(budget).collect();
    Ok(Budgets::new(budgets?))
}

pub(super) fn budget(row: &QueryResult) -> Result<Budget, DbErr> {
    let unknown = |what: &str, text: &str| DbErr::Type(format!("budget.{what} `{text}`"));
    let (kind, span): (String, String) =
        (row.try_get("", "subject_kind")?, row.try_get("", "span")?);
    Ok(Budget {
        kind: SubjectKind::parse(&kind).ok_or_else(|| unknown("subject_kind", &kind))?,
        subject: row.try_get("", "subject")?,
        span: Span::parse(&span).ok_or_else(|| unknown("span", &span))?,
        amount_nanos: row.try_get("", "amount_nanos")?,
        tokens: row.try_get("", "tokens")?,
        since_ms: row.try_get("", "since_ms")?,
    })
}
