//! Settlements that were put aside, and what was decided about them (BILL-9).

use sea_orm::DbErr;
use switchboard_common::audit;
use switchboard_proto::common::v1::Actor;

use super::{Fault, Store, execute, query};

/// What became of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// So many rows were resolved by it.
    Now(u64),
    /// They were resolved before.
    Before,
    /// The request has none that need a decision.
    Unknown,
}

impl Store {
    /// Puts a settlement aside that cannot be booked. Asking twice is one row.
    pub(crate) async fn bury(
        &self,
        request_id: &str,
        kind: &str,
        problem: &str,
        fingerprint: &[u8],
        settlement: Vec<u8>,
        now_ms: i64,
    ) -> Result<(), DbErr> {
        execute(
            self.database.writer(),
            "INSERT INTO dead_letter (request_id, kind, fingerprint, problem, settlement, at_ms) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            [
                request_id.replace('\0', "").into(),
                kind.into(),
                fingerprint.to_vec().into(),
                problem.replace('\0', "").into(),
                settlement.into(),
                now_ms.into(),
            ],
        )
        .await
        .map(drop)
    }

    /// Takes a request's dead letters off the list of what is wrong. What they say stays.
    pub(crate) async fn resolve(
        &self,
        id: &str,
        actor: &Actor,
        now_ms: i64,
    ) -> Result<Resolved, Fault> {
        let tx = self.database.begin().await?;
        let resolved = execute(
            &tx,
            "UPDATE dead_letter SET resolved_ms = $1, resolved_by = $2, resolution = $3 \
             WHERE request_id = $4 AND kind <> 'conflict' AND resolved_ms IS NULL",
            [
                now_ms.into(),
                actor.name.as_str().into(),
                actor.reason.as_str().into(),
                id.into(),
            ],
        )
        .await?;
        if resolved == 0 {
            let sql = "SELECT 1 FROM dead_letter WHERE request_id = $1 AND kind <> 'conflict'";
            let known = query(&tx, sql, [id.into()]).await?;
            return Ok(if known.is_empty() {
                Resolved::Unknown
            } else {
                Resolved::Before
            });
        }
        let detail = format!("request {id}: {resolved} dead letters, it stays unsettled");
        audit::append(&tx, now_ms, actor, "resolve dead letter", &detail).await?;
        tx.commit().await?;
        Ok(Resolved::Now(resolved))
    }
}
