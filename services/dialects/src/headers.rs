//! Which headers pass (SPEC FWD-12, CASES A28, A29, D3): allow-lists in both directions, so that what nobody thought of stays out.
//!
//! Never listed, thus never passed: hop-by-hop headers, `host`, `content-length`, cookies, credentials in any of their
//! five places, `forwarded` and its relatives, `openai-organization` and `openai-project` (a tenant's own on a shared
//! account, or the account's own on the way back), `x-ratelimit-*` (an account's numbers), `idempotency-key` (ours to
//! honour), redirects, upstream request ids. `content-type`, `accept`, `accept-encoding`, `user-agent`, the credential and
//! `retry-after` are set by whoever sends, not copied.

use http::header::{HeaderMap, HeaderName};

/// Request headers that reach an upstream of the caller's own dialect.
const REQUEST: &[&str] = &["anthropic-beta", "anthropic-version", "openai-beta"];

/// Response headers that reach the caller.
const RESPONSE: &[&str] = &["openai-processing-ms", "openai-version"];

/// Longest header value that passes, in bytes.
const MAX_VALUE: usize = 4096;

/// Whether a request header of the caller passes to the upstream.
#[must_use]
pub fn passes_to_upstream(name: &HeaderName) -> bool {
    REQUEST.contains(&name.as_str())
}

/// Whether a response header of the upstream passes to the caller.
#[must_use]
pub fn passes_to_caller(name: &HeaderName) -> bool {
    RESPONSE.contains(&name.as_str())
}

/// The headers of a caller's request that pass to the upstream.
#[must_use]
pub fn to_upstream(headers: &HeaderMap) -> HeaderMap {
    select(headers, passes_to_upstream)
}

/// The headers of an upstream's answer that pass to the caller.
#[must_use]
pub fn to_caller(headers: &HeaderMap) -> HeaderMap {
    select(headers, passes_to_caller)
}

fn select(headers: &HeaderMap, passes: fn(&HeaderName) -> bool) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in headers {
        if passes(name) && value.len() <= MAX_VALUE {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn map(names: &[&'static str]) -> HeaderMap {
        names
            .iter()
            .map(|name| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static("canary"),
                )
            })
            .collect()
    }

    #[test]
    fn no_credential_and_no_unknown_header_goes_out() {
        let out = to_upstream(&map(&[
            "authorization",
            "x-api-key",
            "api-key",
            "x-goog-api-key",
            "x-litellm-api-key",
            "cookie",
            "x-internal-secret",
            "host",
            "connection",
            "transfer-encoding",
            "content-length",
            "x-forwarded-for",
            "forwarded",
            "openai-organization",
            "openai-project",
            "idempotency-key",
            "openai-beta",
        ]));
        assert_eq!(out, map(&["openai-beta"]));
    }

    #[test]
    fn nothing_of_the_account_comes_back() {
        let out = to_caller(&map(&[
            "authorization",
            "x-api-key",
            "x-goog-api-key",
            "set-cookie",
            "location",
            "openai-organization",
            "x-ratelimit-remaining-tokens",
            "x-request-id",
            "content-length",
            "transfer-encoding",
            "content-encoding",
            "connection",
            "openai-processing-ms",
        ]));
        assert_eq!(out, map(&["openai-processing-ms"]));
    }

    #[test]
    fn a_header_given_twice_passes_twice() {
        let mut headers = map(&["openai-beta"]);
        headers.append("openai-beta", HeaderValue::from_static("b"));
        assert_eq!(
            to_upstream(&headers).get_all("openai-beta").iter().count(),
            2
        );
    }
}
