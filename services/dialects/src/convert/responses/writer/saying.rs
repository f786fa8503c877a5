//! What an answer takes over from its request.

use std::fmt::Write as _;

use crate::convert::node::one_line;
use crate::convert::responses::Names;

/// What an answer takes over from its request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saying {
    /// Members of the response, each with a comma before it.
    pub(super) echo: String,
    pub(super) names: Names,
}

/// Members that a response has whatever was asked, and what they say by default.
const DEFAULTS: [(&str, &str); 16] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("prompt_cache_key", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("safety_identifier", "null"),
    ("temperature", "null"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "null"),
    ("truncation", r#""disabled""#),
    ("user", "null"),
];

impl Saying {
    /// Of a request with these members to be repeated and these names of tools.
    pub(crate) fn new(echo: &[(&'static str, &str)], names: Names) -> Self {
        let mut out = String::new();
        for (name, json) in echo {
            // writing to a string cannot fail
            let _ = write!(out, r#","{name}":{}"#, one_line(json));
        }
        for (name, json) in DEFAULTS {
            if !echo.iter().any(|(echoed, _)| *echoed == name) {
                let _ = write!(out, r#","{name}":{json}"#);
            }
        }
        Self { echo: out, names }
    }

    /// Names, as an upstream knows them, of tools of free text.
    pub(crate) fn custom(&self) -> Vec<String> {
        let custom = self.names.all().iter().filter(|named| named.custom);
        custom.map(|named| named.flat.clone()).collect()
    }
}
