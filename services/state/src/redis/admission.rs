//! Slots, leases and buckets in Redis.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use switchboard_common::ids::{RequestId, TenantName};

use super::link::{Arguments, Link};
use crate::{
    admission::{
        AccountGrant, AccountTake, Admission, BucketSpec, BucketState, Correction, LimitKind,
        Place, Pool, Release, Renewal, Renewed, Scope, TenantGrant, TenantTake,
    },
    bucket::{Ask, Bucket, MAX_UNITS, MILLI},
    config::MAX_LEASE_TTL,
    error::Error,
    memory::place::SLOT_RETRY_MS,
    redis::index::Index,
};

/// Scripts of one batch that run at one time, each on its own hash slot.
const SIDE_BY_SIDE: usize = 64;
/// Items of one place in one script, so that none holds the server up.
const ITEMS: usize = 128;

/// See [`Admission`].
pub(crate) struct RedisAdmission {
    link: Arc<Link>,
    tombstone: Duration,
    tenants: Index,
    pools: Index,
}

/// What a take script answers.
type Taken = Vec<i64>;

impl RedisAdmission {
    pub(crate) fn new(link: Arc<Link>, tombstone: Duration) -> Self {
        Self {
            tenants: Index::new(Arc::clone(&link), "leases:tenants"),
            pools: Index::new(Arc::clone(&link), "leases:pools"),
            link,
            tombstone,
        }
    }

    fn tenant_keys(&self, tenant: &TenantName) -> Keys {
        Keys::new(&format!("{}{{t:{tenant}}}", self.link.prefix))
    }

    fn pool_keys(&self, pool: &Pool) -> Keys {
        Keys::new(&format!("{}{{{pool}}}", self.link.prefix))
    }

    fn keys(&self, place: Place<'_>) -> Keys {
        match place {
            Place::Tenant(tenant) => self.tenant_keys(tenant),
            Place::Pool(pool) => self.pool_keys(pool),
        }
    }

    async fn take(&self, keys: &Keys, arguments: &Arguments) -> Result<Taken, Error> {
        self.link
            .call(&self.link.scripts.take, &keys.all(), arguments)
            .await
    }

    /// Runs a batch, one script per place.
    async fn batch<T: redis::FromRedisValue>(
        &self,
        script: &super::script::Script,
        places: Vec<(Keys, Arguments)>,
    ) -> Result<Vec<T>, Error> {
        stream::iter(places)
            .map(|(keys, arguments)| async move {
                self.link.call_anyway(script, &keys.all(), &arguments).await
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .try_collect()
            .await
    }

    /// Ends leases, with a tombstone or without; even when the breaker is open.
    pub(crate) async fn end(&self, releases: &[Release], for_good: bool) -> Result<(), Error> {
        let tombstone = if for_good {
            self.tombstone.as_millis()
        } else {
            0
        };
        let mut places: HashMap<Place<'_>, Vec<(Arguments, usize)>> = HashMap::new();
        for release in releases {
            let (place, request, attempt, correction) = match release {
                Release::Tenant {
                    tenant,
                    request,
                    correction,
                } => (Place::Tenant(tenant), request, None, correction),
                Release::Account {
                    account,
                    request,
                    attempt,
                    correction,
                } => (Place::Pool(account), request, *attempt, correction),
            };
            let arguments = room(&mut places, place, |arguments| {
                arguments.add(tombstone.to_string());
            });
            arguments.add(request.to_string());
            match attempt {
                Some(attempt) => arguments.add(attempt),
                None => arguments.add("*"),
            };
            let (letter, used) = match correction {
                Correction::Keep => ("k", 0),
                Correction::Refund => ("r", 0),
                Correction::Used(tokens) => ("u", (*tokens).min(MAX_UNITS) * MILLI.unsigned_abs()),
            };
            arguments.add(letter).add(used);
        }
        let places = self.keyed(places);
        self.batch::<i64>(&self.link.scripts.release, places)
            .await
            .map(|_| ())
    }

    /// Extends leases; even when the breaker is open.
    pub(crate) async fn keep(&self, renewals: &[Renewal], ttl: Duration) -> Result<Renewed, Error> {
        let ttl = lease_ms(ttl);
        let mut places: HashMap<Place<'_>, Vec<(Arguments, usize)>> = HashMap::new();
        for renewal in renewals {
            let place = match renewal {
                Renewal::Tenant { tenant, .. } => {
                    self.tenants.note(tenant.as_str()).await;
                    Place::Tenant(tenant)
                }
                Renewal::Account { account, .. } => {
                    self.pools.note(&account.to_string()).await;
                    Place::Pool(account)
                }
            };
            let arguments = room(&mut places, place, |arguments| {
                arguments.add(ttl.as_str());
            });
            match renewal {
                Renewal::Tenant { request, slots, .. } => {
                    arguments.add(request.to_string()).add(0).add(slots.len());
                    for (scope, id) in slots {
                        arguments.add(slot_name(*scope, id));
                    }
                }
                Renewal::Account {
                    request, attempt, ..
                } => {
                    arguments.add(request.to_string()).add(*attempt).add(1);
                    arguments.add(slot_name(Scope::Pool, ""));
                }
            }
        }
        let places = self.keyed(places);
        let answers: Vec<(u64, u64)> = self.batch(&self.link.scripts.renew, places).await?;
        Ok(answers
            .into_iter()
            .fold(Renewed::default(), |sum, (restored, gone)| Renewed {
                restored: sum.restored + restored,
                gone: sum.gone + gone,
            }))
    }

    fn keyed(&self, places: HashMap<Place<'_>, Vec<(Arguments, usize)>>) -> Vec<(Keys, Arguments)> {
        places
            .into_iter()
            .flat_map(|(place, batches)| {
                let keys = self.keys(place);
                batches
                    .into_iter()
                    .map(move |(arguments, _)| (keys.clone(), arguments))
            })
            .collect()
    }

    async fn leases_at(&self, keys: Keys) -> Result<(u64, u64), Error> {
        let mut arguments = Arguments::default();
        arguments.add(slot_name(Scope::Pool, ""));
        self.link
            .call(&self.link.scripts.usage, &keys.all(), &arguments)
            .await
    }
}

/// The arguments to append one more item of this place to.
fn room<'m, 'a>(
    places: &'m mut HashMap<Place<'a>, Vec<(Arguments, usize)>>,
    place: Place<'a>,
    start: impl FnOnce(&mut Arguments),
) -> &'m mut Arguments {
    let batches = places.entry(place).or_default();
    if batches.last().is_none_or(|(_, items)| *items >= ITEMS) {
        let mut arguments = Arguments::default();
        start(&mut arguments);
        batches.push((arguments, 0));
    }
    let last = batches.len() - 1;
    let (arguments, items) = &mut batches[last];
    *items += 1;
    arguments
}

/// The keys of one place, in the scripts' order.
#[derive(Clone)]
struct Keys([String; 6]);

impl Keys {
    fn new(tag: &str) -> Self {
        Self([":l", ":h", ":c", ":b", ":g", ":w"].map(|end| format!("{tag}{end}")))
    }

