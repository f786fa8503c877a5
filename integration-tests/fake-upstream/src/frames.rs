//! HTTP/2 by hand (RFC 9113), for what no library does on purpose.

use bytes::{Buf as _, BufMut as _, BytesMut};

/// With what a client begins.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;

/// The types of frames.
pub mod kind {
    /// A part of a body.
    pub const DATA: u8 = 0;
    /// Headers, or trailers.
    pub const HEADERS: u8 = 1;
    /// The stream is cancelled.
    pub const RESET: u8 = 3;
    /// Settings of the connection.
    pub const SETTINGS: u8 = 4;
    /// Asks whether the peer lives.
    pub const PING: u8 = 6;
    /// Room for more data.
    pub const WINDOW: u8 = 8;
}

/// Bits of a frame's flags.
pub mod flag {
    /// An answer to settings or a ping.
    pub const ACK: u8 = 1;
    /// Nothing follows on the stream.
    pub const END_STREAM: u8 = 1;
    /// The block of headers is whole.
    pub const END_HEADERS: u8 = 4;
}

/// Takes a frame off the beginning of these bytes, if it is there whole: its type, flags, stream and payload.
#[must_use]
pub fn take(input: &mut BytesMut) -> Option<(u8, u8, u32, BytesMut)> {
    let head = input.get(..HEAD)?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    if input.len() < HEAD + length {
        return None;
    }
    let mut head = input.split_to(HEAD);
    head.advance(3);
    let (kind, flags, stream) = (head.get_u8(), head.get_u8(), head.get_u32());
    Some((kind, flags, stream, input.split_to(length)))
}

/// Writes a frame.
pub fn frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.put_uint(payload.len() as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
    out.put_slice(payload);
}

/// A block of headers, each as a literal that nobody remembers (RFC 7541, 6.2.2).
#[must_use]
pub fn block(headers: &[(&str, &str)]) -> BytesMut {
    let mut block = BytesMut::new();
    for (name, value) in headers {
        block.put_u8(0);
        for text in [name, value] {
            length(&mut block, text.len());
            block.put_slice(text.as_bytes());
        }
    }
    block
}

/// A length of seven bits, and more bytes where it is larger (RFC 7541, 5.1).
fn length(block: &mut BytesMut, mut length: usize) {
    const MOST: usize = 0x7f;
    let low = |length: usize| length.to_le_bytes()[0];
    if length < MOST {
        block.put_u8(low(length));
        return;
    }
    block.put_u8(low(MOST));
    length -= MOST;
    while length > MOST {
        block.put_u8(low(length) | 0x80);
        length >>= 7;
    }
    block.put_u8(low(length));
}
