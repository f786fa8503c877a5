//! Writing events in the canonical form: `event: X\n` where there is a name, `data: …\n`, an empty line, LF only.

use bytes::{BufMut, BytesMut};

/// The end of an OpenAI stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// A keep-alive that every OpenAI client bears (PROTOCOLS §2): a comment, between events.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Appends one event. Line ends inside `data` become further `data` lines, so that the output is well-formed whatever
/// it is given; line ends inside `name` end the name.
pub fn write_event(out: &mut BytesMut, name: Option<&[u8]>, data: &str) {
    out.reserve(data.len() + name.map_or(0, <[u8]>::len) + 16);
    if let Some(name) = name
        .and_then(|n| n.split(|byte| matches!(byte, b'\r' | b'\n')).next())
        .filter(|n| !n.is_empty())
    {
        out.put_slice(b"event: ");
        out.put_slice(name);
        out.put_u8(b'\n');
    }
    let mut rest = data.as_bytes();
    loop {
        out.put_slice(b"data: ");
        let Some(at) = memchr::memchr2(b'\n', b'\r', rest) else {
            out.put_slice(rest);
            out.put_slice(b"\n\n");
            return;
        };
        let (line, tail) = rest.split_at(at);
        out.put_slice(line);
        out.put_u8(b'\n');
        let width = if tail.starts_with(b"\r\n") { 2 } else { 1 };
        rest = tail.get(width..).unwrap_or_default();
    }
}
