//! Answers of upstreams over HTTP/1.1.

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use crate::{
    input::{arrivals, sections},
    json::text,
    upstream::answer::{Body, Progress, read},
};

/// More than this is never kept of a head that is not whole, bytes.
const MOST: usize = 32 << 10;

/// What an answer says.
#[derive(Debug, PartialEq)]
struct Said {
    head: Option<(StatusCode, HeaderMap, bool)>,
    body: String,
    /// It is whole: what follows it, which is another's.
    rest: Option<Bytes>,
}

impl Said {
    fn none() -> Self {
        Self {
            head: None,
            body: String::new(),
            rest: None,
        }
    }
}

/// Reads an answer that comes in these pieces, after which the connection ends.
fn answer(pieces: &[Bytes]) -> Said {
    let mut input = BytesMut::new();
    let mut progress = Progress::default();
    let mut said = Said::none();
    let mut body: Option<Body> = None;
    let mut data = BytesMut::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        if body.is_none() {
            match read(&mut input, &mut progress, false) {
                Ok(Some(answer)) => {
                    let (parts, ()) = answer.head.into_parts();
                    said.head = Some((parts.status, parts.headers, answer.stays));
                    body = Some(answer.body);
                }
                Ok(None) => assert!(input.len() < MOST, "{} bytes wait", input.len()),
                Err(_) => return Said::none(),
            }
        }
        let Some(body) = &mut body else { continue };
        loop {
            match body.take(&mut input) {
                Ok(Some(piece)) => {
                    assert!(!piece.is_empty(), "a piece of nothing");
                    data.extend_from_slice(&piece);
                }
                Ok(None) => break,
                Err(_) => {
                    said.body = text(&data).to_string();
                    return said;
                }
            }
        }
        assert!(
            input.is_empty() || body.is_read(),
            "a body that goes on leaves nothing behind"
        );
    }
    said.body = text(&data).to_string();
    if body.is_some_and(|mut body| body.close().is_ok()) {
        said.rest = Some(input.freeze());
    }
    said
}

/// Reads it in all ways, which must agree.
fn in_all_ways(input: &[u8]) -> Said {
    let mut ways = arrivals(input).into_iter();
    let whole = answer(&ways.next().unwrap_or_default());
    for pieces in ways {
        assert_eq!(answer(&pieces), whole, "{pieces:?}");
    }
    whole
}

pub(crate) fn http1(input: &[u8]) {
    in_all_ways(input);
    // Sections as chunks whose sizes are right, which no mutation would find, and another answer behind them.
    let parts = sections::<6>(input);
    let mut chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for (at, part) in parts
        .iter()
        .enumerate()
        .filter(|(_, part)| !part.is_empty())
    {
        let mut line = String::new();
        let _ = match at % 3 {
            0 => write!(line, "{:x}\r\n", part.len()),
            1 => write!(line, "{:08X};name=\"value\"\r\n", part.len()),
            _ => write!(line, "{:x} \t\r\n", part.len()),
        };
        chunked.extend_from_slice(line.as_bytes());
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\nx-trailer: 1\r\n\r\n");
    let behind = Bytes::copy_from_slice(input);
    chunked.extend_from_slice(&behind);
    let data = parts.concat();
    let said = in_all_ways(&chunked);
    assert_eq!(said.body, text(&data).to_string());
    assert_eq!(said.rest, Some(behind.clone()), "another's bytes");
    // By its length.
    let mut sized = format!("HTTP/1.1 200\r\ncontent-length: {}\r\n\r\n", data.len()).into_bytes();
    sized.extend_from_slice(&data);
    sized.extend_from_slice(&behind);
    let said = in_all_ways(&sized);
    assert_eq!(said.body, text(&data).to_string());
    assert_eq!(said.rest, Some(behind), "another's bytes");
}
