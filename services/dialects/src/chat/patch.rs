//! What must change in a request before it goes to an upstream of the same dialect (SPEC FWD-1).

use bytes::Bytes;

use super::fields::{Fields, Slot};
use super::request::ChatRequest;
use crate::json::{Edit, Span, splice};

/// The changes. Everything that they do not name goes through byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch<'a> {
    /// The upstream's name of the model.
    pub model: Option<&'a str>,
    /// Ask for usage when the answer is streamed.
    pub include_usage: bool,
    /// No more output tokens than this, for each answer (divide by [`Fields::n`] for a bound of all). A smaller
    /// limit of the caller's stays.
    pub output_cap: Option<u64>,
    /// The field that takes the cap when the caller set no limit.
    pub output_cap_field: &'a str,
}

impl Default for Patch<'_> {
    fn default() -> Self {
        Self {
            model: None,
            include_usage: false,
            output_cap: None,
            output_cap_field: "max_completion_tokens",
        }
    }
}

impl ChatRequest {
    /// Applies `patch` to the body that this request was read from. Without a change the body itself comes back.
    #[must_use]
    pub fn patch(&self, body: &Bytes, patch: &Patch<'_>) -> Bytes {
        self.fields.patch(body, patch)
    }
}

impl Fields {
    /// Applies `patch` to the body that this request was read from. Without a change the body itself comes back.
    pub(crate) fn patch(&self, body: &Bytes, patch: &Patch<'_>) -> Bytes {
        let mut edits: Vec<Edit<'_>> = Vec::new();
        let mut added = String::new();
        if let Some(model) = patch.model
            && model != self.model
        {
            let quoted = quote(model);
            for slot in &self.slots {
                if let Slot::Model(span) = slot {
                    edits.push(Edit::replace(*span, quoted.clone()));
                }
            }
        }
        if patch.include_usage && self.stream {
            self.ask_for_usage(&mut edits, &mut added);
        }
        if let Some(cap) = patch.output_cap {
            self.cap_output(cap, patch.output_cap_field, &mut edits, &mut added);
        }
        if !added.is_empty() {
            edits.push(Edit::insert(self.end, added));
        }
        if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        }
    }

    fn ask_for_usage(&self, edits: &mut Vec<Edit<'_>>, added: &mut String) {
        let mut present = false;
        for slot in &self.slots {
            match slot {
                Slot::NullOptions(span) => {
                    edits.push(Edit::replace(*span, r#"{"include_usage":true}"#));
                }
                Slot::IncludeUsage(span, false) => edits.push(Edit::replace(*span, "true")),
                Slot::IncludeUsage(_, true) => {}
                Slot::OptionsEnd(at, comma) => {
                    let member = r#","include_usage":true"#;
                    let member = if *comma { member } else { &member[1..] };
                    edits.push(Edit::insert(*at, member));
                }
                _ => continue,
            }
            present = true;
        }
        if !present {
            added.push_str(r#","stream_options":{"include_usage":true}"#);
        }
    }

    fn cap_output(&self, cap: u64, field: &str, edits: &mut Vec<Edit<'_>>, added: &mut String) {
        let mut null: Option<Span> = None;
        let mut limited = false;
        for slot in &self.slots {
            match slot {
                Slot::Limit(span, Some(limit)) => {
                    limited = true;
                    if *limit > cap {
                        edits.push(Edit::replace(*span, cap.to_string()));
                    }
                }
                Slot::Limit(span, None) => null = Some(*span),
                _ => {}
            }
        }
        if limited {
            return;
        }
        match null {
            Some(span) => edits.push(Edit::replace(span, cap.to_string())),
            None => {
                added.push(',');
                added.push_str(&quote(field));
                added.push(':');
                added.push_str(&cap.to_string());
            }
        }
    }
}

/// `text` as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
