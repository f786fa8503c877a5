//! Auth's second cache level in Redis, in one hash slot: entries and floors are compared in one step.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{FromRedisValue, Value};

use super::link::{Arguments, Link};
use crate::{
    cache::{Cache, CacheEntry},
    error::Error,
};

/// See [`Cache`].
pub(crate) struct RedisCache {
    link: Arc<Link>,
    floors: String,
}

impl RedisCache {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            floors: format!("{}{{c}}:floors", link.prefix),
            link,
        }
    }

    fn entry(&self, key: &str) -> String {
        format!("{}{{c}}:e:{key}", self.link.prefix)
    }
}

fn entry_of(answer: Vec<Value>) -> Option<CacheEntry> {
    let mut parts = answer.into_iter();
    let seq = u64::from_redis_value(parts.next()?).ok()?;
    let value = Vec::<u8>::from_redis_value(parts.next()?).ok()?;
    let scopes = parts
        .map(|part| String::from_redis_value(part).map(Arc::from).ok())
        .collect::<Option<_>>()?;
    Some(CacheEntry {
        value: Bytes::from(value),
        seq,
        scopes,
    })
}

#[async_trait::async_trait]
impl Cache for RedisCache {
    async fn get(&self, key: &str) -> Result<Option<CacheEntry>, Error> {
        let answer: Vec<Value> = self
            .link
            .call(
                &self.link.scripts.cache_get,
                &[&self.entry(key), &self.floors],
                &Arguments::default(),
            )
            .await?;
        Ok(entry_of(answer))
    }

    async fn put(&self, key: &str, entry: &CacheEntry, ttl: Duration) -> Result<bool, Error> {
        let mut arguments = Arguments::default();
        arguments
            .add(entry.seq)
            .add(ttl.as_millis().max(1).to_string())
            .add(&entry.value[..]);
        for scope in &entry.scopes {
            arguments.add(&**scope);
        }
        self.link
            .call(
                &self.link.scripts.cache_put,
                &[&self.entry(key), &self.floors],
                &arguments,
            )
            .await
    }

    async fn remove(&self, key: &str) -> Result<(), Error> {
        self.link
            .call::<i64>(
                &self.link.scripts.forget,
                &[&self.entry(key)],
                &Arguments::default(),
            )
            .await
            .map(|_| ())
    }

    async fn raise_floor(&self, scopes: &[Arc<str>], seq: u64) -> Result<(), Error> {
        let mut arguments = Arguments::default();
        arguments.add(seq);
        for scope in scopes {
            arguments.add(&**scope);
        }
        self.link
            .call::<i64>(&self.link.scripts.cache_floor, &[&self.floors], &arguments)
            .await
            .map(|_| ())
    }
}
