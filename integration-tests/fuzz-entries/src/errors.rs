//! Upstreams' errors: read from an answer, classified, rendered; vendors' codes that an account declares.
//!
//! An input is an answer (status, a header a line, an empty line, body), a rule's path, and a pattern.

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_dialects::{
    Class, UpstreamError,
    error::{MAX_FIELD, MAX_RETRY_AFTER, Rule, Rules, Saying, Shape, Wanted},
};

use crate::{
    input::sections,
    json::{assert_json, is_json},
    sse::assert_well_formed,
};

const SHAPES: [Shape; 3] = [Shape::OpenAi, Shape::Anthropic, Shape::Gemini];

pub(crate) fn errors(input: &[u8]) {
    let [answer, path, wanted] = sections(input);
    let (status, headers, body) = parts(answer);
    let error = UpstreamError::from_http(status, &headers, &body, SystemTime::UNIX_EPOCH);
    assert_eq!(error.status, Some(status));
    assert!(error.body.is_none() || is_json(&body));
    assert_renders(&error);
    assert_renders(&UpstreamError::declared(Class::Overloaded, &body));
    if let Ok(text) = std::str::from_utf8(&body) {
        assert_renders(&UpstreamError::from_flat(text));
    }
    let path = String::from_utf8_lossy(path);
    let wanted = String::from_utf8_lossy(wanted);
    rules(&path, &wanted, &body);
    patterns(&wanted, &path);
}

/// Status, headers and body; what is no header is left out.
fn parts(answer: &[u8]) -> (u16, HeaderMap, Bytes) {
    let mut headers = HeaderMap::new();
    let mut status = None;
    let mut rest = answer;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        let text = std::str::from_utf8(line).unwrap_or("");
        status = status.or_else(|| text.parse().ok().filter(|n| (100..1000).contains(n)));
        if let Some((name, value)) = text.split_once(": ")
            && let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(value),
            )
        {
            headers.append(name, value);
        }
    }
    (status.unwrap_or(500), headers, Bytes::copy_from_slice(rest))
}

/// A failure is bounded, and is either the caller's, said in every vendor's form, or told to nobody.
pub(crate) fn assert_renders(error: &UpstreamError) {
    for text in [&error.message, &error.code, &error.kind, &error.param] {
        assert!(text.as_ref().is_none_or(|text| text.len() <= MAX_FIELD));
    }
    assert!(
        error
            .retry_after
            .is_none_or(|delay| delay <= MAX_RETRY_AFTER)
    );
    for shape in SHAPES {
        let rendered = error.for_caller(shape);
        assert_eq!(rendered.is_none(), error.class.retryable());
        let (status, code) = error.class.wire();
        assert!((400..600).contains(&status));
        if let Some(rendered) = &rendered {
            assert!((400..500).contains(&rendered.status));
            assert_json(&rendered.body(shape, "req_1"), "an error");
        }
        let saying = Saying {
            code,
            status,
            message: error.message.as_deref().unwrap_or(""),
            param: error.param.as_deref(),
            request_id: error.code.as_deref(),
            retry_after: error.retry_after,
        };
        let body = shape.body(&saying);
        assert_json(&body, "an error");
        let events = assert_well_formed(&shape.event(&saying));
        assert!(events.len() == 1 && events[0].data == body);
    }
}

/// A rule that applies makes a failure of its class, whatever the body is.
fn rules(path: &str, wanted: &str, body: &Bytes) {
    let wanted = [
        Wanted::Equals(wanted.to_owned()),
        Wanted::Matches(wanted.to_owned()),
        Wanted::Matches("*".to_owned()),
    ];
    let any = wanted.map(|wanted| {
        let rule = Rule::new(path, wanted, Class::Quota)?;
        let rules = Rules(vec![rule]);
        let class = rules.class_of(body);
        let failure = rules.failure_in(body);
        assert_eq!(failure.as_ref().map(|failure| failure.class), class);
        if let Some(failure) = failure {
            assert_renders(&failure);
        }
        class
    });
    if any[0].is_some() || any[1].is_some() {
        assert!(any[2].is_some(), "`*` is anything");
    }
}

/// Patterns, against their definition.
fn patterns(pattern: &str, text: &str) {
    if pattern.len() > 64 || text.len() > 64 {
        return;
    }
    let body = serde_json::Value::from(text).to_string();
    let rule = Rule::new("$", Wanted::Matches(pattern.to_owned()), Class::Quota);
    let rules = Rules(vec![rule.expect("the path of the whole")]);
    let said = rules.class_of(body.as_bytes()).is_some();
    assert_eq!(said, describes(pattern, text), "{pattern:?} {text:?}");
}

/// Whether `text` is what `pattern` describes, byte by byte: `reach[n]` says that the first `n` bytes are.
fn describes(pattern: &str, text: &str) -> bool {
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    for wanted in pattern.bytes() {
        if wanted == b'*' {
            let first = reach.iter().position(|reached| *reached);
            let first = first.unwrap_or(reach.len());
            reach[first..].fill(true);
        } else {
            for (at, byte) in text.bytes().enumerate().rev() {
                reach[at + 1] = reach[at] && byte == wanted;
            }
            reach[0] = false;
        }
    }
    reach[text.len()]
}
