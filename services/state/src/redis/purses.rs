//! Open holds in Redis.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use switchboard_common::ids::{RequestId, TenantName};

use super::{
    index::Index,
    link::{Arguments, Link},
};
use crate::{
    error::Error,
    memory::purses::{MAX_HELD, held_by},
    purses::{HoldGrant, HoldTake, PurseKind, PurseValue, Purses, StaleHold, TouchItem, Unit},
};

/// Scripts of one batch that run at one time, each on its own tenant.
const SIDE_BY_SIDE: usize = 64;
/// Items of one tenant in one script, so that none holds the server up.
const ITEMS: usize = 128;
/// Values are split at it: see ledger.lua.
const BILLION: i64 = 1_000_000_000;

/// See [`Purses`].
pub(crate) struct RedisPurses {
    link: Arc<Link>,
    tombstone: Duration,
    draft_max_bytes: usize,
    tenants: Index,
    /// Where the next look for stale holds begins, so that those of one tenant cannot hide the others'.
    look: AtomicUsize,
}

/// One tenant's keys, in the scripts' order.
struct Keys([String; 7]);

impl Keys {
    fn all(&self) -> [&str; 7] {
        self.0.each_ref().map(String::as_str)
    }
}

const fn letter(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanos => "n",
        Unit::Tokens => "t",
    }
}

fn split(value: i64) -> (i64, i64) {
    (value.div_euclid(BILLION), value.rem_euclid(BILLION))
}

impl RedisPurses {
    pub(crate) fn new(link: Arc<Link>, tombstone: Duration, draft_max_bytes: usize) -> Self {
        Self {
            tenants: Index::new(Arc::clone(&link), "holds:tenants"),
            link,
            tombstone,
            draft_max_bytes,
            look: AtomicUsize::new(0),
        }
    }

    fn keys(&self, tenant: &str) -> Keys {
        Keys(
            [":pv", ":ph", ":po", ":pr", ":pd", ":pg", ":pw"]
                .map(|end| format!("{}{{t:{tenant}}}{end}", self.link.prefix)),
        )
    }

    /// Ends holds and stores values; even when the breaker is open.
    pub(crate) async fn end(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        let keys = self.keys(tenant.as_str());
        // Values go with the last holds: before that, a value with its charge would stand beside the charge's own hold.
        let mut batches = requests.chunks(ITEMS).peekable();
        if batches.peek().is_none() {
            return self.end_batch(&keys, &[], values).await;
        }
        while let Some(batch) = batches.next() {
            let values = if batches.peek().is_none() {
                values
            } else {
                &[]
            };
            self.end_batch(&keys, batch, values).await?;
        }
        Ok(())
    }

    async fn end_batch(
        &self,
        keys: &Keys,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        let mut arguments = Arguments::default();
        arguments
            .add(self.tombstone.as_millis().to_string())
            .add(requests.len());
        for request in requests {
            arguments.add(request.to_string());
        }
        for value in values {
            let (billions, rest) = split(value.value);
            arguments
                .add(value.purse.as_str())
                .add(billions)
                .add(rest)
                .add(value.version.min(1 << 53));
            match value.window_ends_ms {
                Some(ends) => arguments.add(ends),
                None => arguments.add(""),
            };
        }
        self.link
            .call_anyway::<i64>(&self.link.scripts.settle, &keys.all(), &arguments)
            .await
            .map(|_| ())
    }