    fn all(&self) -> [&str; 6] {
        self.0.each_ref().map(String::as_str)
    }
}

fn slot_name(scope: Scope, id: &str) -> String {
    format!("{}:{id}", scope.letter())
}

fn bucket_name(spec: &BucketSpec) -> String {
    let (scope, unit) = (spec.scope.letter(), spec.unit.letter());
    format!("{scope}:{}:{unit}", spec.id)
}

fn states(specs: &[BucketSpec], missing: &[i64]) -> Vec<BucketState> {
    specs
        .iter()
        .zip(missing)
        .map(|(spec, missing)| bucket(*missing).state(&Ask::new(spec, 1)))
        .collect()
}

fn lease_ms(ttl: Duration) -> String {
    ttl.min(MAX_LEASE_TTL).as_millis().to_string()
}

fn take_arguments(
    request: RequestId,
    attempt: u32,
    ttl: Duration,
    newcomer: bool,
    slots: &[(String, Option<u64>)],
    buckets: &[BucketSpec],
) -> Arguments {
    let mut arguments = Arguments::default();
    arguments
        .add(request.to_string())
        .add(attempt)
        .add(lease_ms(ttl))
        .add(u8::from(newcomer))
        .add(slots.len())
        .add(buckets.len());
    for (name, limit) in slots {
        arguments.add(name);
        match limit {
            // Beyond 2^53 a limit is none.
            Some(limit) => arguments.add((*limit).min(1 << 53)),
            None => arguments.add(-1),
        };
    }
    for spec in buckets {
        let ask = Ask::new(spec, 1);
        arguments
            .add(bucket_name(spec))
            .add(ask.rate)
            .add(ask.capacity)
            .add(ask.cost)
            .add(u8::from(ask.tokens));
    }
    arguments
}

/// A take's answer in words.
struct Outcome {
    kind: i64,
    index: usize,
    used: u64,
    missing: Vec<i64>,
}

impl Outcome {
    fn of(taken: &[i64]) -> Result<Self, Error> {
        let [kind, index, used, missing @ ..] = taken else {
            return Err(Error::unavailable("an answer that is none"));
        };
        Ok(Self {
            kind: *kind,
            index: usize::try_from(*index).unwrap_or(0),
            used: u64::try_from(*used).unwrap_or(0),
            missing: missing.to_vec(),
        })
    }

    fn states(&self, specs: &[BucketSpec]) -> Vec<BucketState> {
        states(specs, &self.missing)
    }

