//! A request's body, decoded from its content coding, within bounds of size, of time and of all bodies together
//! (FWD-13, CASES D2).

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZstdDecoder};
use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use switchboard_common::{
    deflate::Inflate,
    error::{Failure, Reason},
};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::io::StreamReader;

use crate::Config;

/// How much longer a coded body may be than what it decodes to, bytes: room for framing and for a block that a decoder must
/// have whole. Beyond it, it is made of nothing but framing and only costs us time.
const OVERHEAD: u64 = 256 * 1024;

/// All bodies of the process, bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    /// Bytes held now.
    pub(crate) fn held(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body and its share of the budget.
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    share: Share,
}

impl Held {
    /// Splits off the bytes; the share lives on with the second half.
    pub(crate) fn into_parts(self) -> (Bytes, Share) {
        (self.bytes, self.share)
    }
}

/// A share of the budget; given back when dropped.
pub(crate) struct Share {
    budget: Budget,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, bytes: u64, total: u64) -> Result<(), Failure> {
        let before = self.budget.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before.saturating_add(bytes) > total {
            return Err(Failure::new(
                Reason::Unavailable,
                "too many request bodies are being read at once; try again shortly",
            )
            .retry_after(std::time::Duration::from_secs(1)));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads the whole body.
pub(crate) async fn read(
    body: Body,
    headers: &HeaderMap,
    config: &Config,
    budget: &Budget,
) -> Result<Held, Failure> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = declared.filter(|length| *length > config.body_limit) {
        return Err(too_large(config.body_limit, Some(length)));
    }
    let share = Share {
        budget: budget.clone(),
        bytes: 0,
    };
    let codings = codings(headers)?;
    if codings.is_empty() {
        return plain(body, declared.unwrap_or(0), config, share).await;
    }
    let limit = config.body_timeout;
    let decoded = Arc::new(AtomicU64::new(0));
    let (so_far, mut coded_bytes) = (Arc::clone(&decoded), 0_u64);
    let pieces = http_body_util::BodyDataStream::new(body);
    let pieces = tokio_stream::StreamExt::timeout(pieces, limit)
        .map(move |piece| match piece {
            Ok(Ok(bytes)) => {
                let of_use = so_far.load(Ordering::Relaxed).saturating_add(OVERHEAD);
                let wasted = coded_bytes > of_use;
                coded_bytes += bytes.len() as u64;
                if wasted {
                    Err(io::Error::from(io::ErrorKind::InvalidData))
                } else {
                    Ok(bytes)
                }
            }
            Ok(Err(_)) => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        })
        .boxed();
    let mut reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(StreamReader::new(pieces));
    // The last coding was applied last: it comes off first.
    for coding in codings.into_iter().rev() {
        let inner = tokio::io::BufReader::new(reader);
        reader = match coding {
            Coding::Gzip => {
                let mut decoder = GzipDecoder::new(inner);
                decoder.multiple_members(true);
                Box::new(decoder)
            }
            Coding::Deflate => Box::new(Inflate::new(inner)),
            Coding::Brotli => Box::new(BrotliDecoder::new(inner)),
            Coding::Zstd => Box::new(ZstdDecoder::new(inner)),
        };
    }
    coded(reader, &decoded, config, share).await
}

/// How many times what has come a buffer may be at once when the body's declared length is larger: few copies for a large
/// body, little memory for a declaration that nothing follows.
const AHEAD: u64 = 64;

/// `declared` is the length that the caller named, 0 where it named none.
async fn plain(
    body: Body,
    declared: u64,
    config: &Config,
    mut share: Share,
) -> Result<Held, Failure> {
    let mut body = pin!(body);
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0_u64;
    loop {
        let frame = tokio::time::timeout(config.body_timeout, body.frame())
            .await
            .map_err(|_| too_slow())?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| {
            Failure::new(
                Reason::InvalidRequest,
                "the request's body could not be read",
            )
        })?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        length += piece.len() as u64;
        if length > config.body_limit {
            return Err(too_large(config.body_limit, None));
        }
        share.grow(piece.len() as u64, config.bodies_total)?;
        // One piece, which is the usual body, is passed on without a copy.
        if first.is_none() && rest.is_empty() {
            first = Some(piece);
            continue;
        }
        if length > rest.capacity() as u64 {
            let room = declared.min(length.saturating_mul(AHEAD)).max(length);
            let more = usize::try_from(room).unwrap_or(usize::MAX) - rest.len();
            rest.reserve(more);
        }
        if let Some(before) = first.take() {
            rest.extend_from_slice(&before);
        }
        rest.extend_from_slice(&piece);
    }
    Ok(Held {
        bytes: first.unwrap_or_else(|| rest.freeze()),
        share,
    })
}

