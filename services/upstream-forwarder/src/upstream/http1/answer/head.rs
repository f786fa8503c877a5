//! An answer's head: what it says, how its body ends, and whether the connection stays.

use std::mem::MaybeUninit;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version, header};
use httparse::{ParserConfig, Status};

use super::{Body, Error, MAX_HEAD, MAX_HEADERS};

/// See the module's page.
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    pub(crate) body: Body,
    /// The connection may carry another request when the body was read (RFC 9112, 9.3).
    pub(crate) stays: bool,
}

/// How much came of an answer's head.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Of what lies there, what was looked at, bytes.
    seen: usize,
    /// What was taken out before it: empty lines, and answers that are none yet (1xx); bytes.
    before: usize,
}

impl Progress {
    /// Nothing came yet.
    pub(crate) fn is_none(&self) -> bool {
        self.seen + self.before == 0
    }
}

/// Takes the head of the answer out of `input`, and what is told before it (1xx). `None`: it is not whole yet. `bodiless`: the
/// request's method was HEAD.
///
/// 101 is an answer like others, without a body, after which the connection is of no use: nobody asks for an upgrade.
///
/// # Errors
/// It is no head of HTTP/1, too large, or contradicts itself.
pub(crate) fn read(
    input: &mut BytesMut,
    progress: &mut Progress,
    bodiless: bool,
) -> Result<Option<Answer>, Error> {
    loop {
        let empty = empty_lines(input);
        if empty > 0 {
            input.advance(empty);
            progress.seen = 0;
            progress.before += empty;
        }
        let looked = progress.seen > 0 && !may_end(input, progress.seen);
        let parsed = if looked { None } else { parse(input)? };
        let Some((length, head)) = parsed else {
            progress.seen = input.len();
            return if progress.seen + progress.before < MAX_HEAD {
                Ok(None)
            } else {
                Err(Error::TooLarge)
            };
        };
        input.advance(length);
        progress.seen = 0;
        progress.before += length;
        let status = head.status();
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            if progress.before >= MAX_HEAD {
                return Err(Error::TooLarge);
            }
            continue;
        }
        let body = framing(&head, bodiless)?;
        let upgraded = status == StatusCode::SWITCHING_PROTOCOLS;
        return Ok(Some(Answer {
            stays: !upgraded && stays(&head) && !matches!(body, Body::UntilClosed),
            head,
            body,
        }));
    }
}

/// Bytes of the empty lines at the front, which are allowed there (RFC 9112, 2.2).
fn empty_lines(input: &[u8]) -> usize {
    let mut rest = input;
    while let Some(after) = rest.strip_prefix(b"\r\n").or(rest.strip_prefix(b"\n")) {
        rest = after;
    }
    input.len() - rest.len()
}

/// Whether an empty line may have come with what was not looked at before: a head that comes byte by byte is not read anew for each.
fn may_end(input: &[u8], seen: usize) -> bool {
    // The end of the line before it may have come earlier.
    let fresh = input.get(seen.saturating_sub(2)..).unwrap_or_default();
    memchr::memchr_iter(b'\n', fresh).any(|at| {
        let rest = fresh.get(at + 1..).unwrap_or_default();
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

/// The head at the front, and its length.
fn parse(input: &[u8]) -> Result<Option<(usize, Response<()>)>, Error> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = ParserConfig::default();
    let parse = config.parse_response_with_uninit_headers(&mut parsed, input, &mut room)?;
    let Status::Complete(length) = parse else {
        return Ok(None);
    };
    if length > MAX_HEAD {
        return Err(Error::TooLarge);
    }
    let mut head = Response::new(());
    let code = parsed.code.unwrap_or_default();
    *head.status_mut() = StatusCode::from_u16(code).map_err(|_| Error::Status)?;
    if parsed.version == Some(0) {
        *head.version_mut() = Version::HTTP_10;
    }
    // One copy for all of them: the room that was read into is larger, and goes with the body.
    let copy = Bytes::copy_from_slice(input.get(..length).unwrap_or_default());
    let headers = head.headers_mut();
    headers.reserve(parsed.headers.len());
    for line in parsed.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Error::Header)?;
        let value = within(&copy, input, line.value).ok_or(Error::Header)?;
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| Error::Header)?;
        headers.append(name, value);
    }
    Ok(Some((length, head)))
}

/// Where `copy`, which begins as `whole` does, has what `part` is of `whole`.
fn within(copy: &Bytes, whole: &[u8], part: &[u8]) -> Option<Bytes> {
    let at = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = at + part.len();
    (end <= copy.len()).then(|| copy.slice(at..end))
}

/// How the body ends (RFC 9112, 6.3): where a length stands beside chunks, the chunks count.
fn framing(head: &Response<()>, bodiless: bool) -> Result<Body, Error> {
    let status = head.status();
    let none = status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    if bodiless || none {
        return Ok(Body::Sized(0));
    }
    let headers = head.headers();
    if let Some(last) = headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .next_back()
    {
        if head.version() == Version::HTTP_10 {
            return Err(Error::Coding);
        }
        let last = last.to_str().ok().and_then(|it| it.rsplit(',').next());
        let chunked = last.is_some_and(|it| it.trim().eq_ignore_ascii_case("chunked"));
        return Ok(if chunked {
            Body::chunked()
        } else {
            Body::UntilClosed
        });
    }
    if headers.contains_key(header::CONTENT_LENGTH) {
        return length(headers).map(Body::Sized).ok_or(Error::Length);
    }
    Ok(Body::UntilClosed)
}

/// What `content-length` says; `None` where it is no number, or says different ones.
fn length(headers: &HeaderMap) -> Option<u64> {
    let mut length = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        for number in value.to_str().ok()?.split(',').map(str::trim) {
            // `parse` takes a sign.
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let number: u64 = number.parse().ok()?;
            if length.is_some_and(|length| length != number) {
                return None;
            }
            length = Some(number);
        }
    }
    length
}

/// Whether the other side keeps the connection open: HTTP/1.1 unless it says that it closes, HTTP/1.0 where it says that it does.
fn stays(head: &Response<()>) -> bool {
    let says = |word| names(head.headers(), &header::CONNECTION, word);
    !says("close") && (head.version() == Version::HTTP_11 || says("keep-alive"))
}

/// Whether a header that is a list names something.
pub(crate) fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values.filter_map(|value| value.to_str().ok());
    words.any(|words| {
        words
            .split(',')
            .any(|it| it.trim().eq_ignore_ascii_case(word))
    })
}
