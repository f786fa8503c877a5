//! An answer's body.

use bytes::{Buf as _, Bytes, BytesMut};

use super::{Error, SMALL, chunks::Chunks};

/// How a body ends, and how far it was read.
#[derive(Debug)]
pub(crate) enum Body {
    /// After so many bytes more.
    Sized(u64),
    /// With the last chunk.
    Chunked(Chunks),
    /// With the connection.
    UntilClosed,
}

impl Body {
    pub(crate) fn chunked() -> Self {
        Self::Chunked(Chunks::default())
    }

    /// All of it that `input` has, as one piece; `None`: nothing. What follows the body stays in `input`.
    ///
    /// # Errors
    /// It is none. What came before that was given out.
    pub(crate) fn take(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        let taken = match self {
            Self::Sized(left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                let taken = most.min(input.len());
                *left -= taken as u64;
                taken
            }
            Self::Chunked(chunks) => return chunks.take(input),
            Self::UntilClosed => input.len(),
        };
        Ok((taken > 0).then(|| cut(input, taken)))
    }

    /// Nothing more comes.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Self::Sized(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_read(),
            Self::UntilClosed => false,
        }
    }

    /// The connection ended.
    ///
    /// # Errors
    /// The body was not at its end.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        if matches!(self, Self::UntilClosed) {
            *self = Self::Sized(0);
        }
        if self.is_read() {
            Ok(())
        } else {
            Err(Error::Incomplete)
        }
    }
}

/// The first `length` bytes, of which there are so many.
pub(super) fn cut(input: &mut BytesMut, length: usize) -> Bytes {
    if length > SMALL {
        return input.split_to(length).freeze();
    }
    let piece = Bytes::copy_from_slice(input.get(..length).unwrap_or_default());
    input.advance(length);
    piece
}