async fn coded(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    decoded: &AtomicU64,
    config: &Config,
    mut share: Share,
) -> Result<Held, Failure> {
    let mut bytes = BytesMut::new();
    loop {
        // In pieces, so that what was decoded is known while it is.
        bytes.reserve(16 * 1024);
        let mut piece = (&mut bytes).limit(16 * 1024);
        let read = reader.read_buf(&mut piece).await.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                too_slow()
            } else {
                Failure::new(
                    Reason::InvalidRequest,
                    "the request's body does not decode as its content-encoding says",
                )
            }
        })?;
        if read == 0 {
            break;
        }
        decoded.fetch_add(read as u64, Ordering::Relaxed);
        if bytes.len() as u64 > config.body_limit {
            return Err(too_large(config.body_limit, None));
        }
        share.grow(read as u64, config.bodies_total)?;
    }
    Ok(Held {
        bytes: bytes.freeze(),
        share,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Failure> {
    let mut codings = Vec::new();
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let text = value.to_str().unwrap_or("?");
        for name in text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            codings.push(match name.to_ascii_lowercase().as_str() {
                "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "zstd" => Coding::Zstd,
                _ => {
                    return Err(Failure::new(
                        Reason::UnsupportedEncoding,
                        "content-encoding is not supported; send gzip, deflate, br, zstd or none",
                    ));
                }
            });
        }
    }
    if codings.len() > 2 {
        return Err(Failure::new(
            Reason::UnsupportedEncoding,
            "more than two content codings are not supported",
        ));
    }
    Ok(codings)
}

/// Names the limit and, where it was declared, the size.
fn too_large(limit: u64, size: Option<u64>) -> Failure {
    let size = size.map_or(String::new(), |size| format!(" of {size} bytes"));
    Failure::new(
        Reason::BodyTooLarge,
        format!("the request's body{size} is larger than {limit} bytes, the limit of this gateway"),
    )
}

fn too_slow() -> Failure {
    Failure::new(
        Reason::InvalidRequest,
        "the request's body came too slowly; send it again",
    )
}

