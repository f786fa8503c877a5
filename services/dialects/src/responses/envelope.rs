//! The response object, as far as it matters on its way to the caller.

use super::strings::strings;
use crate::chat::PublicName;
use crate::dialect::Finished;
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Edit, JsonError, Kind, Value, whole_number};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// Its members (PROTOCOLS §5.2).
#[derive(Debug, Clone, Default)]
pub(super) struct Envelope {
    pub(super) id: Option<String>,
    pub(super) is_response: bool,
    pub(super) status: Option<String>,
    pub(super) error: Option<Value>,
    pub(super) output: Option<Value>,
    pub(super) usage: Option<Value>,
    pub(super) created_at: i64,
    pub(super) model: String,
    /// It says that it is not kept.
    pub(super) not_kept: bool,
    models: Vec<Value>,
}

impl Envelope {
    /// Reads the object at `value`.
    pub(super) fn read(text: &str, value: Value) -> Result<Self, JsonError> {
        let mut envelope = Self::default();
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            let word = || value.text().map(|word| word.decode(text).into_owned());
            match &*key.decode(text) {
                "id" => envelope.id = word().filter(|id| !id.is_empty()),
                "object" => envelope.is_response = value.span.of(text) == "\"response\"",
                "status" => envelope.status = word(),
                "error" => envelope.error = Some(value),
                "output" => envelope.output = Some(value).filter(|v| v.kind == Kind::Array),
                "usage" => envelope.usage = Some(value),
                "created_at" if value.kind == Kind::Number => {
                    let seconds = value.span.of(text).split('.').next().unwrap_or("");
                    let seconds = whole_number(seconds).and_then(|n| i64::try_from(n).ok());
                    envelope.created_at = seconds.unwrap_or(0);
                }
                "store" => envelope.not_kept = value.span.of(text) == "false",
                "model" => {
                    envelope.model = word().unwrap_or_default();
                    envelope.models.push(value);
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// What the upstream reported.
    pub(super) fn usage(&self, text: &str) -> Option<UsageReport> {
        UsageReport::from_openai(text, self.usage?)
    }

    /// How it ended; `None`: it goes on, or does not say.
    pub(super) fn finished(&self) -> Option<Finished> {
        match self.status.as_deref()? {
            "completed" | "incomplete" => Some(Finished::Answered),
            "failed" => Some(Finished::Failed),
            "cancelled" => Some(Finished::Cancelled),
            _ => None,
        }
    }

    /// Whether it failed, whatever the event is called that it ends with.
    pub(super) fn failed(&self, text: &str) -> bool {
        let error = |error| UpstreamError::from_embedded(text, error).is_some();
        self.status.as_deref() == Some("failed") || self.error.is_some_and(error)
    }

    /// Why it failed: its `error` is classified by its code (SPEC FWD-5).
    pub(super) fn failure(&self, text: &str) -> Box<UpstreamError> {
        let said = self
            .error
            .and_then(|error| UpstreamError::from_embedded(text, error));
        Box::new(match said {
            Some(mut error) => {
                // The whole is a response, no error object.
                error.body = None;
                error
            }
            None => {
                UpstreamError::found(Class::Server, "the upstream says that the response failed")
            }
        })
    }

    /// What gives it the public name.
    pub(super) fn renamed<'a>(
        &'a self,
        text: &'a str,
        name: &'a PublicName,
    ) -> impl Iterator<Item = Edit<'a>> + 'a {
        let others = self
            .models
            .iter()
            .filter(|value| name.differs(**value, text));
        others.map(|value| Edit::replace(value.span, name.quoted.as_str()))
    }

    /// Its output as a tokenizer would count it.
    pub(super) fn text(&self, text: &str, out: &mut TextBuffer) {
        if let Some(output) = self.output {
            // What was scanned before reads again.
            let _same = strings(&mut Cursor::at_value(text, output), out);
        }
    }
}

/// A whole text as one value.
pub(super) fn whole(text: &str) -> Option<Value> {
    let mut cursor = Cursor::new(text);
    let value = cursor
        .skip()
        .ok()
        .filter(|value| value.kind == Kind::Object)?;
    cursor.end().ok()?;
    Some(value)
}
