//! An answer, out of bytes that came in any pieces: its head, and its body.

mod body;
mod chunks;
pub(super) mod head;

use std::io;

pub(crate) use self::{
    body::Body,
    head::{Progress, names, read},
};

/// A head that is not whole by then, with all that is told before it (1xx), is an error, bytes. hyper's bound is its buffer, which was of this size.
pub(super) const MAX_HEAD: usize = 32 << 10;
/// A piece of so many bytes is copied out of the room that it was read into: it would keep all of that while it is held.
pub(super) const SMALL: usize = 2 << 10;
/// Lines of a head, and of trailers; as in hyper.
pub(super) const MAX_HEADERS: usize = 100;
/// What stands beside the sizes of all chunks of a body (RFC 9112, 7.1.1), bytes; as in hyper.
pub(super) const MAX_EXTENSIONS: usize = 16 << 10;
/// Zeros before and white space behind the size of one chunk, bytes. Some servers fill up to eight; hyper has no bound.
pub(super) const MAX_PADDING: usize = 256;
/// Trailers of one body, bytes; as in hyper.
pub(super) const MAX_TRAILERS: usize = 16 << 10;

/// What is wrong with a connection or an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The connection ended before the answer was whole.
    #[error("the connection ended before the answer was whole")]
    Incomplete,
    /// The connection ended when the answer had begun.
    #[error("the connection ended within the answer's head")]
    HeadCut,
    /// The connection ended before the request.
    #[error("the connection ended before the request")]
    Closed,
    /// Something came before the request.
    #[error("the upstream spoke without being asked")]
    Unasked,
    /// The head is none of HTTP/1.
    #[error("the answer's head is no HTTP: {0}")]
    Head(#[from] httparse::Error),
    /// The status is none.
    #[error("the answer's status is none")]
    Status,
    /// A header is none.
    #[error("a header of the answer has an invalid name or value")]
    Header,
    /// More than [`MAX_HEAD`] bytes, with all that was told before it.
    #[error("the answer's head is larger than {MAX_HEAD} bytes, or what was told before it is")]
    TooLarge,
    /// `content-length` is no number, or says different ones.
    #[error("the answer's content-length is invalid")]
    Length,
    /// `transfer-encoding` in HTTP/1.0, which has none.
    #[error("the answer is HTTP/1.0 and has a transfer-encoding")]
    Coding,
    /// The chunks are wrong; what about them.
    #[error("the answer's chunks are invalid: {0}")]
    Chunk(&'static str),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}
