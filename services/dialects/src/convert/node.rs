//! Building JSON: a tree whose leaves may be texts that came from elsewhere, byte for byte.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A JSON value to be written. What is carried over unread (schemas, arguments, numbers) stays the text it was, so that
/// nothing of it changes: no 64-bit integer, no exponent, no order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node<'a> {
    /// JSON that is written as it is. It must be valid and may not hold line ends outside of strings
    /// where the result goes into an event; [`one_line`] sees to that.
    Raw(Cow<'a, str>),
    /// A string, yet to be quoted.
    Text(Cow<'a, str>),
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// An array.
    Array(Vec<Node<'a>>),
    /// An object; keys in the order in which they were put.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// An object of these members.
    pub(crate) fn object<const N: usize>(members: [(&'a str, Node<'a>); N]) -> Self {
        let members = members.into_iter();
        Self::Object(
            members
                .map(|(key, node)| (Cow::Borrowed(key), node))
                .collect(),
        )
    }

    /// A string.
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// JSON as it is.
    pub(crate) fn raw(raw: impl Into<Cow<'a, str>>) -> Self {
        Self::Raw(raw.into())
    }

    /// Adds a member to an object; of nothing else there is.
    pub(crate) fn put(&mut self, key: impl Into<Cow<'a, str>>, node: Node<'a>) {
        if let Self::Object(members) = self {
            members.push((key.into(), node));
        }
    }

    /// Adds a member if there is one.
    pub(crate) fn put_some(&mut self, key: impl Into<Cow<'a, str>>, node: Option<Node<'a>>) {
        if let Some(node) = node {
            self.put(key, node);
        }
    }

    /// The JSON text.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the JSON text.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Raw(raw) => out.push_str(raw),
            Self::Text(text) => quote_into(out, text),
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(number) => {
                // writing to a string cannot fail
                let _ = write!(out, "{number}");
            }
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (key, node)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    quote_into(out, key);
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Appends a text as a JSON string.
pub(crate) fn quote_into(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        // An escaped byte is ASCII, so both sides of it are whole characters.
        out.push_str(text.get(plain..at).unwrap_or(""));
        plain = at + 1;
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(text.get(plain..).unwrap_or(""));
    out.push('"');
}

/// JSON on one line: line ends can only be white space there, as inside strings they are escaped.
pub(crate) fn one_line(raw: &str) -> Cow<'_, str> {
    if raw.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
        Cow::Owned(raw.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_and_raw_json_is_not_touched() {
        let mut node = Node::object([
            ("a", Node::text("q\"\\\n\u{1}é")),
            ("n", Node::raw("1e400")),
            (
                "l",
                Node::Array(vec![Node::Null, Node::Bool(true), Node::Number(-3)]),
            ),
        ]);
        node.put_some("absent", None);
        assert_eq!(
            node.render(),
            r#"{"a":"q\"\\\n\u0001é","n":1e400,"l":[null,true,-3]}"#
        );
        assert_eq!(one_line("{\n\"a\":1\r\n}"), "{ \"a\":1  }");
    }
}