#[cfg(test)]
mod tests {
    use async_compression::{
        Level,
        tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder},
    };
    use axum::http::HeaderValue;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn encoded(coding: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        headers
    }

    async fn compress(coding: &str, text: &[u8]) -> Vec<u8> {
        compress_at(Level::Default, coding, text).await
    }

    async fn compress_at(level: Level, coding: &str, text: &[u8]) -> Vec<u8> {
        macro_rules! with {
            ($encoder:ident) => {{
                let mut encoder = $encoder::with_quality(Vec::new(), level);
                encoder.write_all(text).await.unwrap();
                encoder.shutdown().await.unwrap();
                encoder.into_inner()
            }};
        }
        match coding {
            "gzip" => with!(GzipEncoder),
            "deflate" => with!(ZlibEncoder),
            "bare deflate" => with!(DeflateEncoder),
            "br" => with!(BrotliEncoder),
            _ => with!(ZstdEncoder),
        }
    }

    #[tokio::test]
    async fn every_coding_is_decoded_and_the_budget_is_given_back() {
        let budget = Budget::default();
        for coding in ["gzip", "deflate", "bare deflate", "br", "zstd"] {
            let body = compress(coding, b"{\"model\":\"m\"}").await;
            let held = read(
                Body::from(body),
                &encoded(coding.trim_start_matches("bare ")),
                &Config::default(),
                &budget,
            )
            .await
            .unwrap();
            assert_eq!(&held.bytes[..], b"{\"model\":\"m\"}", "{coding}");
            assert_eq!(budget.held(), 13);
            drop(held);
            assert_eq!(budget.held(), 0);
        }
    }

    #[tokio::test]
    async fn a_body_that_expands_beyond_the_limit_is_refused_while_it_expands() {
        let config = Config {
            body_limit: 1_000_000,
            ..Config::default()
        };
        let bomb = compress("gzip", &vec![b' '; 50_000_000]).await;
        assert!(bomb.len() < 100_000);
        let budget = Budget::default();
        let refused = read(Body::from(bomb), &encoded("gzip"), &config, &budget).await;
        let failure = refused.err().unwrap();
        assert_eq!(failure.reason, Reason::BodyTooLarge);
        assert!(failure.message.contains("1000000"));
        assert_eq!(budget.held(), 0);
    }

    /// An empty gzip member costs a decoder's reset and gives nothing: a body of them would never reach a limit of size.
    #[tokio::test]
    async fn a_body_of_nothing_but_framing_is_refused_before_its_end() {
        let member = compress("gzip", b"").await;
        let given = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&given);
        let pieces = std::iter::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, io::Error>(Bytes::from(member.repeat(100)))
        });
        let endless = Body::from_stream(futures_util::stream::iter(pieces.take(1_000)));
        let budget = Budget::default();
        let refused = read(endless, &encoded("gzip"), &Config::default(), &budget).await;
        assert_eq!(refused.err().unwrap().reason, Reason::InvalidRequest);
        assert!(given.load(Ordering::Relaxed) < 200);
    }

    #[tokio::test]
    async fn what_does_not_compress_passes_in_every_coding() {
        let mut noise = 1_u64;
        let mut next = || {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise.to_le_bytes()
        };
        let text: Vec<u8> = (0..90_000).flat_map(|_| next()).collect();
        let budget = Budget::default();
        for coding in ["gzip", "deflate", "br", "zstd"] {
            let body = compress_at(Level::Fastest, coding, &text).await;
            let pieces: Vec<_> = body.chunks(10_000).map(Bytes::copy_from_slice).collect();
            let pieces = pieces.into_iter().map(Ok::<_, io::Error>);
            let body = Body::from_stream(futures_util::stream::iter(pieces));
            let held = read(body, &encoded(coding), &Config::default(), &budget).await;
            let held = held.map_err(|failure| format!("{coding}: {failure:?}"));
            assert!(held.unwrap().bytes == text, "{coding}");
        }
    }

    #[tokio::test]
    async fn an_unknown_coding_and_a_lying_one_are_refused_clearly() {
        let (config, budget) = (Config::default(), Budget::default());
        let refused = read(Body::from("x"), &encoded("lzma"), &config, &budget).await;
        assert_eq!(refused.err().unwrap().reason, Reason::UnsupportedEncoding);
        let refused = read(Body::from("{}"), &encoded("gzip"), &config, &budget).await;
        assert_eq!(refused.err().unwrap().reason, Reason::InvalidRequest);
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_whole_whatever_length_was_declared() {
        let text: Vec<u8> = (0..=250).cycle().take(300_000).collect();
        for declared in [None, Some("300000"), Some("7"), Some("30000000")] {
            let mut headers = HeaderMap::new();
            if let Some(declared) = declared {
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(declared));
            }
            let pieces: Vec<_> = text.chunks(9_000).map(Bytes::copy_from_slice).collect();
            let pieces = pieces.into_iter().map(Ok::<_, io::Error>);
            let body = Body::from_stream(futures_util::stream::iter(pieces));
            let budget = Budget::default();
            let held = read(body, &headers, &Config::default(), &budget).await;
            assert!(held.unwrap().bytes == text, "{declared:?}");
        }
    }

    #[tokio::test]
    async fn the_budget_of_all_bodies_is_kept() {
        let config = Config {
            bodies_total: 10,
            ..Config::default()
        };
        let budget = Budget::default();
        let none = HeaderMap::new();
        let first = read(Body::from("12345678"), &none, &config, &budget).await;
        assert!(first.is_ok());
        let second = read(Body::from("123"), &none, &config, &budget).await;
        assert_eq!(second.err().unwrap().reason, Reason::Unavailable);
        assert_eq!(budget.held(), 8);
    }
}
