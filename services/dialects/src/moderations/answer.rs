//! A moderations answer.

use bytes::Bytes;

use crate::dialect::WholeAnswer;
use crate::error::UpstreamError;
use crate::json::Kind;
use crate::usage::UsageReport;
use crate::whole::{Object, malformed, member};

/// Checks an answer: results that each say whether something was flagged.
pub(super) fn read(
    body: &Bytes,
    public_model: Option<&str>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    const MISSING: &str = "the upstream's answer has no results that say what was flagged";
    let object = Object::read(body, &["results", "usage"])?;
    let results = object.list("results", MISSING)?;
    let judged = |result: &_| {
        member(object.text, *result, "flagged").is_some_and(|flagged| flagged.kind == Kind::Bool)
    };
    if !results.iter().all(judged) {
        return Err(malformed(MISSING));
    }
    let usage = object.get("usage");
    Ok(WholeAnswer {
        body: object.renamed(body, public_model),
        usage: usage.and_then(|value| UsageReport::from_openai(object.text, value)),
        ..WholeAnswer::default()
    })
}
