//! `usage` in chat's shape (PROTOCOLS §3.2).

use std::fmt::Write as _;

use crate::usage::Usage;

/// `usage`: what was not told is left out of the details.
pub(super) fn counts(usage: &Usage) -> String {
    let (input, output) = (usage.total_input().unwrap_or(0), usage.output.unwrap_or(0));
    let total = input.saturating_add(output);
    let mut out =
        format!(r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}"#);
    let written = [usage.cache_write_5m, usage.cache_write_1h];
    let written = written.into_iter().flatten().reduce(u64::saturating_add);
    let prompt = [
        ("cached_tokens", usage.cached_input),
        ("cache_write_tokens", written),
        ("audio_tokens", usage.input_audio),
        ("image_tokens", usage.input_image),
    ];
    details(&mut out, "prompt_tokens_details", &prompt);
    let completion = [
        ("reasoning_tokens", usage.reasoning),
        ("audio_tokens", usage.output_audio),
        ("image_tokens", usage.output_image),
    ];
    details(&mut out, "completion_tokens_details", &completion);
    out.push('}');
    out
}

fn details(out: &mut String, name: &str, counts: &[(&str, Option<u64>)]) {
    let told = counts
        .iter()
        .filter_map(|(name, count)| Some(format!(r#""{name}":{}"#, (*count)?)));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        // writing to a string cannot fail
        let _ = write!(out, r#","{name}":{{{}}}"#, told.join(","));
    }
}
