//! Billing's facts in SQL; the same statements on SQLite and PostgreSQL but for locks and bulk inserts.
//!
//! Rows of the settlement path are written by raw statements, many rows at once; nothing there goes through entities.

mod bulk;
mod dead_letters;
mod fault;
mod prices;
mod rows;
mod settle;
mod tenants;
mod terms;
mod usage;
mod verify;

pub(crate) use dead_letters::Resolved;
pub(crate) use fault::Fault;
pub(crate) use prices::SheetText;
pub(crate) use settle::{Outcome, Settled, WindowRow};
pub(crate) use tenants::{AppliedTenants, OwnerBudgets, RECOUNTED, TenantTerms, ToppedUp};
pub(crate) use terms::{Terms, WalletRow};
pub(crate) use usage::rfc3339;
pub(crate) use verify::Limits;

use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement, Value};
use switchboard_common::db::Database;

/// Billing's tables.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    database: Database,
}

impl Store {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Whether the schema is there.
    pub(crate) async fn ready(&self) -> bool {
        query(
            self.database.reader(),
            "SELECT 1 FROM sheet WHERE version = 0",
            [],
        )
        .await
        .is_ok()
    }

    /// The newest audit rows.
    pub(crate) async fn audit(
        &self,
        limit: u32,
    ) -> Result<Vec<switchboard_proto::common::v1::AuditEntry>, DbErr> {
        switchboard_common::audit::list(self.database.reader(), limit).await
    }
}

/// A statement's rows.
async fn query<const N: usize>(
    on: &impl ConnectionTrait,
    sql: &str,
    values: [Value; N],
) -> Result<Vec<QueryResult>, DbErr> {
    on.query_all_raw(Statement::from_sql_and_values(
        on.get_database_backend(),
        sql,
        values,
    ))
    .await
}

/// How many rows a statement changed.
async fn execute<const N: usize>(
    on: &impl ConnectionTrait,
    sql: &str,
    values: [Value; N],
) -> Result<u64, DbErr> {
    let result = on
        .execute_raw(Statement::from_sql_and_values(
            on.get_database_backend(),
            sql,
            values,
        ))
        .await?;
    Ok(result.rows_affected())
}

/// A column that holds a count.
fn unsigned(row: &QueryResult, column: &str) -> Result<u64, DbErr> {
    Ok(u64::try_from(row.try_get::<i64>("", column)?).unwrap_or(0))
}

/// A column that holds a count or nothing.
fn optional(row: &QueryResult, column: &str) -> Result<Option<u64>, DbErr> {
    let value: Option<i64> = row.try_get("", column)?;
    Ok(value.and_then(|value| u64::try_from(value).ok()))
}

/// A count as a column's value; counts that come here were bounded before.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
