//! Why a caller's request is refused before anything is sent.

use crate::json::{JsonError, Kind, Value, whole_number};

/// A request body that cannot be what its endpoint expects. Its text is meant for the caller: which field, what was
/// expected. Rendered as 400 `invalid_request` (SPEC ERR-1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not JSON at all.
    #[error("the request body is not valid JSON: {0}")]
    Json(#[from] JsonError),
    /// Not UTF-8; the offset is that of the first bad byte.
    #[error("the request body is not valid UTF-8 at byte {at}")]
    Utf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// JSON, but no object.
    #[error("the request body must be a JSON object, not {0}")]
    NotObject(&'static str),
    /// A field that must be there is not.
    #[error("`{field}` is required: expected {expected}")]
    Missing {
        /// Its name.
        field: &'static str,
        /// What should be there.
        expected: &'static str,
    },
    /// A field of the wrong kind, or a value that makes no sense.
    #[error("`{field}` is invalid: expected {expected}, got {got}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What should be there.
        expected: &'static str,
        /// What is there instead.
        got: String,
    },
}

impl RequestError {
    /// The field at fault, for `error.param`.
    #[must_use]
    pub const fn param(&self) -> Option<&'static str> {
        match self {
            Self::Missing { field, .. } | Self::Field { field, .. } => Some(field),
            _ => None,
        }
    }

    pub(crate) fn kind(field: &'static str, expected: &'static str, got: Kind) -> Self {
        Self::Field {
            field,
            expected,
            got: got.noun().to_owned(),
        }
    }
}

/// The body as text.
pub(crate) fn utf8(body: &[u8]) -> Result<&str, RequestError> {
    std::str::from_utf8(body).map_err(|e| RequestError::Utf8 {
        at: e.valid_up_to(),
    })
}

/// Whether a value is an array or object with something in it.
pub(crate) fn has_members(text: &str, value: Value) -> bool {
    matches!(value.kind, Kind::Array | Kind::Object)
        && text
            .get(value.span.start + 1..value.span.end - 1)
            .is_some_and(|inside| !inside.trim_ascii().is_empty())
}

/// A field that is true or false, or `null`.
pub(crate) fn boolean(
    field: &'static str,
    text: &str,
    value: Value,
) -> Result<Option<bool>, RequestError> {
    match value.kind {
        Kind::Bool => Ok(Some(value.span.of(text) == "true")),
        Kind::Null => Ok(None),
        kind => Err(RequestError::kind(field, "true or false", kind)),
    }
}

/// A field that is a positive whole number, or `null`.
pub(crate) fn limit(
    field: &'static str,
    text: &str,
    value: Value,
) -> Result<Option<u64>, RequestError> {
    const EXPECTED: &str = "a whole number from 1 to 999999999999999999";
    match value.kind {
        Kind::Null => Ok(None),
        Kind::Number => match whole_number(value.span.of(text)) {
            Some(n) if n > 0 => Ok(Some(n)),
            _ => {
                let mut got = value.span.of(text).to_owned();
                got.truncate(40);
                Err(RequestError::Field {
                    field,
                    expected: EXPECTED,
                    got,
                })
            }
        },
        kind => Err(RequestError::kind(field, EXPECTED, kind)),
    }
}
