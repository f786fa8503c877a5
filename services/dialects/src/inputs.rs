//! Text that may be given as a string, as strings, as tokens, or as several lists of tokens (PROTOCOLS §4, §9).

use crate::json::{Cursor, JsonError, Kind, Value};
use crate::request::RequestError;
use crate::text::TextBuffer;

/// What may be given.
pub(crate) const EXPECTED: &str = "a string, an array of strings, or arrays of tokens";

/// How many inputs there are, and how many tokens where inputs are given as tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inputs {
    /// Inputs.
    pub count: u64,
    /// Tokens of those that are given as tokens.
    pub tokens: u64,
}

impl Inputs {
    /// Reads the value of `field`.
    pub(crate) fn read(
        field: &'static str,
        text: &str,
        value: Value,
    ) -> Result<Self, RequestError> {
        let wrong = |got: &str| RequestError::Field {
            field,
            expected: EXPECTED,
            got: got.to_owned(),
        };
        let mut inputs = Self::default();
        match value.kind {
            Kind::String => inputs.count = 1,
            Kind::Array => {
                let mut cursor = Cursor::at_value(text, value);
                cursor.enter_array()?;
                let mut first = true;
                let mut numbers = 0;
                while cursor.next_item(&mut first)? {
                    let item = cursor.skip()?;
                    match item.kind {
                        Kind::String => inputs.count += 1,
                        Kind::Number => numbers += 1,
                        Kind::Array => {
                            inputs.count += 1;
                            inputs.tokens += items(text, item)?;
                        }
                        kind => return Err(wrong(kind.noun())),
                    }
                }
                inputs.tokens += numbers;
                if numbers > 0 {
                    inputs.count += 1;
                }
                if inputs.count == 0 {
                    return Err(wrong("an empty array"));
                }
            }
            kind => return Err(wrong(kind.noun())),
        }
        Ok(inputs)
    }

    /// Collects the text of a value that [`read`](Self::read) accepted.
    pub(crate) fn text(text: &str, value: Value, out: &mut TextBuffer) -> Result<(), JsonError> {
        if let Some(string) = value.text() {
            string.pieces(text, |piece| out.push(piece));
            return Ok(());
        }
        if value.kind != Kind::Array {
            return Ok(());
        }
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            if let Some(string) = cursor.skip()?.text() {
                string.pieces(text, |piece| out.push(piece));
                out.push("\n");
            }
        }
        Ok(())
    }
}

/// How many items an array has.
pub(crate) fn items(text: &str, array: Value) -> Result<u64, JsonError> {
    let mut cursor = Cursor::at_value(text, array);
    let mut first = true;
    let mut count = 0;
    cursor.enter_array()?;
    while cursor.next_item(&mut first)? {
        cursor.skip()?;
        count += 1;
    }
    Ok(count)
}
