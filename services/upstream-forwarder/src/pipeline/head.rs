//! The head of an answer: status and the headers that callers may rely on (SPEC FLOW-5, CON-6, FWD-7).

use bytes::Bytes;
use http::HeaderMap;
use switchboard_proto::{
    inference::v1::{Header, ResponseHead},
    scheduler::v1::RateLimitState,
};

use super::{Course, admit::Request};
use crate::upstream::for_caller;

/// The head of a whole answer.
pub(super) fn of_answer(
    request: &Request,
    course: &Course,
    status: u16,
    upstream: Option<&HeaderMap>,
) -> ResponseHead {
    let mut headers = vec![fixed("content-type", "application/json")];
    headers.extend(common(request, &course.rate_limits, course, upstream));
    ResponseHead {
        status: u32::from(status),
        headers,
        event_stream: false,
    }
}

/// The head of an event stream.
pub(super) fn of_stream(
    request: &Request,
    limits: &[RateLimitState],
    course: Option<(&Course, &HeaderMap)>,
) -> ResponseHead {
    let mut headers = vec![
        fixed("content-type", "text/event-stream"),
        fixed("cache-control", "no-cache"),
        fixed("x-accel-buffering", "no"),
    ];
    match course {
        Some((course, upstream)) => {
            headers.extend(common(request, limits, course, Some(upstream)));
        }
        None => headers.push(named(request)),
    }
    ResponseHead {
        status: 200,
        headers,
        event_stream: true,
    }
}

fn common(
    request: &Request,
    limits: &[RateLimitState],
    course: &Course,
    upstream: Option<&HeaderMap>,
) -> Vec<Header> {
    let mut headers = vec![named(request)];
    let cap = course.live.story(|story| story.output_cap);
    if cap > 0 {
        headers.push(header("x-switchboard-output-capped", &cap.to_string()));
    }
    for unit in ["requests", "tokens"] {
        // The tightest one is what the caller will meet first.
        let of_unit = limits.iter().filter(|state| state.unit == unit);
        let tightest = of_unit.min_by_key(|state| (state.remaining, state.limit));
        if let Some(state) = tightest {
            let name = |what| format!("x-ratelimit-{what}-{unit}");
            headers.push(header(&name("limit"), &state.limit.to_string()));
            headers.push(header(&name("remaining"), &state.remaining.to_string()));
            headers.push(header(&name("reset"), &go_duration(state.reset_ms)));
        }
    }
    headers.extend(upstream.into_iter().flat_map(for_caller));
    headers
}

fn named(request: &Request) -> Header {
    header("x-switchboard-model", &request.resolved.public_name)
}

fn fixed(name: &'static str, value: &'static str) -> Header {
    Header {
        name: name.to_owned(),
        value: Bytes::from_static(value.as_bytes()),
    }
}

/// A header; what HTTP does not allow in a value is written as `?`.
pub(super) fn header(name: &str, value: &str) -> Header {
    let clean: Vec<u8> = value
        .bytes()
        .map(|byte| {
            if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
                byte
            } else {
                b'?'
            }
        })
        .collect();
    Header {
        name: name.to_owned(),
        value: clean.into(),
    }
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
    fn a_value_never_breaks_a_header() {
        assert_eq!(header("a", "x\r\ny\u{7f}").value, "x??y?");
    }
}
