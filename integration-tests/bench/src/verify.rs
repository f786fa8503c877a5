//! Whether the books say what was served: usage rows, tokens, charges, costs, balance, ledger. To the last unit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DbBackend, Statement,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue;
use crate::start;
use crate::target::{Books, Target};
use crate::workload::Workload;

/// How long rows may take to appear after the last answer, on a machine that was busy until then.
const PATIENCE: Duration = Duration::from_secs(30);
/// What `verify` reads of the upstream.
pub const STATS_PATH: &str = "/_fake/stats";

/// The upstream's own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub total: u64,
    pub completed: u64,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

impl Counts {
    pub fn since(self, before: Self) -> Self {
        Self {
            total: self.total - before.total,
            completed: self.completed - before.completed,
            prompt_tokens: self.prompt_tokens - before.prompt_tokens,
            completion_tokens: self.completion_tokens - before.completion_tokens,
        }
    }

    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.completed += other.completed;
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
    }
}

/// Sums over usage rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    rows: i64,
    input_tokens: i64,
    output_tokens: i64,
    charge_nanos: i64,
    cost_nanos: i64,
    /// Rows that are provisional, not complete, not 200 or not counted by the provider.
    odd: i64,
}

/// What was compared and found equal.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    pub usage_rows: i64,
    pub charged_nanos: i64,
}

/// Compares; an error says everything that differs.
pub fn verify(
    target: &Target,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<Option<Verified>> {
    let mut differences = Vec::new();
    let expected = expected(target);
    let total = sum(expected.values());
    let answered = Counts {
        total: total.rows.cast_unsigned(),
        completed: total.rows.cast_unsigned(),
        prompt_tokens: total.input_tokens.cast_unsigned(),
        completion_tokens: total.output_tokens.cast_unsigned(),
    };
    if answered != target.served {
        differences.push(format!(
            "callers got {answered:?}, the upstream served {:?}",
            target.served
        ));
    }
    if let Some(books) = &target.books {
        let found = runtime.block_on(rows(books, total.rows))?;
        for (model, expected) in &expected {
            let found = found.get(model).copied().unwrap_or_default();
            if found != *expected {
                differences.push(format!(
                    "{model}: usage rows say {found:?}, served was {expected:?}"
                ));
            }
        }
        for model in found.keys().filter(|model| !expected.contains_key(*model)) {
            differences.push(format!("usage rows name `{model}`, which nobody asked for"));
        }
        differences.extend(money(books, total.charge_nanos)?);
        if let Err(error) = start::run(&mut books.admin.command(&["ledger", "verify"])) {
            differences.push(format!("{error:#}"));
        }
    }
    anyhow::ensure!(
        differences.is_empty(),
        "{}: the books are not what was served, so there are no figures:\n  {}",
        target.kind,
        differences.join("\n  ")
    );
    Ok(target.books.is_some().then_some(Verified {
        usage_rows: total.rows,
        charged_nanos: total.charge_nanos,
    }))
}

/// What right answers come to, by public model.
fn expected(target: &Target) -> BTreeMap<String, Sums> {
    let of = |(workload, answers): (&Workload, &u64)| {
        let answers = answers.cast_signed();
        let sums = Sums {
            rows: answers,
            input_tokens: answers * workload.input_tokens().cast_signed(),
            output_tokens: answers * workload.output_tokens().cast_signed(),
            charge_nanos: answers * catalogue::charge_nanos(*workload),
            cost_nanos: answers * catalogue::cost_nanos(*workload),
            odd: 0,
        };
        (workload.public_model(), sums)
    };
    target.answers.iter().map(of).collect()
}

fn sum<'a>(all: impl Iterator<Item = &'a Sums>) -> Sums {
    all.fold(Sums::default(), |a, b| Sums {
        rows: a.rows + b.rows,
        input_tokens: a.input_tokens + b.input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
        charge_nanos: a.charge_nanos + b.charge_nanos,
        cost_nanos: a.cost_nanos + b.cost_nanos,
        odd: a.odd + b.odd,
    })
}

