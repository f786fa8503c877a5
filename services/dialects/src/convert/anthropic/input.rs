//! The input of a call, which must be an object.

use std::borrow::Cow;

use crate::convert::node::Node;
use crate::json::{Cursor, Kind};

/// A call's arguments as the object that they must be: none at all are `{}`, and what is no object is told as
/// `{"INVALID_JSON": "…"}` [Anthropic's documentation, fine-grained tool streaming].
pub(crate) fn object(arguments: &str) -> Cow<'_, str> {
    let trimmed = arguments.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return Cow::Borrowed("{}");
    }
    let mut cursor = Cursor::new(trimmed);
    let whole = cursor.skip().and_then(|value| cursor.end().map(|()| value));
    if whole.is_ok_and(|value| value.kind == Kind::Object) {
        return Cow::Borrowed(trimmed);
    }
    let told = Node::object([("INVALID_JSON", Node::text(arguments))]);
    Cow::Owned(told.render())
}
