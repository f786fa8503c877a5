//! What would be wrong if the books were wrong (BILL-9): each invariant as a query for its violations.

use sea_orm::{
    AccessMode, ConnectionTrait, DbBackend, DbErr, IsolationLevel, QueryResult,
    TransactionTrait as _,
};
use switchboard_common::money::NanoUsd;
use uuid::Uuid;

use super::{Store, query, unsigned};
use crate::domain::budget::SubjectKind;

/// Lines of one invariant that are listed by name.
const NAMED: usize = 20;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<String>,
    pub(crate) settlements: u64,
    pub(crate) entries: u64,
    pub(crate) dead_letters: u64,
    /// What somebody decided about: for information.
    pub(crate) resolved: Vec<String>,
}

/// Bounds of a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Now, Unix milliseconds: which windows are open.
    pub(crate) now_ms: i64,
}

impl Store {
    /// Looks at everything, as of one instant.
    pub(crate) async fn verify(&self, limits: Limits) -> Result<Findings, DbErr> {
        let reader = self.database.reader();
        let tx = match self.database.backend() {
            DbBackend::Postgres => {
                reader
                    .begin_with_config(
                        Some(IsolationLevel::RepeatableRead),
                        Some(AccessMode::ReadOnly),
                    )
                    .await?
            }
            // A reading transaction sees one state of the file.
            _ => reader.begin().await?,
        };
        let mut findings = Findings {
            settlements: count(&tx, "SELECT COUNT(*) AS n FROM usage").await?,
            entries: count(&tx, "SELECT COUNT(*) AS n FROM ledger_entry").await?,
            dead_letters: count(&tx, "SELECT COUNT(*) AS n FROM dead_letter").await?,
            ..Findings::default()
        };
        for (sql, tell) in CHECKS {
            add(&mut findings.problems, &query(&tx, sql, []).await?, tell)?;
        }
        for kind in SubjectKind::ALL {
            let windows = query(&tx, &windows_sql(kind), []).await?;
            add(&mut findings.problems, &windows, &window_line)?;
            let open = query(&tx, &missing_windows_sql(kind), [limits.now_ms.into()]).await?;
            add(&mut findings.problems, &open, &missing_window_line)?;
        }
        let (sql, tell) = RESOLVED;
        add(&mut findings.resolved, &query(&tx, sql, []).await?, tell)?;
        tx.rollback().await?;
        Ok(findings)
    }
}

fn add(
    lines: &mut Vec<String>,
    rows: &[QueryResult],
    tell: &dyn Fn(&QueryResult) -> Result<String, DbErr>,
) -> Result<(), DbErr> {
    for row in rows.iter().take(NAMED) {
        lines.push(tell(row)?);
    }
    if let Some(rest) = rows.len().checked_sub(NAMED).filter(|rest| *rest > 0) {
        lines.push(format!("… and {rest} more of this kind"));
    }
    Ok(())
}

type Check = (
    &'static str,
    &'static (dyn Fn(&QueryResult) -> Result<String, DbErr> + Sync),
);

