//! Sealed credentials in SQL. Nothing here can open one.

mod entity;

use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait as _, QueryFilter as _, QueryOrder as _, Statement, sea_query::Expr,
};
use switchboard_common::seal::Sealed;

use crate::error::Fault;
use entity as credential;

/// One stored generation.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Whose.
    pub(crate) account: String,
    /// From 1 on.
    pub(crate) generation: u64,
    /// The secret.
    pub(crate) sealed: Sealed,
    /// Whether it may be used.
    pub(crate) active: bool,
    /// Who put it there.
    pub(crate) origin: String,
    /// Unix milliseconds.
    pub(crate) updated_at_ms: i64,
}

const ACTIVE: &str = "active";
const DISABLED: &str = "disabled";

impl Record {
    /// `active` or `disabled`.
    pub(crate) fn status(&self) -> &'static str {
        if self.active { ACTIVE } else { DISABLED }
    }
}

/// Makes admin transactions run one after the other on PostgreSQL; on SQLite there is one writer anyway.
pub(crate) async fn lock(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    let backend = tx.get_database_backend();
    if backend == DbBackend::Postgres {
        tx.execute_raw(Statement::from_string(
            backend,
            "SELECT pg_advisory_xact_lock(hashtextextended('admin:' || current_schema(), 0))",
        ))
        .await?;
    }
    Ok(())
}

/// The newest generation of each account, by account.
pub(crate) async fn newest(db: &impl ConnectionTrait) -> Result<Vec<Record>, Fault> {
    let rows = credential::Entity::find()
        .order_by_asc(credential::Column::Account)
        .order_by_desc(credential::Column::Generation)
        .all(db)
        .await?;
    let mut newest: Vec<Record> = Vec::new();
    for row in rows {
        if newest.last().is_none_or(|last| last.account != row.account) {
            newest.push(record(row)?);
        }
    }
    Ok(newest)
}

/// The newest generation of one account.
pub(crate) async fn newest_of(
    db: &impl ConnectionTrait,
    account: &str,
) -> Result<Option<Record>, Fault> {
    credential::Entity::find()
        .filter(credential::Column::Account.eq(account))
        .order_by_desc(credential::Column::Generation)
        .one(db)
        .await?
        .map(record)
        .transpose()
}

/// Adds a generation and forgets those before the last `keep`.
pub(crate) async fn put(tx: &DatabaseTransaction, record: &Record, keep: u32) -> Result<(), Fault> {
    let generation = signed(record)?;
    let row = credential::ActiveModel {
        account: Set(record.account.clone()),
        generation: Set(generation),
        nonce: Set(record.sealed.nonce.clone()),
        ciphertext: Set(record.sealed.ciphertext.clone()),
        key_id: Set(record.sealed.key_id.clone()),
        status: Set(record.status().to_owned()),
        origin: Set(record.origin.clone()),
        updated_at_ms: Set(record.updated_at_ms),
    };
    credential::Entity::insert(row)
        .exec_without_returning(tx)
        .await?;
    credential::Entity::delete_many()
        .filter(credential::Column::Account.eq(record.account.as_str()))
        .filter(credential::Column::Generation.lte(generation.saturating_sub(i64::from(keep))))
        .exec(tx)
        .await?;
    Ok(())
}

/// Enables or disables an account's credential, in all its generations.
pub(crate) async fn set_active(
    tx: &DatabaseTransaction,
    account: &str,
    active: bool,
    now_ms: i64,
) -> Result<(), Fault> {
    let status = if active { ACTIVE } else { DISABLED };
    credential::Entity::update_many()
        .col_expr(credential::Column::Status, Expr::value(status))
        .col_expr(credential::Column::UpdatedAtMs, Expr::value(now_ms))
        .filter(credential::Column::Account.eq(account))
        .exec(tx)
        .await?;
    Ok(())
}

fn record(row: credential::Model) -> Result<Record, Fault> {
    let Ok(generation) = u64::try_from(row.generation) else {
        return Err(Fault::Row {
            account: row.account,
            message: "its generation is below zero",
        });
    };
    Ok(Record {
        generation,
        sealed: Sealed {
            nonce: row.nonce,
            ciphertext: row.ciphertext,
            key_id: row.key_id,
        },
        active: row.status == ACTIVE,
        origin: row.origin,
        updated_at_ms: row.updated_at_ms,
        account: row.account,
    })
}

fn signed(record: &Record) -> Result<i64, Fault> {
    i64::try_from(record.generation).map_err(|_| Fault::Row {
        account: record.account.clone(),
        message: "its generation is too large",
    })
}
