//! AWS's event-stream framing (`application/vnd.amazon.eventstream`): a frame is its total length and its headers' length
//! (big-endian `u32` each), a CRC-32 of those eight bytes, headers, payload, and a CRC-32 of all before it.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use switchboard_dialects::{
    Class, UpstreamError,
    sse::{Codec, write_event},
};

/// Lengths and their checksum.
const PRELUDE: usize = 12;
/// What surrounds headers and payload.
const AROUND: usize = PRELUDE + 4;
/// The type of a header whose value is a string.
const STRING: u8 = 7;

/// Turns frames into events, split anywhere. At most one frame of the bound is kept.
#[derive(Debug)]
pub struct EventStream {
    pending: BytesMut,
    max_frame: usize,
}

impl EventStream {
    /// Takes frames whose payload has at most `max_frame` bytes.
    #[must_use]
    pub fn new(max_frame: usize) -> Self {
        Self {
            pending: BytesMut::new(),
            max_frame,
        }
    }

    /// The next frame, once all of it is there.
    fn frame(&mut self) -> Result<Option<Bytes>, Box<UpstreamError>> {
        let Some(prelude) = self.pending.first_chunk::<PRELUDE>() else {
            return Ok(None);
        };
        let mut lengths = &prelude[..];
        let (total, _, sum) = (lengths.get_u32(), lengths.get_u32(), lengths.get_u32());
        let covered = prelude.first_chunk::<8>().map(|head| crc32fast::hash(head));
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        if covered != Some(sum) || total < AROUND {
            return Err(broken("a frame's head is damaged"));
        }
        if total > self.max_frame.saturating_add(64 << 10) {
            return Err(broken("a frame is larger than it may be"));
        }
        Ok((self.pending.len() >= total).then(|| self.pending.split_to(total).freeze()))
    }
}

impl Codec for EventStream {
    fn push(&mut self, bytes: &[u8], out: &mut BytesMut) -> Result<(), Box<UpstreamError>> {
        self.pending.put_slice(bytes);
        while let Some(frame) = self.frame()? {
            event(&frame, out)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Bytes {
        if self.pending.is_empty() {
            return Bytes::new();
        }
        // Half a frame: an event that never ended.
        self.pending.clear();
        Bytes::from_static(b"data: {")
    }
}

/// Writes a frame as an event; an exception as an error, in its place among the others.
fn event(frame: &Bytes, out: &mut BytesMut) -> Result<(), Box<UpstreamError>> {
    let damaged = || broken("a frame is damaged");
    let (body, mut sum) = frame
        .split_at_checked(frame.len().saturating_sub(4))
        .ok_or_else(damaged)?;
    if sum.remaining() < 4 || crc32fast::hash(body) != sum.get_u32() {
        return Err(damaged());
    }
    let mut head = body.get(4..8).ok_or_else(damaged)?;
    let headers = usize::try_from(head.get_u32()).unwrap_or(usize::MAX);
    let rest = body.get(PRELUDE..).ok_or_else(damaged)?;
    let (headers, payload) = rest.split_at_checked(headers).ok_or_else(damaged)?;
    let payload = std::str::from_utf8(payload).map_err(|_| damaged())?;
    let kind = header(headers, b":message-type").ok_or_else(damaged)?;
    if kind == b"event" {
        write_event(out, None, payload);
        return Ok(());
    }
    let name = header(headers, b":exception-type").unwrap_or_default();
    let code = match name {
        b"throttlingException" => "rate_limit_exceeded",
        b"serviceUnavailableException" | b"modelNotReadyException" => "overloaded",
        b"validationException" => "invalid_request_error",
        _ => "server_error",
    };
    let said: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
    let message = said
        .get("message")
        .and_then(serde_json::Value::as_str)
        .unwrap_or("");
    let error = serde_json::json!({"message": message, "code": code});
    write_event(out, Some(b"error"), &error.to_string());
    Ok(())
}

/// A header's string value.
fn header<'a>(mut headers: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    while headers.has_remaining() {
        let length = usize::from(headers.try_get_u8().ok()?);
        let (found, rest) = headers.split_at_checked(length)?;
        headers = rest;
        if headers.try_get_u8().ok()? != STRING {
            return None;
        }
        let length = usize::from(headers.try_get_u16().ok()?);
        let (value, rest) = headers.split_at_checked(length)?;
        headers = rest;
        if found == name {
            return Some(value);
        }
    }
    None
}

fn broken(what: &str) -> Box<UpstreamError> {
    Box::new(UpstreamError::found(Class::Malformed, what))
}

/// A frame with an event's payload.
#[must_use]
pub fn encode(payload: &str) -> Bytes {
    frame(
        &[(":message-type", "event"), (":event-type", "chunk")],
        payload,
    )
}

/// A frame with an exception of this type.
#[must_use]
pub fn exception(kind: &str, message: &str) -> Bytes {
    let payload = serde_json::json!({"message": message}).to_string();
    frame(
        &[(":message-type", "exception"), (":exception-type", kind)],
        &payload,
    )
}

fn frame(headers: &[(&str, &str)], payload: &str) -> Bytes {
    let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
    let long = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let mut head = BytesMut::new();
    for (name, value) in headers {
        head.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
        head.put_slice(name.as_bytes());
        head.put_u8(STRING);
        head.put_u16(short(value.len()));
        head.put_slice(value.as_bytes());
    }
    let mut out = BytesMut::new();
    out.put_u32(long(AROUND + head.len() + payload.len()));
    out.put_u32(long(head.len()));
    let sum = crc32fast::hash(&out);
    out.put_u32(sum);
    out.put_slice(&head);
    out.put_slice(payload.as_bytes());
    let sum = crc32fast::hash(&out);
    out.put_u32(sum);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn frames_become_events_however_they_are_split() {
        let frames = [
            encode(r#"{"a":"안"}"#),
            exception("throttlingException", "slow"),
            encode("{}"),
        ]
        .concat();
        let want = "data: {\"a\":\"안\"}\n\nevent: error\ndata: {\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}\n\ndata: {}\n\n";
        for size in [1, 2, 3, 7, 13, frames.len()] {
            let mut codec = EventStream::new(1 << 10);
            let mut out = BytesMut::new();
            for piece in frames.chunks(size) {
                codec.push(piece, &mut out).unwrap();
            }
            assert_eq!(text(&out), want, "{size}");
            assert_eq!(codec.finish(), "");
        }
    }

    #[test]
    fn a_damaged_frame_is_an_error_and_half_a_frame_an_event_without_end() {
        let whole = encode("{}");
        for at in 0..whole.len() {
            let mut frame = whole.to_vec();
            frame[at] ^= 0x40;
            let mut codec = EventStream::new(1 << 10);
            let read = codec.push(&frame, &mut BytesMut::new());
            // A longer length waits for more, and never gets it.
            assert!(read.is_err() || codec.finish() == "data: {", "{at}");
        }
        let mut codec = EventStream::new(1 << 10);
        let mut out = BytesMut::new();
        codec.push(&whole[..20], &mut out).unwrap();
        assert_eq!(out, "");
        assert_eq!(codec.finish(), "data: {");
    }
}
