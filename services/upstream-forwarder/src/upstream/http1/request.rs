//! A request's head as bytes.

use std::io::Write as _;

use http::{header, request::Parts};

use super::answer::names;

/// What a header takes beside its value, roughly, bytes.
const LINE: usize = 32;

/// The head of a request whose body has `length` bytes. Its length is ours to say, whatever the headers say of it.
///
/// `old`: the other side is known to speak HTTP/1.0, so it is spoken to so, and asked to keep the connection.
pub(in crate::upstream) fn encode(parts: &Parts, length: u64, old: bool) -> Vec<u8> {
    let values = parts.headers.values().map(|value| value.len() + LINE);
    let path = parts.uri.path_and_query().map_or(0, |it| it.as_str().len());
    let mut head = Vec::with_capacity(values.sum::<usize>() + path + 3 * LINE);
    let mut put = |bytes: &[u8]| head.extend_from_slice(bytes);
    put(parts.method.as_str().as_bytes());
    put(b" ");
    put(parts.uri.path().as_bytes());
    if let Some(query) = parts.uri.query() {
        put(b"?");
        put(query.as_bytes());
    }
    put(if old {
        b" HTTP/1.0\r\n"
    } else {
        b" HTTP/1.1\r\n"
    });
    for (name, value) in &parts.headers {
        if *name == header::CONTENT_LENGTH || *name == header::TRANSFER_ENCODING {
            continue;
        }
        put(name.as_str().as_bytes());
        put(b": ");
        put(value.as_bytes());
        put(b"\r\n");
    }
    if old && !names(&parts.headers, &header::CONNECTION, "keep-alive") {
        put(b"connection: keep-alive\r\n");
    }
    // Also where it is 0, whatever the method: so did hyper, and an upstream may want it (RFC 9110, 8.6).
    let _ = write!(head, "content-length: {length}\r\n\r\n");
    head
}
