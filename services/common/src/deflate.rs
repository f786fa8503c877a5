//! The content coding `deflate` in both forms that are sent under that name: zlib's, which RFC 9110 means, and bare deflate,
//! which enough servers send that every browser reads it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use async_compression::tokio::bufread::{DeflateDecoder, ZlibDecoder};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Undoes it. Which form it is the first byte says.
#[derive(Debug)]
pub struct Inflate<R>(Form<R>);

#[derive(Debug)]
enum Form<R> {
    Unknown(Option<R>),
    Zlib(ZlibDecoder<R>),
    Bare(DeflateDecoder<R>),
}

impl<R: AsyncBufRead> Inflate<R> {
    /// Reads what `coded` gives.
    pub const fn new(coded: R) -> Self {
        Self(Form::Unknown(Some(coded)))
    }
}

/// Whether zlib's header begins so [RFC 1950, 2.2]: method 8, a window of at most 32 KiB. As bare deflate it would be a
/// stored block whose padding is not zero, which no compressor writes.
const fn is_zlib(first: u8) -> bool {
    first & 0x0f == 8 && first >> 4 <= 7
}

impl<R: AsyncBufRead + Unpin> AsyncRead for Inflate<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let form = &mut self.get_mut().0;
        if let Form::Unknown(coded) = form {
            let Some(reader) = coded else {
                return Poll::Ready(Ok(()));
            };
            let first = ready!(Pin::new(reader).poll_fill_buf(cx))?.first().copied();
            // Nothing at all is nothing in either form.
            let (Some(first), Some(reader)) = (first, coded.take()) else {
                return Poll::Ready(Ok(()));
            };
            *form = if is_zlib(first) {
                Form::Zlib(ZlibDecoder::new(reader))
            } else {
                Form::Bare(DeflateDecoder::new(reader))
            };
        }
        match form {
            Form::Unknown(_) => Poll::Ready(Ok(())),
            Form::Zlib(decoder) => Pin::new(decoder).poll_read(cx, out),
            Form::Bare(decoder) => Pin::new(decoder).poll_read(cx, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_compression::tokio::write::{DeflateEncoder, ZlibEncoder};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};

    use super::*;

    async fn inflated(coded: &[u8], at_once: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut reader = Inflate::new(BufReader::with_capacity(at_once, coded));
        reader.read_to_end(&mut out).await?;
        Ok(out)
    }

    #[tokio::test]
    async fn both_forms_are_read_however_they_arrive() {
        for text in [&b""[..], b"a", &b"{\"model\":\"m\"}".repeat(9_000)] {
            let mut zlib = ZlibEncoder::new(Vec::new());
            let mut bare = DeflateEncoder::new(Vec::new());
            zlib.write_all(text).await.unwrap();
            bare.write_all(text).await.unwrap();
            zlib.shutdown().await.unwrap();
            bare.shutdown().await.unwrap();
            for coded in [zlib.into_inner(), bare.into_inner()] {
                for at_once in [1, 7, 1 << 16] {
                    assert_eq!(inflated(&coded, at_once).await.unwrap(), text);
                }
                if coded.len() > 20 {
                    let half = &coded[..coded.len() / 2];
                    assert!(inflated(half, 64).await.is_err(), "half of it is an error");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_is_neither_is_an_error_and_nothing_is_nothing() {
        for wrong in [&b"{\"error\":1}"[..], b"<html>", b"\xff\xff\xff"] {
            assert!(inflated(wrong, 64).await.is_err(), "{wrong:?}");
        }
        assert_eq!(inflated(b"", 64).await.unwrap(), b"");
    }
}
