//! Table `response`: which account keeps which response of a tenant.

use sea_orm::{ConnectionTrait as _, DbErr, Statement, Value};
use switchboard_common::db::Database;

/// Rows that one statement removes at most.
const SWEPT: i64 = 1_000;

/// Which account keeps a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The account.
    pub account: String,
    /// Under which name the model was asked for.
    pub public_model: String,
    /// What is settled once the end of a background response is seen; empty: nothing.
    pub unsettled: Vec<u8>,
}

/// A row to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Whose response.
    pub tenant: String,
    /// Its id, as the upstream gave it.
    pub response_id: String,
    /// Who keeps it.
    pub binding: Binding,
}

/// The responses.
#[derive(Clone, Debug)]
pub struct Responses {
    database: Database,
}

impl Responses {
    /// Over a database whose schema is there, or will be.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Writes rows, no two of the same response, in one statement; what was said before of the same responses is replaced.
    ///
    /// # Errors
    /// The database's. Then none was written.
    pub async fn put(&self, rows: &[&Bound], expires_at_ms: i64) -> Result<(), DbErr> {
        let mut sql = String::from(
            "INSERT INTO response (tenant, response_id, account, public_model, unsettled, expires_at_ms) VALUES ",
        );
        let mut values: Vec<Value> = Vec::with_capacity(rows.len() * 6);
        for (at, row) in rows.iter().enumerate() {
            let first = at * 6 + 1;
            let places: Vec<_> = (first..first + 6)
                .map(|place| format!("${place}"))
                .collect();
            sql.push_str(if at == 0 { "(" } else { ", (" });
            sql.push_str(&places.join(", "));
            sql.push(')');
            let binding = &row.binding;
            values.extend([
                row.tenant.as_str().into(),
                row.response_id.as_str().into(),
                binding.account.as_str().into(),
                binding.public_model.as_str().into(),
                binding.unsettled.clone().into(),
                expires_at_ms.into(),
            ]);
        }
        sql.push_str(
            " ON CONFLICT (tenant, response_id) DO UPDATE SET account = excluded.account, public_model = excluded.public_model, \
             unsettled = excluded.unsettled, expires_at_ms = excluded.expires_at_ms",
        );
        let db = self.database.writer();
        let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
        db.execute_raw(statement).await.map(drop)
    }

    /// Who keeps a response of this tenant; `None`: it has none of this id, or it has expired.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(
        &self,
        tenant: &str,
        response_id: &str,
        now_ms: i64,
    ) -> Result<Option<Binding>, DbErr> {
        let db = self.database.reader();
        let row = db
            .query_one_raw(Statement::from_sql_and_values(
                db.get_database_backend(),
                "SELECT account, public_model, unsettled FROM response WHERE tenant = $1 AND response_id = $2 AND expires_at_ms > $3",
                [tenant.into(), response_id.into(), now_ms.into()],
            ))
            .await?;
        row.map(|row| {
            Ok(Binding {
                account: row.try_get("", "account")?,
                public_model: row.try_get("", "public_model")?,
                unsettled: row.try_get("", "unsettled")?,
            })
        })
        .transpose()
    }

    /// Removes some of what has expired; whether there may be more.
    ///
    /// # Errors
    /// The database's.
    pub async fn sweep(&self, now_ms: i64) -> Result<bool, DbErr> {
        let db = self.database.writer();
        let done = db
            .execute_raw(Statement::from_sql_and_values(
                db.get_database_backend(),
                "DELETE FROM response WHERE (tenant, response_id) IN \
                 (SELECT tenant, response_id FROM response WHERE expires_at_ms <= $1 ORDER BY expires_at_ms LIMIT $2)",
                [now_ms.into(), SWEPT.into()],
            ))
            .await?;
        Ok(done.rows_affected() >= SWEPT.unsigned_abs())
    }
}
