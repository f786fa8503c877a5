//! Where Gemini's text comes from, and how probable it was.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::convert::node::quote_into;
use crate::convert::part::{Part, Put};
use crate::json::Value;

/// What was told of a candidate's sources so far.
#[derive(Debug)]
pub(super) struct Cited {
    /// Its text is ASCII so far: bytes, in which Gemini counts, are characters.
    pub(super) ascii: bool,
    /// What was told of, as it was said: servers say it once, or again in each chunk with all that is new.
    told: HashSet<String>,
}

/// Beyond so many it is not known again.
const MOST_TOLD: usize = 256;

impl Default for Cited {
    fn default() -> Self {
        Self {
            ascii: true,
            told: HashSet::new(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Grounding<'a> {
    #[serde(borrow)]
    grounding_chunks: Vec<Chunk<'a>>,
    #[serde(borrow)]
    grounding_supports: Vec<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Chunk<'a> {
    #[serde(borrow)]
    web: Web<'a>,
    #[serde(borrow)]
    retrieved_context: Web<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Web<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow)]
    title: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Support {
    segment: Segment,
    grounding_chunk_indices: Vec<usize>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Segment {
    start_index: u64,
    end_index: u64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Sources<'a> {
    /// Google AI's name.
    #[serde(borrow)]
    citation_sources: Vec<&'a RawValue>,
    /// Vertex AI's.
    #[serde(borrow)]
    citations: Vec<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Source<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow)]
    title: Cow<'a, str>,
    start_index: u64,
    end_index: Option<u64>,
}

impl Cited {
    fn is_new(&mut self, said: &str) -> bool {
        if self.told.contains(said) {
            return false;
        }
        if self.told.len() < MOST_TOLD {
            self.told.insert(said.to_owned());
        }
        true
    }

    /// What a search found: each text that is supported by it, or all that was found where no text is.
    pub(super) fn grounding(&mut self, data: &str, value: Value, choice: u32, put: &mut Put<'_>) {
        let raw = value.span.of(data);
        // It explains the answer and is none: what cannot be read of it is left out.
        let Ok(read) = serde_json::from_str::<Grounding<'_>>(raw) else {
            return;
        };
        for raw in read.grounding_supports {
            if !self.is_new(raw.get()) {
                continue;
            }
            let Ok(support) = serde_json::from_str::<Support>(raw.get()) else {
                continue;
            };
            let span = (support.segment.start_index, support.segment.end_index);
            for index in support.grounding_chunk_indices {
                let Some(chunk) = read.grounding_chunks.get(index) else {
                    continue;
                };
                let web = if chunk.web.uri.is_empty() {
                    &chunk.retrieved_context
                } else {
                    &chunk.web
                };
                let citation = Part::Citation {
                    url: &web.uri,
                    title: &web.title,
                    span: self.ascii.then_some(span),
                    raw: raw.get(),
                };
                put(choice, citation);
            }
        }
    }

    /// What was recited.
    pub(super) fn sources(&mut self, data: &str, value: Value, choice: u32, put: &mut Put<'_>) {
        let Ok(read) = serde_json::from_str::<Sources<'_>>(value.span.of(data)) else {
            return;
        };
        for raw in read.citation_sources.iter().chain(&read.citations) {
            if !self.is_new(raw.get()) {
                continue;
            }
            let Ok(source) = serde_json::from_str::<Source<'_>>(raw.get()) else {
                continue;
            };
            let span = source.end_index.map(|end| (source.start_index, end));
            let citation = Part::Citation {
                url: &source.uri,
                title: &source.title,
                span: span.filter(|_| self.ascii),
                raw: raw.get(),
            };
            put(choice, citation);
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Probabilities<'a> {
    #[serde(borrow)]
    chosen_candidates: Vec<Token<'a>>,
    #[serde(borrow)]
    top_candidates: Vec<Top<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Top<'a> {
    #[serde(borrow)]
    candidates: Vec<Token<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token<'a> {
    #[serde(borrow, default)]
    token: Cow<'a, str>,
    #[serde(borrow)]
    log_probability: &'a RawValue,
}

impl Token<'_> {
    /// Without the brace that ends it.
    fn say(&self, out: &mut String) {
        out.push_str(r#"{"token":"#);
        quote_into(out, &self.token);
        let bytes = self.token.as_bytes();
        // writing to a string cannot fail
        let _ = write!(
            out,
            r#","logprob":{},"bytes":{bytes:?}"#,
            self.log_probability.get()
        );
    }
}

/// Log probabilities as chat says them; `None` where there are none.
pub(super) fn logprobs(data: &str, value: Value) -> Option<String> {
    let read: Probabilities<'_> = serde_json::from_str(value.span.of(data)).ok()?;
    let mut out = String::new();
    for (index, token) in read.chosen_candidates.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        token.say(&mut out);
        out.push_str(r#","top_logprobs":["#);
        let top = read.top_candidates.get(index);
        for (index, token) in top.iter().flat_map(|top| &top.candidates).enumerate() {
            if index > 0 {
                out.push(',');
            }
            token.say(&mut out);
            out.push('}');
        }
        out.push_str("]}");
    }
    (!out.is_empty()).then_some(out)
}
