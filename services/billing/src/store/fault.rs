//! What a database error means for a batch: wait and try again, or look for the bad item.

use sea_orm::{DbErr, RuntimeErr, SqlxError};

use crate::domain::ledger::OutOfRange;

/// Why a batch was not committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The database is away, busy or not ready: the same batch may succeed later.
    #[error("the database is not available: {0}")]
    Outage(DbErr),
    /// The data cannot be stored: the same item fails again.
    #[error("the data is refused: {0}")]
    Data(String),
    /// Anything else. Tried again a few times, then taken for the data's fault.
    #[error("the database failed: {0}")]
    Other(DbErr),
}

impl From<OutOfRange> for Fault {
    fn from(error: OutOfRange) -> Self {
        Self::Data(error.to_string())
    }
}

impl From<DbErr> for Fault {
    fn from(error: DbErr) -> Self {
        let sqlx = match &error {
            DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => return Self::Outage(error),
            DbErr::Exec(RuntimeErr::SqlxError(sqlx))
            | DbErr::Query(RuntimeErr::SqlxError(sqlx)) => sqlx,
            _ => return Self::Other(error),
        };
        match &**sqlx {
            SqlxError::Database(database) => {
                let code = database.code().unwrap_or_default();
                if database.message().starts_with("no such table") {
                    // SQLite's general error; the schema is not there yet.
                    return Self::Outage(error);
                }
                match judge(&code) {
                    Verdict::Outage => Self::Outage(error),
                    Verdict::Data => Self::Data(format!("{} ({code})", database.message())),
                    Verdict::Other => Self::Other(error),
                }
            }
            SqlxError::Encode(_) | SqlxError::Decode(_) | SqlxError::ColumnDecode { .. } => {
                Self::Other(error)
            }
            // Broken connections, time-outs, closed pools, dead workers.
            _ => Self::Outage(error),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Outage,
    Data,
    Other,
}

/// PostgreSQL's five-letter SQLSTATE, or SQLite's (extended) result code in decimal.
fn judge(code: &str) -> Verdict {
    if code.len() == 5 {
        return match code.get(..2).unwrap_or_default() {
            // Connection, transaction rollback, resources, operator intervention, system errors.
            "08" | "40" | "53" | "57" | "58" => Verdict::Outage,
            // Read-only standby, lock not available, no such table yet.
            _ if matches!(code, "25006" | "55P03" | "42P01" | "3F000") => Verdict::Outage,
            // Data exceptions, integrity constraints.
            "22" | "23" => Verdict::Data,
            _ => Verdict::Other,
        };
    }
    // The low byte is the primary code.
    match code.parse::<u32>().map(|code| code & 0xFF) {
        // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL.
        Ok(5 | 6 | 7 | 8 | 9 | 10 | 13 | 14 | 15) => Verdict::Outage,
        // TOOBIG, CONSTRAINT, MISMATCH, RANGE.
        Ok(18 | 19 | 20 | 25) => Verdict::Data,
        _ => Verdict::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_waited_for_and_what_cannot_is_looked_for() {
        for outage in [
            "08006", "40P01", "40001", "53300", "57P01", "25006", "42P01", "5", "517", "13",
        ] {
            assert_eq!(judge(outage), Verdict::Outage, "{outage}");
        }
        for data in ["22003", "23505", "22P05", "19", "1555", "18"] {
            assert_eq!(judge(data), Verdict::Data, "{data}");
        }
        for other in ["42601", "1", "", "XX000"] {
            assert_eq!(judge(other), Verdict::Other, "{other}");
        }
    }
}
