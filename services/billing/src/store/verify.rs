//! What would be wrong if the books were wrong (BILL-9): each invariant as a query for its violations.

use sea_orm::{
    AccessMode, ConnectionTrait, DbBackend, DbErr, IsolationLevel, QueryResult,
    TransactionTrait as _,
};
use switchboard_common::money::NanoUsd;
use uuid::Uuid;

use super::{Store, query, unsigned};
use crate::domain::{
    budget::SubjectKind,
    window::{DAY_MS, HOUR_MS, Span},
};

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
        if self.database.backend() == DbBackend::Postgres {
            // Everything is looked at: that takes longer than a statement of the service's may.
            tx.execute_unprepared("SET LOCAL statement_timeout = '15min'")
                .await?;
        }
        let mut findings = Findings {
            settlements: count(&tx, "SELECT COUNT(*) AS n FROM usage").await?,
            entries: count(&tx, "SELECT COUNT(*) AS n FROM ledger_entry").await?,
            dead_letters: count(&tx, "SELECT COUNT(*) AS n FROM dead_letter").await?,
            ..Findings::default()
        };
        for (sql, tell) in CHECKS {
            add(&mut findings.problems, &query(&tx, sql, []).await?, tell)?;
        }
        for (kind, span) in pairs(&tx, "spend_window WHERE counted = 1").await? {
            let windows = query(&tx, &windows_sql(kind, span), []).await?;
            add(&mut findings.problems, &windows, &window_line)?;
        }
        for (kind, span) in pairs(&tx, "budget WHERE active = 1").await? {
            let sql = missing_windows_sql(kind, span);
            let open = query(&tx, &sql, [limits.now_ms.into()]).await?;
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

/// In what periods usage is summed up for windows of a span, which have whole ones.
const fn period_ms(span: Span) -> i64 {
    match span {
        Span::Hour => HOUR_MS,
        Span::Day | Span::Month => DAY_MS,
    }
}

/// Usage rows summed up by whose they are and by the period. So each row is read once, however many windows and budgets there are.
fn summed(kind: SubjectKind, span: Span) -> String {
    let whose = match kind {
        SubjectKind::Tenant => "tenant",
        SubjectKind::User => "tenant, user_name",
        SubjectKind::Key => "tenant, key_name",
        SubjectKind::Group => "group_name",
    };
    let unit = period_ms(span);
    format!(
        "(SELECT {whose}, created_ms / {unit} AS period, COUNT(*) AS n, SUM(charge_nanos) AS nanos, SUM(counted_tokens) AS tokens \
         FROM usage GROUP BY {whose}, created_ms / {unit})"
    )
}

/// Whether a period of `u` lies in a window. Where a window is one period it is found by that, not looked for among all.
fn covers(window: &str, span: Span) -> String {
    let unit = period_ms(span);
    match span {
        Span::Hour | Span::Day => format!("{window}.starts_ms = u.period * {unit}"),
        Span::Month => format!(
            "{window}.starts_ms <= u.period * {unit} AND {window}.ends_ms > u.period * {unit}"
        ),
    }
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
fn windows_sql(kind: SubjectKind, span: Span) -> String {
    let unit = period_ms(span);
    let within = match span {
        Span::Hour | Span::Day => format!("u.period = w.starts_ms / {unit}"),
        Span::Month => {
            format!("u.period >= w.starts_ms / {unit} AND u.period < w.ends_ms / {unit}")
        }
    };
    format!(
        "SELECT s.* FROM (SELECT w.owner, w.subject_kind, w.subject, w.span, w.starts_ms, w.used_nanos, w.used_tokens, \
         CAST(COALESCE(SUM(u.nanos), 0) AS BIGINT) AS nanos, CAST(COALESCE(SUM(u.tokens), 0) AS BIGINT) AS tokens \
         FROM spend_window w LEFT JOIN {} u ON {} AND {within} \
         WHERE w.counted = 1 AND w.subject_kind = '{}' AND w.span = '{}' \
         GROUP BY w.owner, w.subject_kind, w.subject, w.span, w.starts_ms, w.used_nanos, w.used_tokens) s \
         WHERE s.used_nanos <> s.nanos OR s.used_tokens <> s.tokens",
        summed(kind, span),
        matching(kind),
        kind.name(),
        span.name(),
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

/// Budgets that are switched on and whose rows since then have no window at all. They are switched on from a window's start.
fn missing_windows_sql(kind: SubjectKind, span: Span) -> String {
    let unit = period_ms(span);
    format!(
        "SELECT w.owner, w.subject_kind, w.subject, w.span, CAST(SUM(u.n) AS BIGINT) AS n FROM budget w JOIN {} u \
         ON {} AND u.period >= w.since_ms / {unit} AND u.period <= ($1 + {DAY_MS}) / {unit} \
         WHERE w.active = 1 AND w.subject_kind = '{}' AND w.span = '{}' AND NOT EXISTS (SELECT 1 FROM spend_window s \
         WHERE s.owner = w.owner AND s.subject_kind = w.subject_kind AND s.subject = w.subject AND s.span = w.span AND {}) \
         GROUP BY w.owner, w.subject_kind, w.subject, w.span",
        summed(kind, span),
        matching(kind),
        kind.name(),
        span.name(),
        covers("s", span),
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

/// Of what kinds and spans there are budgets, or windows.
async fn pairs(on: &impl ConnectionTrait, of: &str) -> Result<Vec<(SubjectKind, Span)>, DbErr> {
    let sql = format!("SELECT DISTINCT subject_kind, span FROM {of}");
    let mut pairs = Vec::new();
    for row in query(on, &sql, []).await? {
        let (kind, span) = (text(&row, "subject_kind")?, text(&row, "span")?);
        pairs.extend(SubjectKind::parse(&kind).zip(Span::parse(&span)));
    }
    Ok(pairs)
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

    /// SQLite's plan: each step's id, its parent's, and what it does.
    async fn steps(on: &impl ConnectionTrait, sql: &str) -> Vec<(i64, i64, String)> {
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
        let rows = on.query_all_raw(explain).await.unwrap();
        let step = |row: &QueryResult| {
            let detail = text(row, "detail").unwrap();
            let (id, parent) = (number(row, "id").unwrap(), number(row, "parent").unwrap());
            (id, parent, detail)
        };
        rows.iter().map(step).collect()
    }

    /// Those that read a whole table once for each row of another: the books would be looked at for hours.
    async fn repeated_scans(on: &impl ConnectionTrait, sql: &str) -> Vec<String> {
        let (mut scanned, mut correlated) = (HashSet::new(), HashSet::new());
        let mut repeated = Vec::new();
        for (id, parent, step) in steps(on, sql).await {
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
        for (sql, _) in CHECKS {
            let repeated = repeated_scans(database.reader(), sql).await;
            assert_eq!(repeated, [""; 0], "{sql}");
        }
        for kind in SubjectKind::ALL {
            for span in Span::ALL {
                let (windows, missing) = (windows_sql(kind, span), missing_windows_sql(kind, span));
                for sql in [&windows, &missing] {
                    let repeated = repeated_scans(database.reader(), sql).await;
                    assert_eq!(repeated, [""; 0], "{sql}");
                }
                // A window's sum is found by its period, not among all sums of its owner.
                let found = steps(database.reader(), &windows).await;
                let by_period = found.iter().any(|(_, _, step)| step.contains("period=?"));
                assert!(by_period || span == Span::Month, "{found:#?}");
                let found = steps(database.reader(), &missing).await;
                let by_start = found
                    .iter()
                    .any(|(_, _, step)| step.contains("starts_ms=?"));
                assert!(by_start || span == Span::Month, "{found:#?}");
            }
        }
        let told = repeated_scans(
            database.reader(),
            "SELECT 1 FROM ledger_entry e WHERE NOT EXISTS (SELECT 1 FROM usage u WHERE u.request_id = e.transaction_id)",
        );
        assert_eq!(told.await.len(), 1);
    }
}