/// Sums are cast: they are NUMERIC on PostgreSQL.
const CHECKS: [Check; 9] = [
    (
        "SELECT transaction_id AS id, phase, CAST(SUM(amount_nanos) AS BIGINT) AS nanos FROM ledger_entry \
         GROUP BY transaction_id, phase HAVING SUM(amount_nanos) <> 0",
        &|row| {
            Ok(format!(
                "transaction {} (phase {}) does not balance: its lines sum to {} USD",
                id(row)?,
                number(row, "phase")?,
                usd(row, "nanos")?
            ))
        },
    ),
    (
        "SELECT w.id AS owner, w.balance_nanos AS nanos, CAST(COALESCE(e.total, 0) AS BIGINT) AS entries FROM wallet w \
         LEFT JOIN (SELECT account, SUM(amount_nanos) AS total FROM ledger_entry WHERE account LIKE 'balance:%' GROUP BY account) e \
         ON e.account = 'balance:' || SUBSTR(w.id, 8) WHERE w.id LIKE 'tenant:%' AND w.balance_nanos <> COALESCE(e.total, 0)",
        &|row| {
            Ok(format!(
                "{}: its balance is {} USD, its entries sum to {} USD",
                text(row, "owner")?,
                usd(row, "nanos")?,
                usd(row, "entries")?
            ))
        },
    ),
    (
        "SELECT w.id AS owner, w.overrun_nanos AS nanos, CAST(COALESCE(e.total, 0) AS BIGINT) AS entries FROM wallet w \
         LEFT JOIN (SELECT account, SUM(amount_nanos) AS total FROM ledger_entry WHERE account LIKE 'overrun:%' GROUP BY account) e \
         ON e.account = 'overrun:' || SUBSTR(w.id, 8) WHERE w.id LIKE 'tenant:%' AND w.overrun_nanos <> COALESCE(e.total, 0)",
        &|row| {
            Ok(format!(
                "{}: its overrun debt is {} USD, its entries sum to {} USD",
                text(row, "owner")?,
                usd(row, "nanos")?,
                usd(row, "entries")?
            ))
        },
    ),
    (
        "SELECT e.account AS owner, CAST(SUM(e.amount_nanos) AS BIGINT) AS nanos FROM ledger_entry e WHERE e.account LIKE 'balance:%' \
         AND NOT EXISTS (SELECT 1 FROM wallet w WHERE w.id = 'tenant:' || SUBSTR(e.account, 9)) GROUP BY e.account HAVING SUM(e.amount_nanos) <> 0",
        &|row| {
            Ok(format!(
                "{}: entries of {} USD, but no wallet",
                text(row, "owner")?,
                usd(row, "nanos")?
            ))
        },
    ),
    (
        "SELECT u.request_id AS id, u.charge_nanos AS nanos, CAST(COALESCE(e.revenue, 0) AS BIGINT) AS revenue, u.cost_nanos AS cost, \
         CAST(COALESCE(e.cost, 0) AS BIGINT) AS paid FROM usage u LEFT JOIN (SELECT transaction_id, \
         SUM(CASE WHEN account = 'revenue' THEN amount_nanos ELSE 0 END) AS revenue, \
         SUM(CASE WHEN account = 'cost' THEN -amount_nanos ELSE 0 END) AS cost \
         FROM ledger_entry WHERE kind IN ('settlement', 'final') GROUP BY transaction_id) e ON e.transaction_id = u.request_id \
         WHERE u.charge_nanos <> COALESCE(e.revenue, 0) OR u.cost_nanos <> COALESCE(e.cost, 0)",
        &|row| {
            Ok(format!(
                "request {}: the usage row charges {} USD and costs {} USD, the ledger {} USD and {} USD",
                id(row)?,
                usd(row, "nanos")?,
                usd(row, "cost")?,
                usd(row, "revenue")?,
                usd(row, "paid")?
            ))
        },
    ),
    (
        "SELECT transaction_id AS id FROM ledger_entry WHERE kind IN ('settlement', 'final') EXCEPT SELECT request_id FROM usage",
        &|row| {
            Ok(format!(
                "request {}: settled in the ledger, but it has no usage row",
                id(row)?
            ))
        },
    ),
    (
        "SELECT request_id AS id, COUNT(*) AS n FROM usage GROUP BY request_id HAVING COUNT(*) > 1",
        &|row| {
            Ok(format!(
                "request {}: settled {} times",
                id(row)?,
                number(row, "n")?
            ))
        },
    ),
    (
        "SELECT u.request_id AS id, u.cost_nanos AS nanos, CAST(COALESCE(a.total, 0) AS BIGINT) AS attempts FROM usage u \
         LEFT JOIN (SELECT day, request_id, SUM(cost_nanos) AS total FROM attempt GROUP BY day, request_id) a \
         ON a.day = u.day AND a.request_id = u.request_id WHERE u.cost_nanos <> COALESCE(a.total, 0)",
        &|row| {
            Ok(format!(
                "request {}: the usage row costs {} USD, its attempts {} USD",
                id(row)?,
                usd(row, "nanos")?,
                usd(row, "attempts")?
            ))
        },
    ),
    (
        "SELECT request_id, kind, problem FROM dead_letter WHERE kind <> 'conflict' AND resolved_ms IS NULL ORDER BY at_ms",
        &|row| {
            Ok(format!(
                "request {}: not settled, a dead letter ({}): {}",
                text(row, "request_id")?,
                text(row, "kind")?,
                text(row, "problem")?
            ))
        },
    ),
];

