//! What a parameter is called elsewhere: an account tells of its server's parameters in that server's dialect, and a caller hears of
//! them in its own (SPEC FWD-11).
//!
//! Which parameter becomes which is decided by the directions (`<caller>_to_<upstream>`); a test holds this table against them.

use super::Format;
use super::gemini::snake;
use crate::json::{Kind, member};

/// One parameter: every path at which it may stand in a request of a dialect, in the order of [`Format::ALL`].
type Row = [&'static [&'static str]; 4];

/// A member of Gemini's requests that holds parameters; an account names them without it.
const HOLDER: &str = "generationConfig";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Tools
    [&["tools", "functions"], &["tools"], &["tools"], &["tools"]],
    [&["tool_choice", "function_call"], &["tool_choice"], &["tool_choice"], &["toolConfig"]],
    [&["parallel_tool_calls"], &["parallel_tool_calls"], &["tool_choice.disable_parallel_tool_use"], &[]],
    // How much is said
    [&["max_completion_tokens", "max_tokens"], &["max_output_tokens"], &["max_tokens"], &["generationConfig.maxOutputTokens"]],
    [&["stop"], &[], &["stop_sequences"], &["generationConfig.stopSequences"]],
    [&["n"], &[], &[], &["generationConfig.candidateCount"]],
    [&["verbosity"], &["text.verbosity"], &[], &[]],
    // How much is thought
    [&["reasoning_effort"], &["reasoning.effort"], &["output_config.effort", "thinking"], &["generationConfig.thinkingConfig"]],
    [&[], &["reasoning.summary", "reasoning.generate_summary"], &["thinking.display"], &["generationConfig.thinkingConfig.includeThoughts"]],
    // In which form
    [&["response_format"], &["text.format"], &["output_config.format", "output_format"], &[
        "generationConfig.responseMimeType",
        "generationConfig.responseSchema",
        "generationConfig.responseJsonSchema",
        "generationConfig._responseJsonSchema",
        "generationConfig.responseFormat",
    ]],
    // How words are chosen
    [&["temperature"], &["temperature"], &["temperature"], &["generationConfig.temperature"]],
    [&["top_p"], &["top_p"], &["top_p"], &["generationConfig.topP"]],
    [&[], &[], &["top_k"], &["generationConfig.topK"]],
    [&["seed"], &[], &[], &["generationConfig.seed"]],
    [&["presence_penalty"], &[], &[], &["generationConfig.presencePenalty"]],
    [&["frequency_penalty"], &[], &[], &["generationConfig.frequencyPenalty"]],
    [&["logprobs", "top_logprobs"], &["top_logprobs", "include"], &[], &["generationConfig.responseLogprobs", "generationConfig.logprobs"]],
    // For whom
    [&["safety_identifier", "user"], &["safety_identifier", "user"], &["metadata.user_id"], &[]],
];

/// What the caller wrote that became the parameter `name` of the upstream's dialect: the paths that are in its body; `name`
/// itself where it is called the same.
pub(super) fn called_by_caller(
    (caller, upstream): (Format, Format),
    name: &str,
    body: &str,
) -> Vec<String> {
    let mut called = Vec::new();
    for row in ROWS {
        if row[upstream as usize].iter().any(|path| head(path) == name) {
            for path in row[caller as usize] {
                called.extend(found(body, path).filter(|path| !called.contains(path)));
            }
        }
    }
    if called.is_empty() {
        called.push(name.to_owned());
    }
    called
}

/// The name under which an account tells of what stands at a path.
fn head(path: &str) -> &str {
    let mut names = path.split('.');
    match (names.next(), names.next()) {
        (Some(HOLDER), Some(name)) => name,
        (first, _) => first.unwrap_or(path),
    }
}

/// A path as the caller wrote it, if something is there. Google takes two spellings of each name.
fn found(body: &str, path: &str) -> Option<String> {
    let (mut object, mut written) = (body, String::with_capacity(path.len()));
    for name in path.split('.') {
        let other = snake(name);
        let (name, value) = [name, &other]
            .into_iter()
            .find_map(|name| member(object, name).map(|value| (name, value)))?;
        if value.kind == Kind::Null {
            return None;
        }
        object = value.span.of(object);
        if !written.is_empty() {
            written.push('.');
        }
        written.push_str(name);
    }
    Some(written)
}
