//! Many rows in few statements.
//!
//! SQLite gets multi-row `VALUES` of sizes that are powers of two, so that a few prepared statements serve every batch.
//! PostgreSQL gets one JSON text a table: its statement is the same for every batch, and several tables go into one
//! statement as its common table expressions.

use std::fmt::Write as _;

use bytes::Bytes;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};
use uuid::Uuid;

/// Rows of one statement on SQLite at most.
const MOST_ROWS: usize = 64;

/// A column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Text,
    Id,
    Bytes,
}

/// A value of a row.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Int(Option<i64>),
    Text(String),
    Id(Uuid),
    Bytes(Bytes),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Cell {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Int(Some(super::signed(value)))
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<Option<u64>> for Cell {
    fn from(value: Option<u64>) -> Self {
        Self::Int(value.map(super::signed))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Uuid> for Cell {
    fn from(value: Uuid) -> Self {
        Self::Id(value)
    }
}

impl From<Bytes> for Cell {
    fn from(value: Bytes) -> Self {
        Self::Bytes(value)
    }
}

/// Where rows go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) table: &'static str,
    pub(super) columns: &'static [(&'static str, Kind)],
    /// `ON CONFLICT …`, `RETURNING …`.
    pub(super) suffix: &'static str,
}

/// Rows of one target, one after the other.
#[derive(Debug)]
pub(super) struct Rows {
    target: Target,
    cells: Vec<Cell>,
}

impl Rows {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            cells: Vec::new(),
        }
    }

    /// Adds a row, whose cells come in the order of the columns.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.cells.extend(row);
        debug_assert_eq!(self.cells.len() % self.target.columns.len(), 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

/// Inserts all rows of all targets and gives what the last one returns.
pub(super) async fn insert(
    on: &impl ConnectionTrait,
    all: Vec<Rows>,
) -> Result<Vec<QueryResult>, DbErr> {
    let returning = all.last().is_some_and(|rows| !rows.is_empty());
    let all: Vec<_> = all.into_iter().filter(|rows| !rows.is_empty()).collect();
    let returned = match on.get_database_backend() {
        DbBackend::Postgres => insert_postgres(on, all).await?,
        backend => insert_sqlite(on, backend, all).await?,
    };
    Ok(if returning { returned } else { Vec::new() })
}

async fn insert_sqlite(
    on: &impl ConnectionTrait,
    backend: DbBackend,
    all: Vec<Rows>,
) -> Result<Vec<QueryResult>, DbErr> {
    let mut returned = Vec::new();
    for Rows { target, cells } in all {
        returned.clear();
        let columns = target.columns.len();
        let mut left = cells.len() / columns;
        let mut cells = cells.into_iter();
        while left > 0 {
            let rows = MOST_ROWS.min(1 << left.ilog2());
            let values: Vec<Value> = cells
                .by_ref()
                .take(rows * columns)
                .map(Value::from)
                .collect();
            let statement =
                Statement::from_sql_and_values(backend, target.values_sql(rows), values);
            if target.suffix.contains("RETURNING") {
                returned.extend(on.query_all_raw(statement).await?);
            } else {
                on.execute_raw(statement).await?;
            }
            left -= rows;
        }
    }
    Ok(returned)
}

async fn insert_postgres(
    on: &impl ConnectionTrait,
    all: Vec<Rows>,
) -> Result<Vec<QueryResult>, DbErr> {
    let mut sql = String::new();
    let mut values: Vec<Value> = Vec::with_capacity(all.len());
    let last = all.len();
    for (index, Rows { target, cells }) in all.into_iter().enumerate() {
        let number = index + 1;
        values.push(json(target.columns.len(), &cells).into());
        let insert = target.json_sql(number);
        // Writing into a `String` cannot fail.
        let _ = match (number == last, index) {
            (true, 0) => write!(sql, "{insert}"),
            (true, _) => write!(sql, " {insert}"),
            (false, 0) => write!(sql, "WITH t{number} AS ({insert})"),
            (false, _) => write!(sql, ", t{number} AS ({insert})"),
        };
    }
    if values.is_empty() {
        return Ok(Vec::new());
    }
    on.query_all_raw(Statement::from_sql_and_values(
        DbBackend::Postgres,
        sql,
        values,
    ))
    .await
}

impl Target {
    fn head(&self) -> String {
        let mut sql = format!("INSERT INTO {} (", self.table);
        for (index, (column, _)) in self.columns.iter().enumerate() {
            sql.push_str(if index == 0 { "" } else { ", " });
            sql.push_str(column);
        }
        sql.push_str(") ");
        sql
    }

    fn values_sql(&self, rows: usize) -> String {
        let mut sql = self.head();
        sql.reserve(rows * (self.columns.len() * 2 + 2) + self.suffix.len() + 8);
        sql.push_str("VALUES ");
        for row in 0..rows {
            sql.push_str(if row == 0 { "(" } else { ",(" });
            for column in 0..self.columns.len() {
                // Numbered parameters would be looked up by name, one by one.
                sql.push_str(if column == 0 { "?" } else { ",?" });
            }
            sql.push(')');
        }
        sql.push(' ');
        sql.push_str(self.suffix);
        sql
    }

    fn json_sql(&self, parameter: usize) -> String {
        let mut sql = self.head();
        sql.push_str("SELECT ");
        for (index, (_, kind)) in self.columns.iter().enumerate() {
            sql.push_str(if index == 0 { "" } else { ", " });
            let _ = match kind {
                Kind::Int => write!(sql, "(r->>{index})::bigint"),
                Kind::Text => write!(sql, "r->>{index}"),
                Kind::Id => write!(sql, "(r->>{index})::uuid"),
                Kind::Bytes => write!(sql, "decode(r->>{index}, 'hex')"),
            };
        }
        let _ = write!(
            sql,
            " FROM jsonb_array_elements(${parameter}::jsonb) AS r {}",
            self.suffix
        );
        sql
    }
}

impl From<Cell> for Value {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Int(value) => value.into(),
            Cell::Text(value) => value.into(),
            Cell::Id(value) => value.into(),
            Cell::Bytes(value) => Vec::from(value).into(),
        }
    }
}

