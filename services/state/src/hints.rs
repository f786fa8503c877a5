//! Wake-up hints between processes. A hint may be lost, repeated or come without cause; whoever gets one looks at the truth.

use bytes::Bytes;
use futures_util::stream::BoxStream;

use crate::error::Error;

/// Publishes and hears hints.
#[async_trait::async_trait]
pub trait Hints: Send + Sync {
    /// Tells everyone who listens to the channel now.
    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), Error>;

    /// Hints from now on. After a gap (lost connection, slow reader) comes one with an empty payload, which means: anything
    /// may have happened.
    fn subscribe(&self, channel: &str) -> BoxStream<'static, Bytes>;
}
