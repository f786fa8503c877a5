//! What chat and completions requests have in common: the model, streaming, usage, `n`, and where a patch changes them.

use crate::json::{Cursor, Kind, Span, Value};
use crate::request::{RequestError, at_least, boolean, limit, model_name};
use crate::usage::key_is;

/// The most answers that can be asked for at once.
pub(crate) const MOST_ANSWERS: u64 = 128;

/// Where a key occurs twice the last one counts, as in every common parser; patches change all of them, so that upstreams
/// cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// The model that was asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether the caller asked for usage in the stream (`stream_options.include_usage`).
    pub include_usage: bool,
    /// How many answers at once; 1 when not given.
    pub n: u64,
    pub(super) slots: Vec<Slot>,
    /// Where the last member of the request ends: new members go there.
    pub(crate) end: usize,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            model: String::new(),
            stream: false,
            include_usage: false,
            n: 1,
            slots: Vec::new(),
            end: 0,
        }
    }
}

/// A place in the body that a patch may have to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// The value of `model`.
    Model(Span),
    /// `stream_options` that is `null`.
    NullOptions(Span),
    /// The value of an `include_usage`, and whether it is `true` already.
    IncludeUsage(Span, bool),
    /// `stream_options` without `include_usage`: where one can be inserted, and whether a comma must precede it.
    OptionsEnd(usize, bool),
    /// The value of an output limit, and what it says.
    Limit(Span, Option<u64>),
}

impl Fields {
    /// Reads a member of the request, if it is one of these.
    pub(crate) fn read(
        &mut self,
        text: &str,
        name: &str,
        value: Value,
    ) -> Result<(), RequestError> {
        match name {
            "model" => {
                self.model = model_name(text, value)?;
                self.slots.push(Slot::Model(value.span));
            }
            "stream" => self.stream = boolean("stream", text, value)?.unwrap_or(false),
            "stream_options" => self.read_stream_options(text, value)?,
            "n" => self.n = answers("n", text, value)?,
            _ => {}
        }
        Ok(())
    }

    /// Reads an output limit.
    pub(crate) fn limit(
        &mut self,
        field: &'static str,
        least: u64,
        text: &str,
        value: Value,
    ) -> Result<Option<u64>, RequestError> {
        let read = at_least(field, least, text, value)?;
        self.slots.push(Slot::Limit(value.span, read));
        Ok(read)
    }

    /// Checks that a model was named.
    pub(crate) fn has_model(&self) -> Result<(), RequestError> {
        if self.model.is_empty() {
            return Err(RequestError::no_model());
        }
        Ok(())
    }

    fn read_stream_options(&mut self, text: &str, value: Value) -> Result<(), RequestError> {
        self.include_usage = false;
        match value.kind {
            Kind::Object => {}
            Kind::Null => {
                self.slots.push(Slot::NullOptions(value.span));
                return Ok(());
            }
            kind => {
                return Err(RequestError::kind("stream_options", "an object", kind));
            }
        }
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let (mut first, mut found, mut empty) = (true, false, true);
        loop {
            let end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                if !found {
                    self.slots.push(Slot::OptionsEnd(end, !empty));
                }
                return Ok(());
            };
            empty = false;
            let value = cursor.skip()?;
            if key_is(text, key, "include_usage") {
                self.include_usage =
                    boolean("stream_options.include_usage", text, value)?.unwrap_or(false);
                self.slots
                    .push(Slot::IncludeUsage(value.span, self.include_usage));
                found = true;
            }
        }
    }
}

/// How many answers at once.
pub(crate) fn answers(field: &'static str, text: &str, value: Value) -> Result<u64, RequestError> {
    let given = limit(field, text, value)?.unwrap_or(1);
    if given > MOST_ANSWERS {
        return Err(RequestError::Field {
            field,
            expected: "a whole number from 1 to 128",
            got: given.to_string(),
        });
    }
    Ok(given)
}
