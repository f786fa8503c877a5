//! What must change in a request before it goes to an upstream of the same dialect (SPEC FWD-1).

use bytes::Bytes;

use super::request::{GeminiRequest, Slot};
use crate::chat::quote;
use crate::dialect::Change;
use crate::json::{Edit, splice};

/// How a model's name begins where it is the name of a resource.
const RESOURCE: &str = "models/";

impl GeminiRequest {
    /// Applies `change` to the body that this request was read from. Without a change the body itself comes back. The
    /// model stands in the address; where the body repeats it, it changes there too.
    #[must_use]
    pub(super) fn patch(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        let mut edits: Vec<Edit<'_>> = Vec::new();
        let mut has_config = false;
        let cap = change.output_cap.filter(|_| self.call.generates());
        for slot in &self.slots {
            let edit = match (*slot, cap) {
                (Slot::Model(span), _) => {
                    let said = body.get(span.start + 1..span.end - 1).unwrap_or_default();
                    let prefix = match said.starts_with(RESOURCE.as_bytes()) {
                        true => RESOURCE,
                        false => "",
                    };
                    let name = format!("{prefix}{}", change.model);
                    (said != name.as_bytes()).then(|| Edit::replace(span, quote(&name)))
                }
                (_, None) => None,
                (Slot::NullConfig(span), Some(cap)) => {
                    has_config = true;
                    Some(Edit::replace(
                        span,
                        format!(r#"{{"maxOutputTokens":{cap}}}"#),
                    ))
                }
                (Slot::ConfigEnd(at, comma), Some(cap)) => {
                    has_config = true;
                    let comma = if comma { "," } else { "" };
                    Some(Edit::insert(
                        at,
                        format!(r#"{comma}"maxOutputTokens":{cap}"#),
                    ))
                }
                (Slot::Limit(span, limit), Some(cap)) => {
                    has_config = true;
                    let over = limit.is_none_or(|limit| limit > cap);
                    over.then(|| Edit::replace(span, cap.to_string()))
                }
            };
            edits.extend(edit);
        }
        if let Some(cap) = cap
            && !has_config
        {
            let member = format!(r#","generationConfig":{{"maxOutputTokens":{cap}}}"#);
            edits.push(Edit::insert(self.end, member));
        }
        if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        }
    }
}
