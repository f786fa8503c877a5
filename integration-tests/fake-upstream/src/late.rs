//! A peer over HTTP/2 whose frames are on their way when a stream is cancelled, and that sends each piece in a frame of its own.
//! Every peer does both now and then; no library does it on purpose.

use std::collections::BTreeSet;
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

use crate::frames::{PREFACE, block, flag, frame, kind, take};

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
/// told get one frame more and their end.
///
/// # Errors
/// The connection broke, or the peer speaks something else.
pub async fn late<S>(stream: S, late: Late, mut end: oneshot::Receiver<()>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    let mut preface = true;
    let (mut open, mut told) = (BTreeSet::new(), false);
    frame(&mut out, kind::SETTINGS, 0, 0, &[]);
    frame(&mut out, kind::WINDOW, 0, 0, &(1_u32 << 30).to_be_bytes());
    loop {
        if preface && input.len() >= PREFACE.len() {
            input.advance(PREFACE.len());
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
                    let mut all = vec![(":status", "200")];
                    all.extend(late.headers);
                    let block = block(&all);
                    frame(&mut out, kind::HEADERS, flag::END_HEADERS, stream, &block);
                    for _ in 0..late.frames {
                        frame(&mut out, kind::DATA, 0, stream, &late.piece);
                    }
                }
                kind::RESET if open.remove(&stream) => {
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
                return Ok(());
            },
            _ = &mut end, if !told => {
                told = true;
                for stream in std::mem::take(&mut open) {
                    let last = late.trailers.is_empty();
                    let flags = if last { flag::END_STREAM } else { 0 };
                    frame(&mut out, kind::DATA, flags, stream, &late.piece);
                    if !last {
                        let block = block(late.trailers);
                        let flags = flag::END_STREAM | flag::END_HEADERS;
                        frame(&mut out, kind::HEADERS, flags, stream, &block);
                    }
                }
            }
        }
    }
}
