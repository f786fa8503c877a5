//! Why billing did not start.

/// Errors of the start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting does not hold.
    #[error("{0}")]
    Config(String),
}
