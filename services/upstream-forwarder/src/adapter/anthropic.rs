//! Anthropic: every request names the version of the API that it was written for (PROTOCOLS §7.1).

use http::{HeaderName, HeaderValue};

use super::{Adapter, Draft, Unusable, carry_credential};

const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// For callers who name none: the version that takes sampling parameters.
const OLDEST: HeaderValue = HeaderValue::from_static("2023-06-01");

#[derive(Debug)]
pub(super) struct Anthropic;

impl Adapter for Anthropic {
    fn dress(&self, draft: &mut Draft<'_>) -> Result<(), Unusable> {
        draft.headers.entry(VERSION).or_insert(OLDEST);
        carry_credential(draft)
    }
}
