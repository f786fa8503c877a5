//! The head of an answer: status and the headers that callers may rely on (SPEC FLOW-5, CON-6, FWD-7).

use bytes::Bytes;
use http::HeaderMap;
use switchboard_dialects::Form;
use switchboard_proto::{
    inference::v1::{Header, ResponseHead},
    scheduler::v1::RateLimitState,
};

use super::{Course, admit::Request, limits};
use crate::upstream::for_caller;

/// What most answers are.
pub(super) const JSON: &str = "application/json";

/// The head of a whole answer.
pub(super) fn of_answer(
    request: &Request,
    course: &Course,
    status: u16,
    content_type: &str,
    upstream: Option<&HeaderMap>,
) -> ResponseHead {
    let mut headers = vec![header("content-type", content_type)];
    headers.extend(common(request, &course.rate_limits, course, upstream));
    ResponseHead {
        status: u32::from(status),
        headers,
        event_stream: false,
    }
}

/// The head of an answer that goes out piece by piece.
pub(super) fn of_stream(
    request: &Request,
    rates: &[RateLimitState],
    course: Option<(&Course, &HeaderMap)>,
) -> ResponseHead {
    let kind = match request.asked.form() {
        Form::Events => "text/event-stream",
        Form::Whole | Form::Array => JSON,
        Form::Bytes => course
            .and_then(|(_, upstream)| upstream.get(http::header::CONTENT_TYPE)?.to_str().ok())
            .unwrap_or("application/octet-stream"),
    };
    let mut headers = vec![
        header("content-type", kind),
        fixed("cache-control", "no-cache"),
        fixed("x-accel-buffering", "no"),
    ];
    match course {
        Some((course, upstream)) => {
            headers.extend(common(request, rates, course, Some(upstream)));
        }
        None => headers.push(named(request)),
    }
    ResponseHead {
        status: 200,
        headers,
        event_stream: request.asked.form() == Form::Events,
    }
}

fn common(
    request: &Request,
    rates: &[RateLimitState],
    course: &Course,
    upstream: Option<&HeaderMap>,
) -> Vec<Header> {
    let mut headers = vec![named(request)];
    let cap = course.live.story(|story| story.output_cap);
    if cap > 0 {
        headers.push(header("x-switchboard-output-capped", &cap.to_string()));
    }
    if !course.dropped.is_empty() {
        headers.push(header(
            "x-switchboard-dropped-params",
            &named_briefly(&course.dropped),
        ));
    }
    headers.extend(limits::headers(course, rates));
    headers.extend(upstream.into_iter().flat_map(for_caller));
    headers
}

/// Names of parameters in a header's room: they are the caller's own and may be anything.
fn named_briefly(names: &[String]) -> String {
    let brief = |name: &String| {
        name.chars()
            .filter(|c| *c != ',')
            .take(64)
            .collect::<String>()
    };
    let told: Vec<String> = names.iter().take(32).map(brief).collect();
    told.join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_never_breaks_a_header() {
        assert_eq!(header("a", "x\r\ny\u{7f}").value, "x??y?");
    }
}
