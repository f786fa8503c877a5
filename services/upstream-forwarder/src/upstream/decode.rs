//! An answer's bytes without their content coding (SPEC FWD-13, CASES D1), bounded when expanded.

use std::{
    future::{Future as _, poll_fn},
    io,
    pin::pin,
    task::Poll,
};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZstdDecoder};
use bytes::{Bytes, BytesMut};
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use http::{HeaderMap, header};
use http_body_util::BodyDataStream;
use switchboard_common::deflate::Inflate;
use tokio::io::{AsyncBufRead, AsyncRead, BufReader};
use tokio_util::io::{ReaderStream, StreamReader};

use super::Incoming;

/// Reads an answer's body piece by piece.
pub(crate) enum Decoded {
    /// As it comes.
    Plain(Incoming),
    /// Through a decoder.
    Coded(BoxStream<'static, io::Result<Bytes>>),
}

/// The answer is larger than the bound.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Bytes that a decoder gives out at once.
const PIECE: usize = 16 << 10;

impl Decoded {
    /// Reads through what `content-encoding` names; `None` for a coding that we do not know.
    pub(crate) fn new(headers: &HeaderMap, body: Incoming) -> Option<Self> {
        let codings = codings(headers)?;
        if codings.is_empty() {
            return Some(Self::Plain(body));
        }
        let data = BodyDataStream::new(body).map_err(io::Error::other);
        let mut reader: Box<dyn AsyncBufRead + Send + Unpin> =
            Box::new(StreamReader::new(data.boxed()));
        // The last coding was applied last: it comes off first.
        for coding in codings.into_iter().rev() {
            reader = match coding {
                Coding::Gzip => {
                    let mut decoder = GzipDecoder::new(reader);
                    decoder.multiple_members(true);
                    boxed(decoder)
                }
                Coding::Deflate => boxed(Inflate::new(reader)),
                Coding::Brotli => boxed(BrotliDecoder::new(reader)),
                Coding::Zstd => {
                    let mut decoder = ZstdDecoder::new(reader);
                    decoder.multiple_members(true);
                    boxed(decoder)
                }
            };
        }
        Some(Self::Coded(
            ReaderStream::with_capacity(reader, PIECE).boxed(),
        ))
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self {
            Self::Plain(body) => {
                let piece = poll_fn(|cx| body.poll_piece(cx)).await?;
                Some(piece.map_err(io::Error::other))
            }
            Self::Coded(stream) => stream.next().await,
        }
    }

    /// The same with a piece put back at its front.
    pub(crate) fn unread(self, piece: Bytes) -> Self {
        let rest = stream::unfold(self, |mut body| async move {
            body.next().await.map(|next| (next, body))
        });
        Self::Coded(stream::iter([Ok(piece)]).chain(rest).boxed())
    }

    /// The next piece if it is there already: `None` when it would have to be waited for.
    pub(crate) async fn at_hand(&mut self) -> Option<Option<io::Result<Bytes>>> {
        let mut next = pin!(self.next());
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(piece) => Poll::Ready(Some(piece)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

/// The codings that we undo.
#[derive(Clone, Copy, Debug)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Codings of one answer at most.
const MAX_CODINGS: usize = 2;

/// What an answer is coded in, in the order in which it was; `None` where one of them is unknown or there are too many.
fn codings(headers: &HeaderMap) -> Option<Vec<Coding>> {
    let mut codings = Vec::new();
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let names = value.to_str().ok()?.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            codings.push(match name.to_ascii_lowercase().as_str() {
                "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "zstd" => Coding::Zstd,
                _ => return None,
            });
        }
    }
    (codings.len() <= MAX_CODINGS).then_some(codings)
}

fn boxed(decoder: impl AsyncRead + Send + Unpin + 'static) -> Box<dyn AsyncBufRead + Send + Unpin> {
    Box::new(BufReader::with_capacity(PIECE, decoder))
}

/// Collects pieces without copying where there is only one.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    first: Bytes,
    rest: BytesMut,
    /// How many bytes they will be together, as far as that is known.
    room: usize,
}

impl Pieces {
    /// Of something that will have this many bytes.
    pub(crate) fn of(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// All together are larger than `limit`.
    pub(crate) fn add(&mut self, piece: Bytes, limit: usize) -> Result<(), TooLarge> {
        if self.len() + piece.len() > limit {
            return Err(TooLarge);
        }
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = piece;
        } else {
            if self.rest.is_empty() {
                let first = std::mem::take(&mut self.first);
                self.rest
                    .reserve(self.room.clamp(first.len() + piece.len(), limit));
                self.rest.extend_from_slice(&first);
            }
            self.rest.extend_from_slice(&piece);
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            self.first
        } else {
            self.rest.freeze()
        }
    }
}
