//! What ends an answer: why, and what was used; and what is cited.

use std::fmt::Write as _;

use crate::convert::node::quote_into;
use crate::convert::part::{Finish, Reason};
use crate::usage::Usage;

/// The word for a reason, the stop sequence, and the upstream's own word where ours says less.
pub(super) fn word(finish: Finish<'_>) -> (&'static str, String, String) {
    let (word, sequence) = match finish.reason {
        Reason::Stop | Reason::Other => ("end_turn", ""),
        Reason::StopSequence(sequence) => ("stop_sequence", sequence),
        Reason::Length | Reason::Cut => ("max_tokens", ""),
        Reason::ContextFull => ("model_context_window_exceeded", ""),
        Reason::ToolCalls => ("tool_use", ""),
        Reason::Filtered | Reason::Refused => ("refusal", ""),
        Reason::Paused => ("pause_turn", ""),
    };
    let raw = match finish.reason {
        Reason::Other | Reason::Cut | Reason::Filtered => finish.raw,
        _ => "",
    };
    (word, sequence.to_owned(), raw.to_owned())
}

/// `usage`: input without what came from caches or went into them.
pub(super) fn counts(usage: &Usage) -> String {
    let mut out = String::from("{");
    let written = [usage.cache_write_5m, usage.cache_write_1h];
    let written = written.into_iter().flatten().reduce(u64::saturating_add);
    let _ = write!(out, r#""input_tokens":{}"#, usage.input.unwrap_or(0));
    for (name, count) in [
        ("cache_read_input_tokens", usage.cached_input),
        ("cache_creation_input_tokens", written),
    ] {
        if let Some(count) = count {
            let _ = write!(out, r#","{name}":{count}"#);
        }
    }
    if let Some(long) = usage.cache_write_1h {
        let short = usage.cache_write_5m.unwrap_or(0);
        let _ = write!(
            out,
            r#","cache_creation":{{"ephemeral_5m_input_tokens":{short},"ephemeral_1h_input_tokens":{long}}}"#
        );
    }
    let _ = write!(out, r#","output_tokens":{}"#, usage.output.unwrap_or(0));
    if let Some(count) = usage.reasoning {
        let _ = write!(
            out,
            r#","output_tokens_details":{{"thinking_tokens":{count}}}"#
        );
    }
    out.push('}');
    out
}

/// A citation of a URL, as of a search of the web.
pub(super) fn citation(url: &str, title: &str) -> String {
    let mut out = String::from(
        r#"{"type":"web_search_result_location","cited_text":"","encrypted_index":"","url":"#,
    );
    quote_into(&mut out, url);
    out.push_str(r#","title":"#);
    if title.is_empty() {
        out.push_str("null");
    } else {
        quote_into(&mut out, title);
    }
    out.push('}');
    out
}
