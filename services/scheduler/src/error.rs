//! Why the scheduler does not start, or cannot answer.

use sea_orm::DbErr;
use switchboard_common::error::{Failure, Reason};

use crate::domain::document::Invalid;

/// Errors of the scheduler.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of its range.
    #[error("{0}")]
    Config(&'static str),
    /// The database.
    #[error("scheduler database: {0}")]
    Database(#[from] DbErr),
    /// The state store.
    #[error("state store: {0}")]
    State(#[from] switchboard_state::Error),
    /// A catalogue that cannot be a version.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A stored version that cannot be read: written by a newer release, or by hand.
    #[error("catalogue version {version} cannot be read: {source}")]
    Unreadable {
        /// Which.
        version: u64,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// What was to be written was dropped before it was.
    #[error("the database was not asked")]
    Interrupted,
    /// There is no such version.
    #[error("there is no catalogue version {0}")]
    NoVersion(u64),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(invalid) => Failure::new(Reason::InvalidRequest, invalid.0),
            Error::NoVersion(version) => Failure::new(
                Reason::NotFound,
                format!("there is no catalogue version {version}"),
            ),
            Error::Database(error) => {
                tracing::warn!(%error, "scheduler database failed");
                unavailable()
            }
            Error::Interrupted => unavailable(),
            Error::State(error) => {
                tracing::debug!(%error, "state store failed");
                unavailable()
            }
            Error::Config(error) => {
                tracing::error!(error, "scheduler settings");
                Failure::internal()
            }
            Error::Unreadable { version, source } => {
                tracing::error!(version, error = %source, "catalogue version cannot be read");
                Failure::internal()
            }
        }
    }
}

fn unavailable() -> Failure {
    Failure::new(
        Reason::Unavailable,
        "a part of the gateway cannot be reached; try again shortly",
    )
    .retry_after(std::time::Duration::from_secs(1))
}