    /// When the bucket that refused has enough.
    fn retry_after_ms(&self, specs: &[BucketSpec]) -> u64 {
        match (specs.get(self.index), self.missing.get(self.index)) {
            (Some(spec), Some(missing)) => {
                bucket(*missing).take(&Ask::new(spec, 1)).err().unwrap_or(0)
            }
            _ => SLOT_RETRY_MS,
        }
    }
}

fn bucket(missing: i64) -> Bucket {
    Bucket { missing, at_us: 0 }
}

#[async_trait::async_trait]
impl Admission for RedisAdmission {
    async fn take_tenant(&self, take: &TenantTake) -> Result<TenantGrant, Error> {
        self.link.closed()?;
        let slots: Vec<_> = take
            .slots
            .iter()
            .map(|slot| (slot_name(slot.scope, &slot.id), Some(slot.limit)))
            .collect();
        let arguments = take_arguments(take.request, 0, take.ttl, false, &slots, &take.buckets);
        let keys = self.tenant_keys(&take.tenant);
        let ((), taken) = tokio::join!(
            self.tenants.note(take.tenant.as_str()),
            self.take(&keys, &arguments)
        );
        let taken = taken?;
        let outcome = Outcome::of(&taken)?;
        let buckets = outcome.states(&take.buckets);
        Ok(match outcome.kind {
            0 => TenantGrant::Granted { buckets },
            1 => TenantGrant::Refused {
                index: outcome.index,
                kind: LimitKind::Slot,
                retry_after_ms: SLOT_RETRY_MS,
                buckets,
            },
            2 => TenantGrant::Refused {
                index: outcome.index,
                kind: LimitKind::Bucket,
                retry_after_ms: outcome.retry_after_ms(&take.buckets),
                buckets,
            },
            _ => TenantGrant::Gone,
        })
    }

    async fn take_account(&self, take: &AccountTake) -> Result<AccountGrant, Error> {
        self.link.closed()?;
        let slots = [(slot_name(Scope::Pool, ""), take.limit)];
        let arguments = take_arguments(
            take.request,
            take.attempt,
            take.ttl,
            take.newcomer,
            &slots,
            &take.buckets,
        );
        let keys = self.pool_keys(&take.account);
        let name = take.account.to_string();
        let ((), taken) = tokio::join!(self.pools.note(&name), self.take(&keys, &arguments));
        let taken = taken?;
        let outcome = Outcome::of(&taken)?;
        Ok(match outcome.kind {
            0 => AccountGrant::Granted {
                used: outcome.used,
                buckets: outcome.states(&take.buckets),
            },
            1 => AccountGrant::Full {
                used: outcome.used,
                retry_after_ms: SLOT_RETRY_MS,
                buckets: outcome.states(&take.buckets),
            },
            2 => AccountGrant::RateLimited {
                index: outcome.index,
                retry_after_ms: outcome.retry_after_ms(&take.buckets),
                buckets: outcome.states(&take.buckets),
            },
            3 => AccountGrant::WaitersFirst,
            _ => AccountGrant::Gone,
        })
    }

    async fn mark_waiters(&self, account: &Pool, ttl: Duration) -> Result<(), Error> {
        let keys = self.pool_keys(account);
        let mut arguments = Arguments::default();
        arguments.add(ttl.as_millis().max(1).to_string());
        self.link
            .call(&self.link.scripts.mark, &[&keys.0[5]], &arguments)
            .await
    }

    async fn release(&self, releases: &[Release]) -> Result<(), Error> {
        self.link.closed()?;
        self.end(releases, true).await
    }

    async fn give_back(&self, releases: &[Release]) -> Result<(), Error> {
        self.link.closed()?;
        self.end(releases, false).await
    }

    async fn renew(&self, renewals: &[Renewal], ttl: Duration) -> Result<Renewed, Error> {
        self.link.closed()?;
        self.keep(renewals, ttl).await
    }

    async fn buckets(
        &self,
        place: Place<'_>,
        specs: &[BucketSpec],
    ) -> Result<Vec<BucketState>, Error> {
        if specs.is_empty() {
            return Ok(Vec::new());
        }
        self.link.closed()?;
        let mut arguments = Arguments::default();
        for spec in specs {
            arguments.add(bucket_name(spec));
            arguments.add(Ask::new(spec, 1).rate);
        }
        let keys = self.keys(place);
        let script = &self.link.scripts.look;
        let missing: Vec<i64> = self.link.call(script, &keys.all(), &arguments).await?;
        Ok(states(specs, &missing))
    }

    async fn usage(&self, accounts: &[Pool]) -> Result<Vec<u64>, Error> {
        let places: Vec<Keys> = accounts
            .iter()
            .map(|account| self.pool_keys(account))
            .collect();
        stream::iter(places)
            .map(|keys| self.leases_at(keys))
            .buffered(SIDE_BY_SIDE)
            .map_ok(|(used, _)| used)
            .try_collect()
            .await
    }

    async fn held(&self) -> Result<u64, Error> {
        let tenants = self.tenants.all().await?;
        let pools = self.pools.all().await?;
        let mut places = Vec::with_capacity(tenants.len() + pools.len());
        for tenant in tenants {
            places.push(Keys::new(&format!("{}{{t:{tenant}}}", self.link.prefix)));
        }
        for pool in pools {
            places.push(Keys::new(&format!("{}{{{pool}}}", self.link.prefix)));
        }
        stream::iter(places)
            .map(|keys| self.leases_at(keys))
            .buffer_unordered(SIDE_BY_SIDE)
            .try_fold(0, |sum, (_, all)| async move { Ok(sum + all) })
            .await
    }
}