/// An array of rows, each an array of cells.
fn json(columns: usize, cells: &[Cell]) -> String {
    let mut text = String::with_capacity(cells.len() * 8);
    text.push('[');
    for (index, cell) in cells.iter().enumerate() {
        let place = index % columns;
        text.push_str(match (index, place) {
            (0, _) => "[",
            (_, 0) => "],[",
            _ => ",",
        });
        let _ = match cell {
            Cell::Int(None) => write!(text, "null"),
            Cell::Int(Some(value)) => write!(text, "{value}"),
            Cell::Id(value) => write!(text, "\"{value}\""),
            Cell::Bytes(value) => {
                text.push('"');
                for byte in value {
                    let _ = write!(text, "{byte:02x}");
                }
                write!(text, "\"")
            }
            Cell::Text(value) => write!(text, "{}", serde_json::Value::from(value.as_str())),
        };
    }
    text.push_str(if cells.is_empty() { "]" } else { "]]" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target {
        table: "t",
        columns: &[("a", Kind::Int), ("b", Kind::Text), ("c", Kind::Bytes)],
        suffix: "ON CONFLICT DO NOTHING",
    };

    #[test]
    fn rows_become_values_or_one_json_text() {
        assert_eq!(
            TARGET.values_sql(2),
            "INSERT INTO t (a, b, c) VALUES (?,?,?),(?,?,?) ON CONFLICT DO NOTHING"
        );
        assert_eq!(
            TARGET.json_sql(3),
            "INSERT INTO t (a, b, c) SELECT (r->>0)::bigint, r->>1, decode(r->>2, 'hex') FROM jsonb_array_elements($3::jsonb) AS r ON CONFLICT DO NOTHING"
        );
        let mut rows = Rows::new(TARGET);
        rows.push([
            Cell::from(-1),
            Cell::from("q\"\n"),
            Cell::from(Bytes::from_static(&[0, 255])),
        ]);
        rows.push([Cell::Int(None), Cell::from(""), Cell::from(Bytes::new())]);
        assert_eq!(
            json(3, &rows.cells),
            r#"[[-1,"q\"\n","00ff"],[null,"",""]]"#
        );
        assert_eq!(json(3, &[]), "[]");
    }
}
