//! A service's database: SQLite (one file an owner) or PostgreSQL (one schema an owner), behind one type.
//!
//! SQLite gets one writer connection whose transactions are `IMMEDIATE` (with plain `BEGIN` a read-then-write
//! transaction fails with "database is locked" whatever the busy time-out), and a few readers. Store code never asks
//! which one it has, except for statements that exist twice.

use std::{path::PathBuf, time::Duration};

use sea_orm::{
    ConnectOptions, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr,
    SqliteTransactionMode, TransactionOptions, TransactionTrait as _,
    sqlx::{self, Connection as _, SqliteConnection, postgres::PgConnectOptions},
};

/// Where a service's facts lie.
#[derive(Clone, Debug)]
pub enum DatabaseConfig {
    /// A file of its own.
    Sqlite {
        /// The file; made when missing.
        path: PathBuf,
        /// Every commit is on the disk before it counts (billing, credentials).
        full_sync: bool,
    },
    /// A schema of its own in a shared database.
    Postgres {
        /// `postgres://user:password@host/database`.
        url: String,
        /// The owner's schema.
        schema: String,
        /// Connections of this process at most.
        max_connections: u32,
    },
}

/// How long a statement may take, and how long a caller waits for a connection.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// What is wrong with a URL that cannot be used.
const BAD_URL: &str = "`database.url` is no address of PostgreSQL; expected \
    `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `%` codes for characters that have a meaning in it";
/// Between two questions whether a database is there.
const REACH_PAUSE: Duration = Duration::from_millis(200);

/// What is wrong with a URL of PostgreSQL, if anything.
#[must_use]
pub fn url_problem(url: &str) -> Option<&'static str> {
    let is_postgres = DbBackend::Postgres.is_prefix_of(url);
    (!is_postgres || url.parse::<PgConnectOptions>().is_err()).then_some(BAD_URL)
}

/// Connections to one service's facts. Clones share them.
#[derive(Clone, Debug)]
pub struct Database {
    writer: DatabaseConnection,
    reader: DatabaseConnection,
}

impl Database {
    /// Connects. PostgreSQL is connected to when first used: a service starts without it and is not ready.
    ///
    /// # Errors
    /// The file cannot be opened, or the URL is malformed.
    pub async fn open(config: &DatabaseConfig) -> Result<Self, DbErr> {
        match config {
            DatabaseConfig::Sqlite { path, full_sync } => {
                let writer = sqlite(path, *full_sync, 1).await?;
                let reader = sqlite(path, *full_sync, 4).await?;
                Ok(Self { writer, reader })
            }
            DatabaseConfig::Postgres {
                url,
                schema,
                max_connections,
            } => {
                let mut options = base(url.clone());
                options
                    .max_connections(*max_connections)
                    .set_schema_search_path(schema.clone())
                    .connect_lazy(true)
                    .test_before_acquire_if_idle_for(Duration::from_secs(30))
                    .statement_timeout(STATEMENT_TIMEOUT);
                // Nothing is connected to yet: what fails is the URL, and the error repeats it, with the password.
                let connected = sea_orm::Database::connect(options).await;
                let writer =
                    connected.map_err(|_| DbErr::Conn(RuntimeErr::Internal(BAD_URL.to_owned())))?;
                Ok(Self {
                    reader: writer.clone(),
                    writer,
                })
            }
        }
    }

    /// Waits until it answers, for so long at most.
    ///
    /// # Errors
    /// Why it did not answer when it was last asked.
    pub async fn reach(&self, patience: Duration) -> Result<(), DbErr> {
        let end = tokio::time::Instant::now() + patience;
        let mut last = DbErr::Conn(RuntimeErr::Internal("no answer".to_owned()));
        loop {
            match tokio::time::timeout_at(end, self.writer.ping()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => last = error,
                Err(_) => return Err(last),
            }
            if tokio::time::timeout_at(end, tokio::time::sleep(REACH_PAUSE))
                .await
                .is_err()
            {
                return Err(last);
            }
        }
    }

    /// For reading.
    #[must_use]
    pub fn reader(&self) -> &DatabaseConnection {
        &self.reader
    }

