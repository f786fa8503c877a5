//! Why the state store gave no answer.

use std::sync::Arc;

/// Errors of the state store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store did not answer and the concern's policy is `closed`, or has no answer of its own.
    #[error("the state store is unavailable: {0}")]
    Unavailable(Arc<str>),
    /// The settings do not fit each other or the store.
    #[error("{0}")]
    Config(Arc<str>),
}

impl Error {
    pub(crate) fn unavailable(what: impl Into<Arc<str>>) -> Self {
        Self::Unavailable(what.into())
    }

    pub(crate) fn config(what: impl Into<Arc<str>>) -> Self {
        Self::Config(what.into())
    }
}
