//! What can go wrong, and which row of the common error table it is.

use std::time::Duration;

use sea_orm::{DbErr, SqlErr};
use switchboard_common::error::{Failure, Reason};

use crate::domain::validate::Problem;

/// Why the component does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be right.
    #[error("auth.{name}: {message}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What is wrong and what to do.
        message: &'static str,
    },
}

/// Why an admin action was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The request is wrong.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// What it names does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It cannot be done to what is there.
    #[error("{0}")]
    Conflict(Problem),
    /// The token is none of ours.
    #[error("wrong admin token")]
    Token,
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
    /// A row that this version cannot read.
    #[error("row of {table}: {message}")]
    Row {
        /// Where.
        table: &'static str,
        /// What is wrong; never a value that may be secret.
        message: String,
    },
}

impl Fault {
    /// What the caller is told. `retry_after` goes with what may pass.
    pub(crate) fn into_failure(self, retry_after: Duration) -> Failure {
        match self {
            Self::Problem(problem) => {
                Failure::new(Reason::InvalidRequest, problem.to_string()).param(problem.field)
            }
            Self::NotFound(message) => Failure::new(Reason::NotFound, message),
            Self::Conflict(problem) => {
                Failure::new(Reason::Conflict, problem.to_string()).param(problem.field)
            }
            Self::Token => Failure::new(
                Reason::InvalidApiKey,
                "wrong admin token; it stands in the data directory's admin.token",
            ),
            Self::Database(error)
                if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) =>
            {
                Failure::new(
                    Reason::Conflict,
                    "another admin made the same thing at the same time; look and try again",
                )
            }
            Self::Database(error) => {
                tracing::warn!(%error, "identity database failed");
                Failure::new(
                    Reason::Unavailable,
                    "the identity database cannot be reached",
                )
                .retry_after(retry_after)
            }
            Self::Row { table, message } => {
                tracing::error!(
                    table,
                    message,
                    "identity database holds a row that cannot be read"
                );
                Failure::internal()
            }
        }
    }
}
