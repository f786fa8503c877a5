//! What must change in a request before it goes to an upstream of the same dialect (SPEC FWD-1).

use bytes::Bytes;

use super::request::{MessagesRequest, Slot};
use crate::chat::quote;
use crate::dialect::Change;
use crate::json::{Edit, splice};

/// The smallest thinking budget that there is [Anthropic's API reference].
const LEAST_BUDGET: u64 = 1_024;

impl MessagesRequest {
    /// Applies `change` to the body that this request was read from. Without a change the body itself comes back.
    ///
    /// A cap lowers a larger `max_tokens`. A thinking budget that no longer fits below it is lowered along with it where one
    /// still fits; otherwise the upstream says that it does not.
    #[must_use]
    pub(super) fn patch(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        let mut edits: Vec<Edit<'_>> = Vec::new();
        let cap = change.output_cap.unwrap_or(u64::MAX);
        for slot in &self.slots {
            match *slot {
                Slot::Model(span) if self.model != change.model => {
                    edits.push(Edit::replace(span, quote(change.model)));
                }
                Slot::MaxTokens(span, limit) if limit > cap => {
                    edits.push(Edit::replace(span, cap.to_string()));
                }
                Slot::Budget(span, budget) if budget >= cap && cap > LEAST_BUDGET => {
                    edits.push(Edit::replace(span, (cap - 1).to_string()));
                }
                _ => {}
            }
        }
        if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        }
    }
}