    /// Keeps or remakes holds; even when the breaker is open.
    pub(crate) async fn keep(&self, touches: &[TouchItem]) -> Result<(), Error> {
        let mut tenants: HashMap<&TenantName, Vec<&TouchItem>> = HashMap::new();
        for touch in touches {
            tenants.entry(&touch.tenant).or_default().push(touch);
        }
        let mut scripts = Vec::new();
        for (tenant, items) in &tenants {
            self.tenants.note(tenant.as_str()).await;
            for items in items.chunks(ITEMS) {
                let mut arguments = Arguments::default();
                for item in items {
                    self.add_touch(item, &mut arguments);
                }
                scripts.push((self.keys(tenant.as_str()), arguments));
            }
        }
        stream::iter(scripts)
            .map(|(keys, arguments)| async move {
                self.link
                    .call_anyway::<i64>(&self.link.scripts.touch, &keys.all(), &arguments)
                    .await
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    fn add_touch(&self, item: &TouchItem, arguments: &mut Arguments) {
        let (nanos, tokens) = held_by(&item.takes);
        let draft: &[u8] = if item.draft.len() <= self.draft_max_bytes {
            &item.draft
        } else {
            &[]
        };
        arguments
            .add(item.request.to_string())
            .add(nanos)
            .add(tokens)
            .add(draft)
            .add(item.takes.len());
        for take in &item.takes {
            arguments
                .add(take.purse.as_str())
                .add(letter(take.kind.unit()));
        }
    }

    async fn stale_of(
        &self,
        tenant: String,
        silent_for_ms: u64,
        limit: usize,
    ) -> Result<Vec<StaleHold>, Error> {
        let mut arguments = Arguments::default();
        arguments.add(silent_for_ms).add(limit);
        let found: Vec<(String, u64, i64, i64, Vec<u8>)> = self
            .link
            .call(
                &self.link.scripts.stale,
                &self.keys(&tenant).all(),
                &arguments,
            )
            .await?;
        let tenant = TenantName::from(tenant);
        Ok(found
            .into_iter()
            .filter_map(|(request, silent_ms, amount_nanos, tokens, draft)| {
                Some(StaleHold {
                    tenant: tenant.clone(),
                    request: request.parse().ok()?,
                    draft: (!draft.is_empty()).then(|| Bytes::from(draft)),
                    silent_ms,
                    amount_nanos,
                    tokens,
                })
            })
            .collect())
    }

    async fn sums(&self, tenant: &str) -> Result<(i64, u64), Error> {
        self.link
            .call(
                &self.link.scripts.sums,
                &self.keys(tenant).all(),
                &Arguments::default(),
            )
            .await
    }
}

fn grant_of(answer: &[i64]) -> Result<HoldGrant, Error> {
    let index = |number: &i64| usize::try_from(*number).unwrap_or(0);
    Ok(match answer {
        [0, amount_nanos, tokens] => HoldGrant::Held {
            amount_nanos: *amount_nanos,
            tokens: *tokens,
        },
        [1, at, available, held] => HoldGrant::Short {
            index: index(at),
            available: *available,
            held: *held,
        },
        [2, indexes @ ..] => HoldGrant::Unknown {
            indexes: indexes.iter().map(index).collect(),
        },
        [3] => HoldGrant::Gone,
        _ => return Err(Error::unavailable("an answer that is none")),
    })
}

#[async_trait::async_trait]
impl Purses for RedisPurses {
    async fn reserve(&self, take: &HoldTake) -> Result<HoldGrant, Error> {
        self.link.closed()?;
        let mut arguments = Arguments::default();
        arguments.add(take.request.to_string());
        for purse in &take.takes {
            let (kind, (billions, rest)) = match purse.kind {
                PurseKind::Balance => ("b", (0, 0)),
                PurseKind::Budget { limit, .. } => ("l", split(limit)),
            };
            arguments
                .add(purse.purse.as_str())
                .add(letter(purse.kind.unit()))
                .add(kind)
                .add(billions)
                .add(rest)
                .add(purse.want.clamp(0, MAX_HELD))
                .add(purse.min.clamp(-MAX_HELD, MAX_HELD));
        }
        let keys = self.keys(take.tenant.as_str());
        let all = keys.all();
        let asking =
            self.link
                .call_anyway::<Vec<i64>>(&self.link.scripts.reserve, &all, &arguments);
        let ((), answer) = tokio::join!(self.tenants.note(take.tenant.as_str()), asking);
        let answer = answer?;
        grant_of(&answer)
    }

    async fn load(&self, tenant: &TenantName, values: &[PurseValue]) -> Result<(), Error> {
        self.settle(tenant, &[], values).await
    }

    async fn void(&self, tenant: &TenantName, request: RequestId) -> Result<(), Error> {
        self.settle(tenant, &[request], &[]).await
    }

    async fn settle(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        self.link.closed()?;
        self.end(tenant, requests, values).await
    }

    async fn touch(&self, touches: &[TouchItem]) -> Result<(), Error> {
        self.link.closed()?;
        self.keep(touches).await
    }

    async fn stale(&self, silent_for_ms: u64, limit: usize) -> Result<Vec<StaleHold>, Error> {
        let mut tenants = self.tenants.all().await?;
        tenants.sort();
        if !tenants.is_empty() {
            let start = self.look.fetch_add(1, Ordering::Relaxed) % tenants.len();
            tenants.rotate_left(start);
        }
        let mut looks = stream::iter(tenants)
            .map(|tenant| self.stale_of(tenant, silent_for_ms, limit))
            .buffered(SIDE_BY_SIDE);
        let mut stale = Vec::new();
        while let Some(found) = looks.next().await {
            stale.extend(found?);
            if stale.len() >= limit {
                stale.truncate(limit);
                break;
            }
        }
        Ok(stale)
    }

    async fn held(&self, tenant: &TenantName) -> Result<i64, Error> {
        self.sums(tenant.as_str()).await.map(|(nanos, _)| nanos)
    }

    async fn open_holds(&self) -> Result<u64, Error> {
        stream::iter(self.tenants.all().await?)
            .map(|tenant| async move { self.sums(&tenant).await })
            .buffer_unordered(SIDE_BY_SIDE)
            .try_fold(0, |sum, (_, open)| async move { Ok(sum + open) })
            .await
    }
}
