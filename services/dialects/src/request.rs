//! Why a caller's request is refused before anything is sent.

use bytes::Bytes;

use crate::chat::quote;
use crate::json::{Cursor, Edit, JsonError, Kind, Span, Value, splice, whole_number};

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
    /// No `multipart/form-data` that can be understood in one way only.
    #[error("the request body is not valid multipart/form-data: {problem}")]
    Form {
        /// What is wrong with it.
        problem: &'static str,
    },
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

impl RequestError {
    pub(crate) const fn no_model() -> Self {
        Self::Missing {
            field: "model",
            expected: "the name of a model",
        }
    }
}

/// The body as text.
pub(crate) fn utf8(body: &[u8]) -> Result<&str, RequestError> {
    std::str::from_utf8(body).map_err(|e| RequestError::Utf8 {
        at: e.valid_up_to(),
    })
}

/// Reads the members of a body that is one JSON object; gives where the last one ends.
pub(crate) fn members(
    body: &[u8],
    mut member: impl FnMut(&str, &str, Value) -> Result<(), RequestError>,
) -> Result<usize, RequestError> {
    let text = utf8(body)?;
    let mut cursor = Cursor::new(text);
    let kind = cursor.kind()?;
    if kind != Kind::Object {
        return Err(RequestError::NotObject(kind.noun()));
    }
    cursor.enter_object()?;
    let mut first = true;
    loop {
        let end = cursor.position();
        let Some(key) = cursor.next_key(&mut first)? else {
            cursor.end()?;
            return Ok(end);
        };
        let value = cursor.skip()?;
        member(text, &key.decode(text), value)?;
    }
}

/// The model that was asked for, and each place where it is named: of two equal keys the last one counts, and all are
/// changed, so that upstreams cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ModelField {
    pub(crate) name: String,
    spans: Vec<Span>,
}

impl ModelField {
    pub(crate) fn read(&mut self, text: &str, value: Value) -> Result<(), RequestError> {
        self.name = model_name(text, value)?;
        self.spans.push(value.span);
        Ok(())
    }

    /// Checks that a model was named.
    pub(crate) fn given(&self) -> Result<(), RequestError> {
        if self.name.is_empty() {
            return Err(RequestError::no_model());
        }
        Ok(())
    }

    /// The body with the upstream's name; the body itself when that is there already.
    pub(crate) fn rename(&self, body: &Bytes, model: &str) -> Bytes {
        if model == self.name {
            return body.clone();
        }
        let quoted = quote(model);
        let edit = |span: &Span| Edit::replace(*span, quoted.clone());
        splice(body, self.spans.iter().map(edit).collect())
    }
}

/// The value of `model`.
pub(crate) fn model_name(text: &str, value: Value) -> Result<String, RequestError> {
    string("model", "the name of a model as a string", text, value)
}

/// A string with something in it.
pub(crate) fn string(
    field: &'static str,
    expected: &'static str,
    text: &str,
    value: Value,
) -> Result<String, RequestError> {
    let Some(found) = value.text() else {
        return Err(RequestError::kind(field, expected, value.kind));
    };
    if found.is_empty() {
        return Err(RequestError::Field {
            field,
            expected,
            got: "an empty string".to_owned(),
        });
    }
    Ok(found.decode(text).into_owned())
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
    at_least(field, 1, text, value)
}

/// A field that is a whole number of at least `least` (0 or 1), or `null`.
pub(crate) fn at_least(
    field: &'static str,
    least: u64,
    text: &str,
    value: Value,
) -> Result<Option<u64>, RequestError> {
    let expected = if least == 0 {
        "a whole number from 0 to 999999999999999999"
    } else {
        "a whole number from 1 to 999999999999999999"
    };
    match value.kind {
        Kind::Null => Ok(None),
        Kind::Number => match whole_number(value.span.of(text)) {
            Some(n) if n >= least => Ok(Some(n)),
            _ => {
                let mut got = value.span.of(text).to_owned();
                got.truncate(40);
                Err(RequestError::Field {
                    field,
                    expected,
                    got,
                })
            }
        },
        kind => Err(RequestError::kind(field, expected, kind)),
    }
}
