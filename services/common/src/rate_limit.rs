//! A caller's rate limits as the response headers of its dialect (SPEC FLOW-5).
//!
//! One place, because whoever answers writes them: the scheduler on a refusal, the forwarder on everything after it.

use switchboard_proto::{common::v1::Dialect, scheduler::v1::RateLimitState};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// What is counted, as OpenAI and Anthropic name it.
const UNITS: [&str; 2] = ["requests", "tokens"];

/// The headers' names for each of [`UNITS`]: limit, remaining, reset.
type Names = [[&'static str; 3]; 2];

const OPENAI: Names = [
    [
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ],
    [
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ],
];

const ANTHROPIC: Names = [
    [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ],
    [
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ],
];

/// The headers of the dialect that the caller speaks; `now_ms` is Unix time in milliseconds. Gemini's has none.
#[must_use]
pub fn headers(dialect: Dialect, limits: &[RateLimitState], now_ms: i64) -> Vec<(String, String)> {
    match dialect {
        Dialect::AnthropicMessages => anthropic_headers(limits, now_ms),
        Dialect::GeminiGenerate => Vec::new(),
        _ => openai_headers(limits),
    }
}

/// Whether a header of this name, in lower case, may be one of those that [`headers`] writes.
#[must_use]
pub fn is_limit_header(name: &str) -> bool {
    name.starts_with("x-ratelimit-") || name.starts_with("anthropic-ratelimit-")
}

/// The headers of Anthropic's dialect, names in lower case: `anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}`
/// as in Anthropic's API reference, "Rate limits"; the reset is a time in RFC 3339, whole seconds rounded up. It has the same
/// for `input-tokens` and `output-tokens`, which are not limited apart here. Of several limits of a unit the tightest shows.
#[must_use]
pub fn anthropic_headers(limits: &[RateLimitState], now_ms: i64) -> Vec<(String, String)> {
    written(limits, &ANTHROPIC, |reset_ms| {
        rfc3339(now_ms.saturating_add_unsigned(reset_ms))
    })
}

/// For each unit that has a limit, the one that is met first, under the unit's names.
fn written(
    limits: &[RateLimitState],
    names: &Names,
    reset: impl Fn(u64) -> Option<String>,
) -> Vec<(String, String)> {
    let mut headers = Vec::with_capacity(names.as_flattened().len());
    for (unit, [limit, remaining, resets]) in UNITS.into_iter().zip(names) {
        let of_unit = limits.iter().filter(|state| state.unit == unit);
        let tightest = of_unit.min_by_key(|state| (state.remaining, state.limit));
        let Some(state) = tightest else {
            continue;
        };
        headers.push((String::from(*limit), state.limit.to_string()));
        headers.push((String::from(*remaining), state.remaining.to_string()));
        headers.extend(reset(state.reset_ms).map(|reset| (String::from(*resets), reset)));
    }
    headers
}

/// Unix milliseconds as a UTC time in whole seconds, rounded up; `None` beyond the year 9999.
fn rfc3339(unix_ms: i64) -> Option<String> {
    let secs = unix_ms.div_euclid(1_000) + i64::from(unix_ms.rem_euclid(1_000) > 0);
    let at = OffsetDateTime::from_unix_timestamp(secs).ok()?;
    at.format(&Rfc3339).ok()
}

/// The headers of OpenAI's dialects, names in lower case: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` as in
/// OpenAI's API reference, "Debugging requests". Of several limits of a unit the tightest one shows: the caller meets it first.
/// A unit without a limit has no headers.
#[must_use]
pub fn openai_headers(limits: &[RateLimitState]) -> Vec<(String, String)> {
    written(limits, &OPENAI, |reset_ms| Some(go_duration(reset_ms)))
}

/// A time span as OpenAI's `x-ratelimit-reset-*` has it: `6ms`, `1s`, `6m0s`, `1h0m0s`.
fn go_duration(ms: u64) -> String {
    let (secs, rest) = (ms / 1_000, ms % 1_000);
    let (hours, minutes) = (secs / 3_600, secs / 60 % 60);
    if secs == 0 && ms > 0 {
        return ms.to_string() + "ms";
    }
    let mut text = String::with_capacity(16);
    for (count, unit) in [(hours, "h"), (minutes, "m")] {
        if count > 0 || !text.is_empty() {
            text += &count.to_string();
            text += unit;
        }
    }
    text += &(secs % 60).to_string();
    if rest > 0 {
        // A leading one keeps the zeros.
        text += ".";
        let digits = (1_000 + rest).to_string();
        text += digits.get(1..).unwrap_or_default().trim_end_matches('0');
    }
    text + "s"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_written_as_openai_writes_it() {
        for (ms, text) in [
            (0, "0s"),
            (6, "6ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_250, "1.25s"),
            (360_000, "6m0s"),
            (3_600_000, "1h0m0s"),
            (3_661_001, "1h1m1.001s"),
        ] {
            assert_eq!(go_duration(ms), text);
        }
    }

    #[test]
    fn the_tightest_limit_of_a_unit_shows() {
        let state = |level: &str, remaining| RateLimitState {
            unit: "requests".to_owned(),
            level: level.to_owned(),
            limit: 60,
            remaining,
            reset_ms: 1_500,
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            openai_headers(&[state("user", 9), state("key", 4)]),
            [
                pair("x-ratelimit-limit-requests", "60"),
                pair("x-ratelimit-remaining-requests", "4"),
                pair("x-ratelimit-reset-requests", "1.5s"),
            ]
        );
        assert_eq!(openai_headers(&[]), []);
    }

    #[test]
    fn each_dialect_has_its_own_names() {
        let state = |unit: &str, remaining| RateLimitState {
            unit: unit.to_owned(),
            level: "key".to_owned(),
            limit: 60,
            remaining,
            reset_ms: 1_500,
        };
        let limits = [
            state("tokens", 7),
            state("requests", 9),
            state("requests", 4),
        ];
        let of = |dialect| headers(dialect, &limits, 1_796_000_000_000);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            of(Dialect::AnthropicMessages),
            [
                pair("anthropic-ratelimit-requests-limit", "60"),
                pair("anthropic-ratelimit-requests-remaining", "4"),
                // 1.5 seconds later, rounded up.
                pair("anthropic-ratelimit-requests-reset", "2026-11-30T00:53:22Z"),
                pair("anthropic-ratelimit-tokens-limit", "60"),
                pair("anthropic-ratelimit-tokens-remaining", "7"),
                pair("anthropic-ratelimit-tokens-reset", "2026-11-30T00:53:22Z"),
            ]
        );
        assert_eq!(of(Dialect::GeminiGenerate), []);
        assert_eq!(of(Dialect::OpenaiChat), openai_headers(&limits));
        assert_eq!(of(Dialect::OpenaiEmbeddings), openai_headers(&limits));
        for dialect in [Dialect::AnthropicMessages, Dialect::OpenaiResponses] {
            assert!(of(dialect).iter().all(|(name, _)| is_limit_header(name)));
        }
        assert!(!is_limit_header("set-cookie"));
    }
}