/// Balance and holds, as an administrator sees them.
fn money(books: &Books, charged: i64) -> anyhow::Result<Vec<String>> {
    let words = ["tenants", "show", catalogue::TENANT, "--output", "json"];
    let said = start::run(&mut books.admin.command(&words))?;
    let tenant: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let mut differences = Vec::new();
    for (name, expected) in [
        ("balance_nanos", catalogue::BALANCE_NANOS - charged),
        ("held_nanos", 0),
    ] {
        let found = find(&tenant, name).with_context(|| format!("`tenants show` has no {name}"))?;
        if found != expected {
            differences.push(format!("{name} is {found}, should be {expected}"));
        }
    }
    Ok(differences)
}

/// A 64-bit field of proto3 JSON, wherever it stands.
fn find(value: &Value, name: &str) -> Option<i64> {
    match value {
        Value::Object(fields) => match fields.get(name) {
            Some(Value::String(text)) => text.parse().ok(),
            Some(number) => number.as_i64(),
            None => fields.values().find_map(|value| find(value, name)),
        },
        Value::Array(items) => items.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

/// Sums by model, as soon as there are `awaited` final rows.
async fn rows(books: &Books, awaited: i64) -> anyhow::Result<BTreeMap<String, Sums>> {
    let mut options = ConnectOptions::new(&books.database_url);
    options.max_connections(1).sqlx_logging(false);
    let connection = Database::connect(options).await?;
    let table = table(&connection).await?;
    let begin = Instant::now();
    loop {
        let found = read(&connection, &table).await?;
        let total = sum(found.values());
        if (total.rows == awaited && total.odd == 0) || begin.elapsed() > PATIENCE {
            connection.close().await?;
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The table's name with its schema.
async fn table(connection: &DatabaseConnection) -> anyhow::Result<String> {
    if connection.get_database_backend() != DbBackend::Postgres {
        return Ok("usage".to_owned());
    }
    let sql = "SELECT table_schema FROM information_schema.tables WHERE table_name = 'usage'";
    let row = connection
        .query_one_raw(Statement::from_string(DbBackend::Postgres, sql))
        .await?
        .context("there is no table `usage`")?;
    Ok(format!(
        "{}.usage",
        row.try_get::<String>("", "table_schema")?
    ))
}

async fn read(
    connection: &DatabaseConnection,
    table: &str,
) -> anyhow::Result<BTreeMap<String, Sums>> {
    let total = |column: &str| format!("CAST(COALESCE(SUM({column}), 0) AS BIGINT) AS {column}");
    let columns = [
        "input_tokens",
        "output_tokens",
        "charge_nanos",
        "cost_nanos",
    ]
    .map(total);
    // ENDING_COMPLETE and USAGE_SOURCE_PROVIDER are 1.
    let sql = format!(
        "SELECT public_model, COUNT(*) AS answers, {}, \
         CAST(SUM(CASE WHEN provisional = 0 AND ending = 1 AND status = 200 AND usage_source = 1 THEN 0 ELSE 1 END) AS BIGINT) AS odd \
         FROM {table} GROUP BY public_model",
        columns.join(", ")
    );
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    let mut found = BTreeMap::new();
    for row in connection.query_all_raw(statement).await? {
        let sums = Sums {
            rows: row.try_get("", "answers")?,
            input_tokens: row.try_get("", "input_tokens")?,
            output_tokens: row.try_get("", "output_tokens")?,
            charge_nanos: row.try_get("", "charge_nanos")?,
            cost_nanos: row.try_get("", "cost_nanos")?,
            odd: row.try_get("", "odd")?,
        };
        found.insert(row.try_get("", "public_model")?, sums);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Kind;

    fn target(served: Counts) -> Target {
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let mut target = Target::new(Kind::Proxy, addr, Vec::new());
        target.answers.insert(Workload::Whole, 2);
        target.served = served;
        target
    }

    #[test]
    fn an_upstream_that_served_more_than_was_answered_is_a_difference() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut served = Counts {
            total: 2,
            completed: 2,
            prompt_tokens: 20,
            completion_tokens: 32,
        };
        assert!(verify(&target(served), &runtime).unwrap().is_none());
        served.total = 3;
        let error = verify(&target(served), &runtime).unwrap_err();
        assert!(error.to_string().contains("total: 3"), "{error}");
    }

    #[test]
    fn sixty_four_bits_are_found_as_texts() {
        let value = serde_json::json!({"tenant": {"balance_nanos": "-7", "held_nanos": 3}});
        assert_eq!(find(&value, "balance_nanos"), Some(-7));
        assert_eq!(find(&value, "held_nanos"), Some(3));
        assert_eq!(find(&value, "other"), None);
    }
}
