//! Table `catalogue_version`: a row per version, written once, with the change and the audit row in the same transaction.

use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement};
use switchboard_common::{audit, db::Database, feed};
use switchboard_proto::common::v1::Actor;

/// A version without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number, from 1.
    pub version: u64,
    /// When, Unix milliseconds.
    pub created_at_ms: i64,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// What it changed.
    pub diff: String,
}

/// A version's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub version: u64,
    /// When, Unix milliseconds.
    pub created_at_ms: i64,
    /// The document as JSON.
    pub document: String,
}

/// The versions.
#[derive(Clone, Debug)]
pub struct Versions {
    database: Database,
}

impl Versions {
    /// Over a database whose schema is there, or will be.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// The newest version's number and content; `None`: there is none yet.
    ///
    /// # Errors
    /// The database's.
    pub async fn current(&self) -> Result<Option<Stored>, DbErr> {
        stored(
            self.database.reader(),
            "ORDER BY version DESC LIMIT 1",
            vec![],
        )
        .await
    }

    /// The newest version's number; 0: there is none yet.
    ///
    /// # Errors
    /// The database's.
    pub async fn head(&self) -> Result<u64, DbErr> {
        newest(self.database.reader()).await
    }

    /// One version.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(&self, version: u64) -> Result<Option<Stored>, DbErr> {
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        stored(
            self.database.reader(),
            "WHERE version = $1",
            vec![version.into()],
        )
        .await
    }

    /// The newest versions, newest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn list(&self, limit: u32) -> Result<Vec<Version>, DbErr> {
        let db = self.database.reader();
        let rows = db
            .query_all_raw(Statement::from_sql_and_values(
                db.get_database_backend(),
                "SELECT version, created_at_ms, actor, reason, diff FROM catalogue_version ORDER BY version DESC LIMIT $1",
                [i64::from(limit).into()],
            ))
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Version {
                    version: number(row)?,
                    created_at_ms: row.try_get("", "created_at_ms")?,
                    actor: row.try_get("", "actor")?,
                    reason: row.try_get("", "reason")?,
                    diff: row.try_get("", "diff")?,
                })
            })
            .collect()
    }

    /// The newest audit rows, newest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn audit(
        &self,
        limit: u32,
    ) -> Result<Vec<switchboard_proto::common::v1::AuditEntry>, DbErr> {
        audit::list(self.database.reader(), limit).await
    }

    /// Writes the audit row of an action that made no version.
    ///
    /// # Errors
    /// The database's.
    pub async fn record(
        &self,
        at_ms: i64,
        actor: &Actor,
        action: &str,
        detail: &str,
    ) -> Result<(), DbErr> {
        audit::append(self.database.writer(), at_ms, actor, action, detail).await
    }

    /// Appends the version that `next` makes of the current one, or nothing when it makes none. Writers wait for each other, so
    /// that `next` sees what it will follow.
    ///
    /// # Errors
    /// What `next` says, or the database's.
    pub async fn append<E: From<DbErr>>(
        &self,
        at_ms: i64,
        actor: &Actor,
        action: &str,
        next: impl FnOnce(Option<&Stored>) -> Result<Option<Next>, E>,
    ) -> Result<Option<Stored>, E> {
        let tx = self.database.begin().await?;
        if !self.database.is_sqlite() {
            // SQLite's writer is alone already.
            tx.execute_unprepared(
                "SELECT pg_advisory_xact_lock(hashtextextended('catalogue:' || current_schema(), 0))",
            )
            .await?;
        }
        let current = stored(&tx, "ORDER BY version DESC LIMIT 1", vec![]).await?;
        let Some(next) = next(current.as_ref())? else {
            tx.rollback().await?;
            return Ok(None);
        };
        let version = current.map_or(0, |current| current.version) + 1;
        tx.execute_raw(Statement::from_sql_and_values(
            tx.get_database_backend(),
            "INSERT INTO catalogue_version (version, document, diff, actor, reason, created_at_ms) VALUES ($1, $2, $3, $4, $5, $6)",
            [
                i64::try_from(version).unwrap_or(i64::MAX).into(),
                next.document.as_str().into(),
                next.diff.as_str().into(),
                actor.name.as_str().into(),
                actor.reason.as_str().into(),
                at_ms.into(),
            ],
        ))
        .await?;
        let detail = format!("version {version}\n{}", next.diff);
        audit::append(&tx, at_ms, actor, action, &detail).await?;
        feed::append(&tx, at_ms, &[("catalogue", &version.to_string())]).await?;
        tx.commit().await?;
        Ok(Some(Stored {
            version,
            created_at_ms: at_ms,
            document: next.document,
        }))
    }
}

/// A version to be written.
#[derive(Clone, Debug)]
pub struct Next {
    /// The document as JSON.
    pub document: String,
    /// What it changes.
    pub diff: String,
}

async fn newest(db: &impl ConnectionTrait) -> Result<u64, DbErr> {
    let row = db
        .query_one_raw(Statement::from_string(
            db.get_database_backend(),
            "SELECT COALESCE(MAX(version), 0) AS version FROM catalogue_version",
        ))
        .await?;
    row.map_or(Ok(0), |row| number(&row))
}

async fn stored(
    db: &impl ConnectionTrait,
    tail: &str,
    values: Vec<sea_orm::Value>,
) -> Result<Option<Stored>, DbErr> {
    let row = db
        .query_one_raw(Statement::from_sql_and_values(
            db.get_database_backend(),
            format!("SELECT version, created_at_ms, document FROM catalogue_version {tail}"),
            values,
        ))
        .await?;
    row.map(|row| {
        Ok(Stored {
            version: number(&row)?,
            created_at_ms: row.try_get("", "created_at_ms")?,
            document: row.try_get("", "document")?,
        })
    })
    .transpose()
}

fn number(row: &QueryResult) -> Result<u64, DbErr> {
    let version: i64 = row.try_get("", "version")?;
    Ok(u64::try_from(version).unwrap_or(0))
}
