//! What the edge reads of a caller: its key's place, its address, its own ids. None of it is trusted further than said.

use std::net::IpAddr;

use axum::{
    extract::Query,
    http::{HeaderMap, Uri, header},
};
use ipnet::IpNet;

/// Longest text of a caller's own that is kept with a request, bytes.
const KEPT: usize = 256;
const TAGS: usize = 1_024;

/// The API key, from wherever the SDKs of the field put it. Empty: none was given.
pub(crate) fn credential(headers: &HeaderMap, uri: &Uri) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
    bearer
        .or_else(|| text("x-api-key"))
        .or_else(|| text("api-key"))
        .or_else(|| text("x-goog-api-key"))
        .map(str::to_owned)
        .or_else(|| in_query(uri))
        .unwrap_or_default()
}

/// `?key=`, with its percent-coding undone.
fn in_query(uri: &Uri) -> Option<String> {
    uri.query().filter(|query| query.contains("key="))?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let key = pairs.into_iter().find(|(name, _)| name == "key");
    key.map(|(_, key)| key)
}

/// The query without the caller's key: it goes no further than this process.
pub(crate) fn query(uri: &Uri) -> String {
    let pairs = uri.query().unwrap_or("").split('&');
    let kept: Vec<&str> = pairs
        .filter(|pair| !pair.is_empty() && !is_key(pair))
        .take(64)
        .collect();
    kept.join("&")
}

/// Whether a pair of the query is the key, however its name is coded.
fn is_key(pair: &str) -> bool {
    let one = format!("/?{pair}").parse::<Uri>();
    let pairs = one.ok().and_then(|one| {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&one).ok()?;
        Some(pairs)
    });
    pairs.is_none_or(|pairs| pairs.iter().any(|(name, _)| name == "key"))
}

/// The declared type of the body.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    text.unwrap_or("").to_owned()
}

/// The caller's address: the connection's, or what a trusted proxy says of it.
pub(crate) fn peer(connection: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    let mut peer = connection.to_canonical();
    if !is_trusted(&peer) {
        return peer;
    }
    let hops = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|hop| hop.trim().parse::<IpAddr>());
    // From the right: each trusted proxy vouches for the one before it.
    for hop in hops.collect::<Vec<_>>().into_iter().rev() {
        let Ok(hop) = hop else { break };
        peer = hop.to_canonical();
        if !is_trusted(&peer) {
            break;
        }
    }
    peer
}

/// What the caller calls its request: kept for search, never a key of anything (OBS-4).
pub(crate) fn client_request_id(headers: &HeaderMap) -> String {
    ["x-client-request-id", "x-request-id"]
        .iter()
        .find_map(|name| printable(headers, name, KEPT))
        .unwrap_or_default()
}

/// `x-switchboard-tags`.
pub(crate) fn tags(headers: &HeaderMap) -> String {
    printable(headers, "x-switchboard-tags", TAGS).unwrap_or_default()
}

/// `x-switchboard-hops`: how many Switchboards the request went through.
pub(crate) fn hops(headers: &HeaderMap) -> u32 {
    match headers.get("x-switchboard-hops") {
        None => 0,
        // Whoever garbles the loop guard is treated as a loop.
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(u32::MAX),
    }
}

fn printable(headers: &HeaderMap, name: &str, most: usize) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (!text.is_empty()).then(|| text.chars().take(most).collect())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    axum::http::HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn the_key_is_found_in_each_place() {
        let none = Uri::from_static("/v1/models");
        for pair in [
            ("authorization", "Bearer k1"),
            ("authorization", "bearer  k1"),
            ("x-api-key", "k1"),
            ("api-key", "k1"),
            ("x-goog-api-key", "k1"),
        ] {
            assert_eq!(credential(&headers(&[pair]), &none), "k1", "{pair:?}");
        }
        let query = Uri::from_static("/v1/models?a=b&key=k1");
        assert_eq!(credential(&headers(&[]), &query), "k1");
        let coded = Uri::from_static("/v1/models?key=k%2F1%3d&alt=sse&monkey=k2");
        assert_eq!(credential(&headers(&[]), &coded), "k/1=");
        assert_eq!(
            credential(&headers(&[("authorization", "Basic k1")]), &none),
            ""
        );
    }

    #[test]
    fn the_key_stays_out_of_the_query_that_goes_on() {
        for (query, left) in [
            ("key=k1", ""),
            ("alt=sse&key=k1&x=%5B", "alt=sse&x=%5B"),
            ("k%65y=k1&alt=sse", "alt=sse"),
            ("monkey=k2&&key", "monkey=k2"),
            ("%ff=k1", "%ff=k1"),
        ] {
            let uri = format!("/v1/models?{query}").parse().unwrap();
            assert_eq!(super::query(&uri), left, "{query}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_may_say_who_the_caller_is() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let forged = headers(&[("x-forwarded-for", "1.1.1.1, 2.2.2.2, 10.0.0.9")]);
        let stranger: IpAddr = "9.9.9.9".parse().unwrap();
        let proxy: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(peer(stranger, &forged, &trusted), stranger);
        let named: IpAddr = "2.2.2.2".parse().unwrap();
        assert_eq!(peer(proxy, &forged, &trusted), named);
        assert_eq!(peer(mapped, &forged, &trusted), named);
        assert_eq!(
            peer(proxy, &headers(&[("x-forwarded-for", "junk")]), &trusted),
            proxy
        );
    }
}
