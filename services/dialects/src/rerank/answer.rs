//! A rerank answer.

use bytes::Bytes;

use crate::dialect::WholeAnswer;
use crate::error::UpstreamError;
use crate::json::{Kind, Value, whole_number};
use crate::usage::UsageReport;
use crate::whole::{Object, malformed, member};

/// Checks an answer: results that each have the place of a document and its score.
pub(super) fn read(
    body: &Bytes,
    documents: u64,
    public_model: Option<&str>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    const MISSING: &str = "the upstream's answer has no results with an index and a score";
    let object = Object::read(body, &["results", "usage", "meta"])?;
    let text = object.text;
    let results = object.list("results", MISSING)?;
    let ranked = |result: &Value| {
        let index = member(text, *result, "index").and_then(|v| whole_number(v.span.of(text)));
        let score = member(text, *result, "relevance_score");
        index.is_some_and(|index| index < documents)
            && score.is_some_and(|score| score.kind == Kind::Number)
    };
    if !results.iter().all(ranked) {
        return Err(malformed(MISSING));
    }
    Ok(WholeAnswer {
        body: object.renamed(body, public_model),
        usage: usage(&object),
        ..WholeAnswer::default()
    })
}

/// Jina and vLLM have `usage`; Cohere has `meta`, with what it bills and what it counted.
fn usage(object: &Object<'_>) -> Option<UsageReport> {
    let text = object.text;
    if let Some(usage) = object.get("usage") {
        return UsageReport::from_input(text, usage, usage);
    }
    let meta = object.get("meta")?;
    let of = |name| {
        member(text, meta, name).and_then(|counts| UsageReport::from_input(text, counts, meta))
    };
    of("tokens").or_else(|| of("billed_units"))
}
