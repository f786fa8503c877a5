//! The address of something that an upstream keeps.

use std::borrow::Cow;

use http::Method;
use switchboard_proto::common::v1::Endpoint;

use crate::pipeline::Call;

/// Method and address of a call: a create's is `url` itself; that of a response that exists is below it, with the caller's query.
///
/// Ids that come here were looked up: they were written down only if they can stand in a path as they are.
pub(crate) fn of<'a>(call: &Call, url: &'a str) -> (Method, Cow<'a, str>) {
    let (method, tail) = match call.endpoint {
        Endpoint::Retrieve => (Method::GET, ""),
        Endpoint::Delete => (Method::DELETE, ""),
        Endpoint::Cancel => (Method::POST, "/cancel"),
        Endpoint::InputItems => (Method::GET, "/input_items"),
        _ => return (Method::POST, Cow::Borrowed(url)),
    };
    (method, below(url, &call.resource, tail, &call.query).into())
}

/// An address may have a query of its own.
fn below(url: &str, id: &str, tail: &str, query: &str) -> String {
    let (path, own) = url.split_once('?').unwrap_or((url, ""));
    let path = path.trim_end_matches('/');
    let mut address = format!("{path}/{id}{tail}");
    let queries = [own, query].into_iter().filter(|query| !query.is_empty());
    for (query, mark) in queries.zip(['?', '&']) {
        address.push(mark);
        address.push_str(query);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_lies_below_the_address_of_creates() {
        for (url, tail, query, expected) in [
            ("http://u/v1/responses", "", "", "http://u/v1/responses/r1"),
            ("http://u/r/", "/cancel", "", "http://u/r/r1/cancel"),
            (
                "http://u/r?v=2",
                "/input_items",
                "limit=5",
                "http://u/r/r1/input_items?v=2&limit=5",
            ),
            (
                "http://u/r",
                "",
                "stream=true&starting_after=3",
                "http://u/r/r1?stream=true&starting_after=3",
            ),
        ] {
            assert_eq!(below(url, "r1", tail, query), expected);
        }
    }
}
