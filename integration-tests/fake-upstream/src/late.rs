//! A peer over HTTP/2 whose frames are on their way when a stream is cancelled, and that sends each piece in a frame of its own.
//! Every peer does both now and then; no library does it on purpose, so that its frames are written here (RFC 9113).

use std::collections::BTreeSet;
use std::io;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const HEAD: usize = 9;

/// The types of frames that are looked at or written.
mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RESET: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const WINDOW: u8 = 8;
}

/// Bits of a frame's flags.
mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
}

/// What a [`late`] peer answers each request with.
#[derive(Clone, Debug)]
pub struct Late {
    /// Headers beside the status, which is 200.
    pub headers: &'static [(&'static str, &'static str)],
    /// What each DATA frame holds.
    pub piece: Bytes,
    /// So many frames come at once; they must fit into the stream's window.
    pub frames: usize,
    /// With what a stream ends; nothing: with its last frame.
    pub trailers: &'static [(&'static str, &'static str)],
}

/// Serves one connection until it is closed. A stream that is cancelled gets one frame more; those that are open when `end` is
/// told get one frame more and their end. Gives how many streams were cancelled.
///
/// # Errors
/// The connection broke, or the peer speaks something else.
pub async fn late<S>(stream: S, late: Late, mut end: oneshot::Receiver<()>) -> io::Result<usize>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    let mut preface = true;
    let (mut open, mut cancelled, mut told) = (BTreeSet::new(), 0, false);
    frame(&mut out, kind::SETTINGS, 0, 0, &[]);
    frame(&mut out, kind::WINDOW, 0, 0, &(1_u32 << 30).to_be_bytes());
    loop {
        if preface && input.len() >= PREFACE {
            input.advance(PREFACE);
            preface = false;
        }
        while let Some((kind, flags, stream, payload)) =
            (!preface).then(|| take(&mut input)).flatten()
        {
            match kind {
                kind::HEADERS if flags & flag::END_HEADERS == 0 => {
                    return Err(io::Error::other("headers in more than one frame"));
                }
                kind::HEADERS => {
                    open.insert(stream);
                    let block = block(true, late.headers);
                    frame(&mut out, kind::HEADERS, flag::END_HEADERS, stream, &block);
                    for _ in 0..late.frames {
                        frame(&mut out, kind::DATA, 0, stream, &late.piece);
                    }
                }
                kind::RESET if open.remove(&stream) => {
                    cancelled += 1;
                    frame(&mut out, kind::DATA, 0, stream, &late.piece);
                }
                kind::SETTINGS if flags & flag::ACK == 0 => {
                    frame(&mut out, kind::SETTINGS, flag::ACK, 0, &[]);
                }
                kind::PING if flags & flag::ACK == 0 => {
                    frame(&mut out, kind::PING, flag::ACK, 0, &payload);
                }
                _ => {}
            }
        }
        writer.write_all_buf(&mut out).await?;
        writer.flush().await?;
        tokio::select! {
            read = reader.read_buf(&mut input) => if read? == 0 {
                return Ok(cancelled);
            },
            _ = &mut end, if !told => {
                told = true;
                for stream in std::mem::take(&mut open) {
                    let last = late.trailers.is_empty();
                    let flags = if last { flag::END_STREAM } else { 0 };
                    frame(&mut out, kind::DATA, flags, stream, &late.piece);
                    if !last {
                        let block = block(false, late.trailers);
                        let flags = flag::END_STREAM | flag::END_HEADERS;
                        frame(&mut out, kind::HEADERS, flags, stream, &block);
                    }
                }
            }
        }
    }
}

/// Takes a frame, if it is there whole: its type, flags, stream and payload.
fn take(input: &mut BytesMut) -> Option<(u8, u8, u32, BytesMut)> {
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

fn frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.put_uint(payload.len() as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
    out.put_slice(payload);
}

/// A block of headers, each as a literal that nobody remembers (RFC 7541, 6.2.2). Names and values are shorter than 127 bytes.
fn block(status: bool, headers: &[(&str, &str)]) -> BytesMut {
    let mut block = BytesMut::new();
    if status {
        // `:status: 200` of the static table.
        block.put_u8(0x88);
    }
    for (name, value) in headers {
        block.put_u8(0);
        for text in [name, value] {
            block.put_u8(u8::try_from(text.len()).unwrap_or(u8::MAX) & 0x7f);
            block.put_slice(text.as_bytes());
        }
    }
    block
}
