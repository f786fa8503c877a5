//! An attempt's request: only what stands on the allow-list, our own credential, the body as it was patched (SPEC FWD-12).

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request::Parts};
use switchboard_dialects::{Form, headers};
use switchboard_proto::inference::v1::Header;

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("switchboard/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
const ANY: HeaderValue = HeaderValue::from_static("*/*");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const CODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");
/// The loop guard between Switchboards.
const HOPS: HeaderName = HeaderName::from_static("x-switchboard-hops");

/// What goes into a request beside its body.
#[derive(Debug)]
pub(crate) struct Hygiene<'a> {
    /// What is done.
    pub(crate) method: Method,
    /// The caller's headers; what is not on the allow-list stays here.
    pub(crate) caller: &'a [Header],
    /// The body's type; JSON where none is given.
    pub(crate) content_type: Option<HeaderValue>,
    /// The form of the answer.
    pub(crate) form: Form,
    /// How many Switchboards the request went through, this one included.
    pub(crate) hops: u32,
    /// Trace context goes along.
    pub(crate) trace: bool,
}

/// Builds the request, all but its credential and its body.
pub(crate) fn build(url: Uri, hygiene: Hygiene<'_>) -> Parts {
    let (mut request, ()) = Request::new(()).into_parts();
    let has_body = hygiene.method == Method::POST;
    request.method = hygiene.method;
    request.uri = url;
    let out = &mut request.headers;
    for given in hygiene.caller {
        let name = HeaderName::from_bytes(given.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(given.value.clone());
        if let (Ok(name), Ok(value)) = (name, value)
            && headers::passes_to_upstream(&name)
        {
            out.append(name, value);
        }
    }
    out.insert(header::USER_AGENT, USER_AGENT);
    if has_body {
        out.insert(header::CONTENT_TYPE, hygiene.content_type.unwrap_or(JSON));
    }
    // What is passed on as it arrives must not wait in a coder.
    let (accept, codings) = match hygiene.form {
        Form::Events | Form::Array => (EVENTS, IDENTITY),
        Form::Bytes => (ANY, IDENTITY),
        Form::Whole => (JSON, CODINGS),
    };
    out.insert(header::ACCEPT, accept);
    out.insert(header::ACCEPT_ENCODING, codings);
    out.insert(HOPS, HeaderValue::from(hygiene.hops));
    if hygiene.trace {
        switchboard_common::grpc::inject_trace(out);
    }
    request
}

/// The headers of an upstream's answer that the caller gets.
pub(crate) fn for_caller(answer: &HeaderMap) -> impl Iterator<Item = Header> + '_ {
    let passes = answer
        .iter()
        .filter(|(name, _)| headers::passes_to_caller(name));
    passes.map(|(name, value)| Header {
        name: name.as_str().to_owned(),
        value: value.as_bytes().to_vec().into(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn nothing_of_the_caller_goes_out_but_what_is_allowed() {
        let canaries = [
            "authorization",
            "x-api-key",
            "x-goog-api-key",
            "api-key",
            "cookie",
            "x-internal-secret",
            "host",
            "x-forwarded-for",
            "openai-organization",
            "user-agent",
            "accept-encoding",
            "x-switchboard-hops",
            "openai-beta",
        ];
        let caller: Vec<_> = canaries
            .iter()
            .map(|name| Header {
                name: (*name).to_owned(),
                value: Bytes::from_static(b"canary"),
            })
            .collect();
        let hygiene = Hygiene {
            method: Method::POST,
            caller: &caller,
            content_type: None,
            form: Form::Events,
            hops: 2,
            trace: false,
        };
        let request = build(Uri::from_static("http://up/v1"), hygiene);
        let mut seen: Vec<_> = request
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or("")))
            .collect();
        seen.sort_unstable();
        let agent = format!("switchboard/{}", env!("CARGO_PKG_VERSION"));
        let expected = [
            ("accept", "text/event-stream, application/json"),
            ("accept-encoding", "identity"),
            ("content-type", "application/json"),
            ("openai-beta", "canary"),
            ("user-agent", agent.as_str()),
            ("x-switchboard-hops", "2"),
        ];
        assert_eq!(seen, expected);
    }
}