/// The newest decisions first.
const RESOLVED: Check = (
    "SELECT request_id, kind, problem, resolved_ms, resolved_by, resolution FROM dead_letter \
     WHERE kind <> 'conflict' AND resolved_ms IS NOT NULL ORDER BY resolved_ms DESC",
    &|row| {
        Ok(format!(
            "request {}: not settled, resolved {} by {}: {} ({}: {})",
            text(row, "request_id")?,
            super::usage::rfc3339(number(row, "resolved_ms")?),
            text(row, "resolved_by")?,
            text(row, "resolution")?,
            text(row, "kind")?,
            text(row, "problem")?
        ))
    },
);

/// Usage rows summed up by what windows have in common: whose they are, and the hour, of which every window has whole ones. So each
/// row is read once, however many windows and budgets there are.
fn hourly(kind: SubjectKind) -> String {
    let whose = match kind {
        SubjectKind::Tenant => "tenant",
        SubjectKind::User => "tenant, user_name",
        SubjectKind::Key => "tenant, key_name",
        SubjectKind::Group => "group_name",
    };
    format!(
        "(SELECT {whose}, created_ms / 3600000 AS hour, MAX(created_ms) AS latest_ms, COUNT(*) AS n, \
         SUM(charge_nanos) AS nanos, SUM(counted_tokens) AS tokens FROM usage GROUP BY {whose}, created_ms / 3600000)"
    )
}

fn matching(kind: SubjectKind) -> &'static str {
    match kind {
        SubjectKind::Tenant => "u.tenant = SUBSTR(w.owner, 8)",
        SubjectKind::User => "u.tenant = SUBSTR(w.owner, 8) AND u.user_name = w.subject",
        SubjectKind::Key => "u.tenant = SUBSTR(w.owner, 8) AND u.key_name = w.subject",
        SubjectKind::Group => "u.group_name = w.subject",
    }
}

/// Windows that differ from the rows they cover.
fn windows_sql(kind: SubjectKind) -> String {
    format!(
        "SELECT s.* FROM (SELECT w.owner, w.subject_kind, w.subject, w.span, w.starts_ms, w.used_nanos, w.used_tokens, \
         CAST(COALESCE(SUM(u.nanos), 0) AS BIGINT) AS nanos, CAST(COALESCE(SUM(u.tokens), 0) AS BIGINT) AS tokens \
         FROM spend_window w LEFT JOIN {} u ON {} AND u.hour >= w.starts_ms / 3600000 AND u.hour < w.ends_ms / 3600000 \
         WHERE w.counted = 1 AND w.subject_kind = '{}' \
         GROUP BY w.owner, w.subject_kind, w.subject, w.span, w.starts_ms, w.used_nanos, w.used_tokens) s \
         WHERE s.used_nanos <> s.nanos OR s.used_tokens <> s.tokens",
        hourly(kind),
        matching(kind),
        kind.name(),
    )
}

fn window_line(row: &QueryResult) -> Result<String, DbErr> {
    Ok(format!(
        "window {} {} {} {} from {}: it counts {} USD and {} tokens, its usage rows {} USD and {} tokens",
        text(row, "owner")?,
        text(row, "subject_kind")?,
        text(row, "subject")?,
        text(row, "span")?,
        super::usage::rfc3339(number(row, "starts_ms")?),
        usd(row, "used_nanos")?,
        number(row, "used_tokens")?,
        usd(row, "nanos")?,
        number(row, "tokens")?,
    ))
}

