//! What items are made of, as JSON.

use std::fmt::Write as _;

use crate::convert::node::quote_into;
use crate::usage::Usage;

/// A part of a message.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) refusal: bool,
    pub(super) text: String,
    pub(super) annotations: Vec<String>,
    pub(super) logprobs: String,
}

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) key: u32,
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) custom: bool,
    pub(super) arguments: String,
    pub(super) ended: bool,
}

impl Piece {
    pub(super) fn json(&self) -> String {
        let mut out = String::new();
        if self.refusal {
            out.push_str(r#"{"type":"refusal","refusal":"#);
            quote_into(&mut out, &self.text);
        } else {
            out.push_str(r#"{"type":"output_text","text":"#);
            quote_into(&mut out, &self.text);
            let annotations = self.annotations.join(",");
            let probs = &self.logprobs;
            let _ = write!(
                out,
                r#","annotations":[{annotations}],"logprobs":[{probs}]"#
            );
        }
        out.push('}');
        out
    }
}

impl Call {
    pub(super) fn json(&self, item: &str, status: &str) -> String {
        let (kind, member) = match self.custom {
            true => ("custom_tool_call", "input"),
            false => ("function_call", "arguments"),
        };
        let mut out = format!(r#"{{"id":"{item}","type":"{kind}","status":"{status}","call_id":"#);
        quote_into(&mut out, &self.id);
        if let Some(space) = &self.namespace {
            out.push_str(r#","namespace":"#);
            quote_into(&mut out, space);
        }
        out.push_str(r#","name":"#);
        quote_into(&mut out, &self.name);
        let _ = write!(out, r#","{member}":"#);
        quote_into(&mut out, &self.arguments);
        out.push('}');
        out
    }
}

/// `usage`: every count is there, what was not told is nothing.
pub(super) fn counts(usage: &Usage) -> String {
    let (input, output) = (usage.total_input().unwrap_or(0), usage.output.unwrap_or(0));
    let written = [usage.cache_write_5m, usage.cache_write_1h];
    let written = written.into_iter().flatten().fold(0, u64::saturating_add);
    let (cached, reasoning) = (
        usage.cached_input.unwrap_or(0),
        usage.reasoning.unwrap_or(0),
    );
    let total = input.saturating_add(output);
    format!(
        r#"{{"input_tokens":{input},"input_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":{written}}},"output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":{reasoning}}},"total_tokens":{total}}}"#
    )
}