    /// For single statements that write.
    #[must_use]
    pub fn writer(&self) -> &DatabaseConnection {
        &self.writer
    }

    /// Begins a transaction that writes.
    ///
    /// # Errors
    /// The database's.
    pub async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        self.writer
            .begin_with_options(TransactionOptions {
                sqlite_transaction_mode: self
                    .is_sqlite()
                    .then_some(SqliteTransactionMode::Immediate),
                ..TransactionOptions::default()
            })
            .await
    }

    /// Which SQL it speaks.
    #[must_use]
    pub fn backend(&self) -> DbBackend {
        self.writer.get_database_backend()
    }

    /// Whether it is SQLite.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        self.backend() == DbBackend::Sqlite
    }

    /// Closes all connections; SQLite's log is folded into its file.
    pub async fn close(self) {
        // Nothing can be done about a connection that does not close.
        let _ = self.reader.close().await;
        let _ = self.writer.close().await;
    }
}

fn base(url: String) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_timeout(ACQUIRE_TIMEOUT);
    options
}

async fn sqlite(
    path: &std::path::Path,
    full_sync: bool,
    connections: u32,
) -> Result<DatabaseConnection, DbErr> {
    let mut options = base(format!("sqlite://{}?mode=rwc", path.display()));
    let synchronous = if full_sync { "FULL" } else { "NORMAL" };
    options
        .max_connections(connections)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .map_sqlx_sqlite_opts(move |sqlite| {
            sqlite
                .pragma("journal_mode", "WAL")
                .pragma("synchronous", synchronous)
                .pragma("foreign_keys", "ON")
                .busy_timeout(Duration::from_secs(10))
                .statement_cache_capacity(256)
        })
        .map_sqlx_sqlite_pool_opts(|pool| {
            pool.after_release(|connection, _| Box::pin(is_outside_transactions(connection)))
        });
    sea_orm::Database::connect(options).await
}

/// Whether a connection may be used again. SQLite ends a transaction by itself when the disk is full or a file cannot be
/// written; the driver's `ROLLBACK` fails then, and it goes on counting a transaction that is none. From then on its
/// "transactions" are savepoints, and one that is rolled back stays open around all that follow: they would be
/// acknowledged and never committed. Such a connection is closed.
async fn is_outside_transactions(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // What a dropped transaction still has to do comes before this.
    connection.ping().await?;
    let outside = !connection.is_in_transaction();
    if !outside {
        tracing::warn!("a transaction could not be rolled back; its connection is closed");
    }
    Ok(outside)
}

#[cfg(test)]
mod tests {
    use sea_orm::ConnectionTrait as _;

    use super::*;

    async fn count(database: &Database) -> i64 {
        let sql = "SELECT count(*) AS n FROM t";
        let row = database
            .reader()
            .query_one_raw(sea_orm::Statement::from_string(DbBackend::Sqlite, sql))
            .await
            .unwrap()
            .unwrap();
        row.try_get("", "n").unwrap()
    }

    #[tokio::test]
    async fn what_is_committed_after_sqlite_gave_a_transaction_up_is_committed() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&DatabaseConfig::Sqlite {
            path: directory.path().join("t.sqlite"),
            full_sync: true,
        })
        .await
        .unwrap();
        let writer = database.writer();
        writer
            .execute_unprepared("CREATE TABLE t (n INTEGER)")
            .await
            .unwrap();
        // As SQLite itself does when the disk is full: the transaction is gone, and nobody told the driver.
        let given_up = database.begin().await.unwrap();
        given_up.execute_unprepared("ROLLBACK").await.unwrap();
        drop(given_up);
        let failed = database.begin().await.unwrap();
        failed
            .execute_unprepared("INSERT INTO t VALUES (1)")
            .await
            .unwrap();
        drop(failed);
        for n in 1..=2 {
            let good = database.begin().await.unwrap();
            good.execute_unprepared("INSERT INTO t VALUES (2)")
                .await
                .unwrap();
            good.commit().await.unwrap();
            assert_eq!(count(&database).await, n);
        }
    }
}
