//! A caller's rate limits as the response headers of its dialect (SPEC FLOW-5).
//!
//! One place, because whoever answers writes them: the scheduler on a refusal, the forwarder on everything after it.

use switchboard_proto::scheduler::v1::RateLimitState;

/// What is counted, as OpenAI names it.
const UNITS: [&str; 2] = ["requests", "tokens"];

/// The headers of OpenAI's dialects, names in lower case: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` as in
/// OpenAI's API reference, "Debugging requests". Of several limits of a unit the tightest one shows: the caller meets it first.
/// A unit without a limit has no headers.
#[must_use]
pub fn openai_headers(limits: &[RateLimitState]) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for unit in UNITS {
        let of_unit = limits.iter().filter(|state| state.unit == unit);
        let tightest = of_unit.min_by_key(|state| (state.remaining, state.limit));
        if let Some(state) = tightest {
            let name = |what| format!("x-ratelimit-{what}-{unit}");
            headers.push((name("limit"), state.limit.to_string()));
            headers.push((name("remaining"), state.remaining.to_string()));
            headers.push((name("reset"), go_duration(state.reset_ms)));
        }
    }
    headers
}

/// A time span as OpenAI's `x-ratelimit-reset-*` has it: `6ms`, `1s`, `6m0s`, `1h0m0s`.
fn go_duration(ms: u64) -> String {
    let (secs, rest) = (ms / 1_000, ms % 1_000);
    let seconds = match rest {
        0 => format!("{}s", secs % 60),
        _ => format!(
            "{}.{}s",
            secs % 60,
            format!("{rest:03}").trim_end_matches('0')
        ),
    };
    match (secs / 3_600, secs / 60 % 60) {
        (0, 0) if secs == 0 && ms > 0 => format!("{ms}ms"),
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
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
}
