//! Schema migrations, one folder per owning service; SQLite and PostgreSQL from the same code.
//!
//! Each service owns its facts (its own SQLite file, its own PostgreSQL schema), so each has its own [`MigratorTrait`] here.
//! Invariants: migrations of one schema never run at the same time, whatever the number of replicas that start together
//! ([`migrate`] takes a lock); a migration that shipped is never edited; new ones expand first and contract in a later release,
//! so that two neighbouring versions can run side by side (OPS-4).
//! This crate reads and writes no rows of the services.
#![expect(
    elided_lifetimes_in_paths,
    reason = "async_trait accepts MigrationTrait::up only as the trait spells it"
)]

pub mod auth;
pub mod billing;
pub mod scheduler;
pub mod shared;
pub mod token_refresh;

use std::{fmt, str::FromStr};

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
};
use sea_orm_migration::MigratorTrait;

/// A service that owns tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Tenants, users, the groups' access side, keys.
    Auth,
    /// The catalogue.
    Scheduler,
    /// Upstream credentials.
    TokenRefresh,
    /// Prices, balances, ledger, usage.
    Billing,
}

impl Owner {
    /// Every owner, in the order in which an installation sets them up.
    pub const ALL: [Self; 4] = [
        Self::Auth,
        Self::Scheduler,
        Self::TokenRefresh,
        Self::Billing,
    ];

    /// The role's name as settings and file names write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Scheduler => "scheduler",
            Self::TokenRefresh => "token-refresh",
            Self::Billing => "billing",
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Owner {
    type Err = UnknownOwner;

    fn from_str(text: &str) -> Result<Self, UnknownOwner> {
        Self::ALL
            .into_iter()
            .find(|owner| owner.name() == text)
            .ok_or_else(|| UnknownOwner(text.to_owned()))
    }
}

/// A name that no [`Owner`] has.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` owns no tables; expected auth, scheduler, token-refresh or billing")]
pub struct UnknownOwner(String);

/// Why a schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[error("cannot migrate the {owner} schema: {source}")]
pub struct Error {
    /// Whose schema it was.
    pub owner: Owner,
    /// What the database said.
    pub source: DbErr,
}

/// Brings `owner`'s schema up to date, or does nothing when it is.
///
/// All of it happens in one transaction under a lock: an advisory one on PostgreSQL (per schema), the write lock on SQLite. So
/// replicas that start together wait for each other, and a failure leaves nothing half done. On PostgreSQL the first schema of
/// the connection's `search_path` is created when it is missing.
///
/// # Errors
/// The database's own error, with the owner's name.
pub async fn migrate(connection: &DatabaseConnection, owner: Owner) -> Result<(), Error> {
    match owner {
        Owner::Auth => locked::<auth::Migrator>(connection).await,
        Owner::Scheduler => locked::<scheduler::Migrator>(connection).await,
        Owner::TokenRefresh => locked::<token_refresh::Migrator>(connection).await,
        Owner::Billing => locked::<billing::Migrator>(connection).await,
    }
    .map_err(|source| Error { owner, source })
}

async fn locked<M: MigratorTrait>(connection: &DatabaseConnection) -> Result<(), DbErr> {
    let transaction = connection
        .begin_with_options(TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        })
        .await?;
    if transaction.get_database_backend() == DbBackend::Postgres {
        prepare_schema(&transaction).await?;
    }
    M::up(&transaction, None).await?;
    transaction.commit().await
}

/// Locks this schema against other migrators until the transaction ends, then creates it if it is missing.
async fn prepare_schema(transaction: &DatabaseTransaction) -> Result<(), DbErr> {
    let backend = transaction.get_database_backend();
    transaction
        .execute_raw(Statement::from_string(
            backend,
            "SELECT pg_advisory_xact_lock(hashtextextended('switchboard.migrate:' || current_setting('search_path'), 0))",
        ))
        .await?;
    let row = transaction
        .query_one_raw(Statement::from_string(
            backend,
            "SELECT current_setting('search_path') AS path, current_schema() AS present",
        ))
        .await?
        .ok_or_else(|| DbErr::RecordNotFound("search_path".to_owned()))?;
    let present: Option<String> = row.try_get("", "present")?;
    let path: String = row.try_get("", "path")?;
    if let Some(schema) = missing_schema(&path, present.as_deref()) {
        tracing::info!(schema, "creating the database schema");
        transaction
            .execute_unprepared(&format!(
                r#"CREATE SCHEMA IF NOT EXISTS "{}""#,
                schema.replace('"', "\"\"")
            ))
            .await?;
    }
    Ok(())
}

/// The first schema named by a `search_path`, unless it is the one in use already, or is no fixed name.
fn missing_schema<'a>(path: &'a str, present: Option<&str>) -> Option<&'a str> {
    let first = path.split(',').next()?.trim().trim_matches('"');
    (!first.is_empty() && first != "$user" && present != Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::missing_schema;

    #[test]
    fn only_a_named_first_schema_that_is_not_there_is_created() {
        assert_eq!(missing_schema("sb_auth", None), Some("sb_auth"));
        assert_eq!(
            missing_schema("\"sb-auth\", public", Some("public")),
            Some("sb-auth")
        );
        assert_eq!(missing_schema("sb_auth", Some("sb_auth")), None);
        assert_eq!(missing_schema("\"$user\", public", Some("public")), None);
        assert_eq!(missing_schema("", None), None);
    }
}