/// Budgets that are switched on and whose rows since then have no window at all. An hour in which there are both rows before and
/// rows since counts whole.
fn missing_windows_sql(kind: SubjectKind) -> String {
    format!(
        "SELECT w.owner, w.subject_kind, w.subject, w.span, CAST(SUM(u.n) AS BIGINT) AS n FROM budget w JOIN {} u \
         ON {} AND u.latest_ms >= w.since_ms AND u.hour <= ($1 + 86400000) / 3600000 \
         WHERE w.active = 1 AND w.subject_kind = '{}' AND NOT EXISTS (SELECT 1 FROM spend_window s WHERE s.owner = w.owner \
         AND s.subject_kind = w.subject_kind AND s.subject = w.subject AND s.span = w.span \
         AND s.starts_ms <= u.hour * 3600000 AND s.ends_ms > u.hour * 3600000) \
         GROUP BY w.owner, w.subject_kind, w.subject, w.span",
        hourly(kind),
        matching(kind),
        kind.name(),
    )
}

fn missing_window_line(row: &QueryResult) -> Result<String, DbErr> {
    Ok(format!(
        "budget {} {} {} per {}: {} usage rows are counted in no window",
        text(row, "owner")?,
        text(row, "subject_kind")?,
        text(row, "subject")?,
        text(row, "span")?,
        number(row, "n")?,
    ))
}

async fn count(on: &impl ConnectionTrait, sql: &str) -> Result<u64, DbErr> {
    query(on, sql, [])
        .await?
        .first()
        .map_or(Ok(0), |row| unsigned(row, "n"))
}

fn id(row: &QueryResult) -> Result<Uuid, DbErr> {
    row.try_get("", "id")
}

fn text(row: &QueryResult, column: &str) -> Result<String, DbErr> {
    row.try_get("", column)
}

fn number(row: &QueryResult, column: &str) -> Result<i64, DbErr> {
    row.try_get("", column)
}

fn usd(row: &QueryResult, column: &str) -> Result<NanoUsd, DbErr> {
    row.try_get("", column).map(NanoUsd)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use switchboard_common::db::{Database, DatabaseConfig};
    use switchboard_migrations::{Owner, migrate};

    use super::*;

    /// Steps of SQLite's plan that read a whole table once for each row of another: the books would be looked at for hours.
    async fn repeated_scans(on: &impl ConnectionTrait, sql: &str) -> Vec<String> {
        let values: Vec<_> = sql
            .contains("$1")
            .then(|| 0_i64.into())
            .into_iter()
            .collect();
        let explain = sea_orm::Statement::from_sql_and_values(
            on.get_database_backend(),
            format!("EXPLAIN QUERY PLAN {sql}"),
            values,
        );
        let (mut scanned, mut correlated) = (HashSet::new(), HashSet::new());
        let mut repeated = Vec::new();
        for row in on.query_all_raw(explain).await.unwrap() {
            let (id, parent) = (number(&row, "id").unwrap(), number(&row, "parent").unwrap());
            let step = text(&row, "detail").unwrap();
            if step.starts_with("CORRELATED") {
                correlated.insert(id);
            }
            if step.starts_with("SCAN") && (!scanned.insert(parent) || correlated.contains(&parent))
            {
                repeated.push(step);
            }
        }
        repeated
    }

    #[tokio::test]
    async fn no_row_is_looked_for_by_reading_a_whole_table() {
        let directory = tempfile::tempdir().unwrap();
        let config = DatabaseConfig::Sqlite {
            path: directory.path().join("billing.sqlite"),
            full_sync: false,
        };
        let database = Database::open(&config).await.unwrap();
        migrate(database.writer(), Owner::Billing).await.unwrap();
        let windows = |kind| [windows_sql(kind), missing_windows_sql(kind)];
        let fixed = CHECKS.iter().map(|(sql, _)| (*sql).to_owned());
        let all = fixed.chain(SubjectKind::ALL.into_iter().flat_map(windows));
        for sql in all {
            let repeated = repeated_scans(database.reader(), &sql).await;
            assert_eq!(repeated, [""; 0], "{sql}");
        }
        let told = repeated_scans(
            database.reader(),
            "SELECT 1 FROM ledger_entry e WHERE NOT EXISTS (SELECT 1 FROM usage u WHERE u.request_id = e.transaction_id)",
        );
        assert_eq!(told.await.len(), 1);
    }
}
