//! Hints between processes: one subscription per process, shared by all who listen.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use switchboard_common::lifecycle::Lifecycle;

use super::link::Link;
use crate::{error::Error, hints::Hints, memory::hints::MemoryHints};

/// Between two attempts to listen.
const RETRY: Duration = Duration::from_millis(500);
/// A connection that says nothing for so long is asked whether it lives.
const PING: Duration = Duration::from_secs(10);

/// See [`Hints`].
pub(crate) struct RedisHints {
    link: Arc<Link>,
    local: Arc<MemoryHints>,
}

impl RedisHints {
    /// Starts to listen.
    pub(crate) fn start(link: Arc<Link>, lifecycle: &Lifecycle) -> Self {
        let local = Arc::new(MemoryHints::default());
        let killed = lifecycle.killed();
        let stopping = lifecycle.stopping();
        let listening = listen(Arc::clone(&link), Arc::clone(&local));
        lifecycle.spawn("state hints", async move {
            tokio::select! {
                () = listening => {}
                () = killed.cancelled() => {}
                () = stopping.cancelled() => {}
            }
        });
        Self { link, local }
    }
}

async fn listen(link: Arc<Link>, local: Arc<MemoryHints>) {
    loop {
        if let Err(error) = hear(&link, &local).await {
            tracing::debug!(%error, "state store's hints are cut");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear(link: &Link, local: &MemoryHints) -> redis::RedisResult<()> {
    let channels = format!("{}hint:", link.prefix);
    let (mut sink, mut messages) = link.address().listener().await?.split();
    sink.psubscribe(format!("{}*", escaped(&channels))).await?;
    // What was said before nobody heard.
    local.publish_gap();
    loop {
        match tokio::time::timeout(PING, messages.next()).await {
            Ok(Some(message)) => {
                if let Some(channel) = message.get_channel_name().strip_prefix(&channels) {
                    let payload = Bytes::copy_from_slice(message.get_payload_bytes());
                    local.publish_now(channel, payload);
                }
            }
            Ok(None) => return Ok(()),
            Err(_) => {
                let ping = sink.ping::<redis::Value>();
                match tokio::time::timeout(PING, ping).await {
                    Ok(pong) => pong.map(|_| ())?,
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}

/// A pattern that matches the text itself.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[async_trait::async_trait]
impl Hints for RedisHints {
    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), Error> {
        let name = format!("{}hint:{channel}", self.link.prefix);
        let sent = self.link.publish(&name, &payload).await;
        if sent.is_err() {
            // At least this process hears it.
            self.local.publish_now(channel, payload);
        }
        sent
    }

    fn subscribe(&self, channel: &str) -> BoxStream<'static, Bytes> {
        self.local.subscribe(channel)
    }
}
