//! Dialect `gemini.generate`: POST /v1beta/models/{model}:generateContent and its relatives (PROTOCOLS §8).
//!
//! What is asked stands in the path ([`Call`]), not in the body. [`GeminiRequest`] looks into a body and patches it for an
//! upstream of the same dialect; its stream carries a streamed answer, as events or as elements of an array. None of them
//! re-serialises what it passes on.
//!
//! Names are Google's JSON names or those of its proto (`maxOutputTokens`, `max_output_tokens`): its servers take both.

mod answer;
mod asked;
mod chunk;
mod media;
mod patch;
mod request;
mod stream;

pub use request::{Call, GeminiRequest};

/// Whether a stream is asked for as events: `alt=sse` (also as `$alt`) in the path's query. Without it Google streams a JSON
/// array [ai.google.dev, "Streaming"; cloud.google.com, "System parameters"].
#[must_use]
pub fn asks_for_events(query: &str) -> bool {
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        matches!(name, "alt" | "$alt" | "%24alt") && value.eq_ignore_ascii_case("sse")
    })
}

#[cfg(test)]
mod tests {
    use super::asks_for_events;

    #[test]
    fn events_are_asked_for_in_the_query() {
        for query in ["alt=sse", "a=b&alt=SSE", "$alt=sse", "%24alt=sse&x"] {
            assert!(asks_for_events(query), "{query}");
        }
        for query in ["", "alt=json", "alt", "salt=sse", "sse"] {
            assert!(!asks_for_events(query), "{query}");
        }
    }
}
