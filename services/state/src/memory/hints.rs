//! Hints within this process; also the last step of those that came from Redis.

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{error::Error, hints::Hints};

/// Hints that a slow reader may lag behind before it is told that it lost some.
const BUFFER: usize = 256;

/// See [`Hints`].
#[derive(Default)]
pub(crate) struct MemoryHints {
    channels: Mutex<HashMap<Box<str>, broadcast::Sender<Bytes>>>,
}

impl MemoryHints {
    pub(crate) fn publish_now(&self, channel: &str, payload: Bytes) {
        let mut channels = self.channels.lock();
        if let Some(sender) = channels.get(channel)
            && sender.send(payload).is_err()
        {
            channels.remove(channel);
        }
    }

    /// Tells everyone that anything may have happened.
    pub(crate) fn publish_gap(&self) {
        self.channels
            .lock()
            .retain(|_, sender| sender.send(Bytes::new()).is_ok());
    }
}

#[async_trait::async_trait]
impl Hints for MemoryHints {
    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), Error> {
        self.publish_now(channel, payload);
        Ok(())
    }

    fn subscribe(&self, channel: &str) -> BoxStream<'static, Bytes> {
        let receiver = self
            .channels
            .lock()
            .entry(channel.into())
            .or_insert_with(|| broadcast::channel(BUFFER).0)
            .subscribe();
        futures_util::stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(payload) => Some((payload, receiver)),
                Err(RecvError::Lagged(_)) => Some((Bytes::new(), receiver)),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }
}
