//! Streams that are no event streams, as event streams.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};

use super::SseError;
use crate::error::{Class, UpstreamError};

/// Turns what an upstream sends, split anywhere, into server-sent events: what follows it knows no other framing. A
/// provider's own framing (binary ones too) is one of these.
pub trait Codec: Debug + Send + Sync {
    /// Writes the events that `bytes` completes; those before an error too, however the bytes came.
    ///
    /// # Errors
    /// When the bytes are not in the framing, hold an error of the upstream, or one piece is larger than its bound. It is
    /// final.
    fn push(&mut self, bytes: &[u8], out: &mut BytesMut) -> Result<(), Box<UpstreamError>>;

    /// What is left over when the stream has ended, as an event that was not ended.
    fn finish(&mut self) -> Bytes;
}

impl From<SseError> for Box<UpstreamError> {
    fn from(error: SseError) -> Self {
        Self::new(UpstreamError::found(Class::Malformed, &error.to_string()))
    }
}
