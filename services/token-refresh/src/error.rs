//! What can go wrong, and which row of the common error table it is. No variant holds a secret.

use std::time::Duration;

use sea_orm::{DbErr, SqlErr};
use switchboard_common::{
    error::{Failure, Reason},
    seal::OpenError,
};

use crate::domain::plan::Problem;

/// Why the component does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be right.
    #[error("token-refresh.{name}: {message}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What is wrong and what to do.
        message: &'static str,
    },
    /// The stored credentials were sealed with another master key.
    #[error(
        "wrong master key: the credential of account `{account}` was sealed with key {stored}, this process has key {ours}; \
         start with the master key file that sealed it, or, if it is lost, remove the credential database and apply the catalogue again"
    )]
    MasterKey {
        /// The first account whose credential does not open.
        account: String,
        /// Id of the key that sealed it.
        stored: String,
        /// Id of this process's key.
        ours: String,
    },
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The request is wrong.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// There is no such credential.
    #[error("account `{0}` has no credential")]
    NotFound(String),
    /// Its account left the catalogue.
    #[error("the credential of account `{0}` is disabled")]
    Disabled(String),
    /// A role that must not see secrets asked.
    #[error("only a forwarder may ask for credentials")]
    Role,
    /// It cannot be opened.
    #[error("the credential of account `{account}` cannot be opened: {source}")]
    Open {
        /// Whose.
        account: String,
        /// Why.
        source: OpenError,
    },
    /// It cannot be sealed.
    #[error("the credential of account `{0}` cannot be sealed")]
    Seal(String),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
    /// A row that this version cannot read.
    #[error("row of account `{account}`: {message}")]
    Row {
        /// Whose.
        account: String,
        /// What is wrong.
        message: &'static str,
    },
}

impl Fault {
    /// What the caller is told. `retry_after` goes with what may pass.
    pub(crate) fn into_failure(self, retry_after: Duration) -> Failure {
        match self {
            Self::Problem(problem) => {
                Failure::new(Reason::InvalidRequest, problem.to_string()).param(problem.field)
            }
            Self::NotFound(_) => Failure::new(
                Reason::NotFound,
                format!("{self}; give it one under `credential` in the catalogue"),
            ),
            Self::Disabled(_) => Failure::new(
                Reason::NotFound,
                format!("{self}: its account left the catalogue"),
            ),
            Self::Role => Failure::new(Reason::Internal, self.to_string()),
            Self::Open { .. } => {
                tracing::error!(error = %self, "credential does not open");
                Failure::new(Reason::UpstreamCredentialsExhausted, self.to_string())
            }
            Self::Seal(_) | Self::Row { .. } => {
                tracing::error!(error = %self, "vault failed");
                Failure::internal()
            }
            Self::Database(error)
                if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) =>
            {
                Failure::new(
                    Reason::Conflict,
                    "another admin changed the same credential at the same time; look and try again",
                )
            }
            Self::Database(error) => {
                tracing::warn!(%error, "credential database failed");
                Failure::new(
                    Reason::Unavailable,
                    "the credential database cannot be reached",
                )
                .retry_after(retry_after)
            }
        }
    }
}
