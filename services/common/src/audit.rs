//! Audit rows: who changed what and why, written in the same transaction as the change (ADM-4).

use sea_orm::{ConnectionTrait, DbErr, Statement};
use switchboard_proto::common::v1::{Actor, AuditEntry};

/// Appends a row to the owning service's `audit` table. `detail` is for people and holds no secret.
///
/// # Errors
/// The database's.
pub async fn append(
    tx: &impl ConnectionTrait,
    at_ms: i64,
    actor: &Actor,
    action: &str,
    detail: &str,
) -> Result<(), DbErr> {
    tx.execute_raw(Statement::from_sql_and_values(
        tx.get_database_backend(),
        "INSERT INTO audit (at_ms, actor, reason, action, detail) VALUES ($1, $2, $3, $4, $5)",
        [
            at_ms.into(),
            actor.name.as_str().into(),
            actor.reason.as_str().into(),
            action.into(),
            detail.into(),
        ],
    ))
    .await
    .map(drop)
}

/// The newest rows, newest first.
///
/// # Errors
/// The database's.
pub async fn list(db: &impl ConnectionTrait, limit: u32) -> Result<Vec<AuditEntry>, DbErr> {
    let rows = db
        .query_all_raw(Statement::from_sql_and_values(
            db.get_database_backend(),
            "SELECT seq, at_ms, actor, reason, action, detail FROM audit ORDER BY seq DESC LIMIT $1",
            [i64::from(limit.clamp(1, 1_000)).into()],
        ))
        .await?;
    rows.iter()
        .map(|row| {
            Ok(AuditEntry {
                seq: u64::try_from(row.try_get::<i64>("", "seq")?).unwrap_or(0),
                at_ms: row.try_get("", "at_ms")?,
                actor: row.try_get("", "actor")?,
                reason: row.try_get("", "reason")?,
                action: row.try_get("", "action")?,
                detail: row.try_get("", "detail")?,
            })
        })
        .collect()
}
