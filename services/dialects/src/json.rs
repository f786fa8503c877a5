//! A pull scanner over JSON text: it finds keys and the byte ranges of values, and validates everything it passes.
//!
//! Invariants: one forward pass; no recursion (nesting is a counter and a 128-bit stack, so no depth of input can
//! overflow ours); no allocation; a value is only reported after all of it was found valid by RFC 8259.
//!
//! It builds no tree and converts no numbers: a caller that wants a value asks for its range and reads that. Duplicate
//! keys are reported each time they occur, escaped keys (`"mod\u0065l"`) compare by what they mean.

mod cursor;
mod nesting;
mod splice;
mod string;
#[cfg(test)]
mod tests;

pub use cursor::Cursor;
pub(crate) use nesting::Nesting;
pub use splice::{Edit, splice};
pub use string::Text;
pub(crate) use string::string_inside;

/// Deepest nesting of objects and arrays that is accepted. Deeper input is refused, whatever it says.
pub const MAX_DEPTH: u32 = 128;

/// Why a text is not JSON that we accept; `at` is a byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text ends inside a value.
    #[error("the JSON ends too early, at byte {at}")]
    Eof {
        /// Where the text ends.
        at: usize,
    },
    /// A byte that cannot stand here.
    #[error("invalid JSON at byte {at}")]
    Invalid {
        /// Offset of the byte.
        at: usize,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("JSON nested deeper than {MAX_DEPTH} levels, at byte {at}")]
    TooDeep {
        /// Offset of the bracket that is one too many.
        at: usize,
    },
}

/// A byte range of the scanned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The range from `start` up to but without `end`.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The text of this range; empty when the range does not belong to `text`.
    #[must_use]
    pub fn of<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or("")
    }
}

/// What a value is, told by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// `-1.5e3`
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl Kind {
    /// The word for error messages.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Null => "null",
        }
    }
}

/// A value that was scanned to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// All of its bytes, quotes and brackets included.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
    /// A string that holds escapes.
    pub escaped: bool,
}

impl Value {
    /// The inside of a string value; `None` for anything else.
    #[must_use]
    pub const fn text(&self) -> Option<Text> {
        match self.kind {
            Kind::String => Some(Text {
                span: Span::new(self.span.start + 1, self.span.end - 1),
                escaped: self.escaped,
            }),
            _ => None,
        }
    }
}

/// A whole number that a JSON number means, also when written `100.0` or `1e2`; `None` for negative ones, fractions,
/// and anything from 10^18 on.
#[must_use]
pub fn whole_number(raw: &str) -> Option<u64> {
    const LIMIT: u64 = 1_000_000_000_000_000_000;
    if let Ok(n) = raw.parse::<u64>() {
        return (n < LIMIT).then_some(n);
    }
    let n = raw.parse::<f64>().ok()?;
    if !(0.0..1e18).contains(&n) || n.fract() != 0.0 {
        return None;
    }
    // no rounding trap: the text of a whole f64 below 10^18 is its exact decimal value
    format!("{n:.0}").trim_start_matches('-').parse().ok()
}

/// Finds a top-level member of an object; the last one where there are several.
pub(crate) fn member(data: &str, name: &str) -> Option<Value> {
    let mut cursor = Cursor::new(data);
    cursor.enter_object().ok()?;
    let mut first = true;
    let mut found = None;
    while let Some(key) = cursor.next_key(&mut first).ok()? {
        let value = cursor.skip().ok()?;
        if crate::usage::key_is(data, key, name) {
            found = Some(value);
        }
    }
    found
}
