//! The forwarder's memory of who callers are (SPEC AUTH-5, AUTH-6).
//!
//! Keyed by a hash under a key of this process, so that no memory dump holds a caller's credential. Concurrent misses of
//! one credential are one look-up; unknown ones are remembered briefly, apart, so that a flood of random keys evicts
//! nobody; a look-up that failed is never remembered as "unknown". A change in auth raises the floor of its tenant or
//! group: what was read before it is refused. While auth cannot be reached, known callers go on for a grace period.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use moka::{Expiry, future::Cache};
use parking_lot::RwLock;
use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use switchboard_common::{
    error::{Failure, Reason},
    feed::News,
    grpc::Rpc,
};
use switchboard_proto::auth::v1::{AuthenticateRequest, auth_client::AuthClient};
use tokio::sync::Semaphore;

use crate::{config, domain::admission::Caller};

type Digest = [u8; 32];

/// See the module's page. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Principals(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    auth: AuthClient<Rpc>,
    timeout: Duration,
    unknown_ttl: Duration,
    key: [u8; 32],
    /// Used without asking.
    fresh: Cache<Digest, Entry>,
    /// Used when auth cannot be asked.
    known: Cache<Digest, Entry>,
    unknown: Cache<Digest, ()>,
    lookups: Semaphore,
    floors: RwLock<Floors>,
    epoch: AtomicU64,
    /// The feed has been joined once.
    joined: AtomicBool,
}

#[derive(Clone, Debug)]
struct Entry {
    caller: Arc<Caller>,
    /// The feed was joined anew since: nobody knows what it missed.
    epoch: u64,
    /// How long it is used without asking; absent: as usual.
    life: Option<Duration>,
}

/// The lowest acceptable change number.
#[derive(Debug, Default)]
struct Floors {
    tenants: HashMap<String, u64>,
    groups: HashMap<String, u64>,
}

/// Floors kept; beyond it all memory is dropped instead.
const MAX_FLOORS: usize = 100_000;

/// Time to live ± 15 %, so that what was read together does not expire together.
#[derive(Debug)]
struct Jitter(Duration);

impl Expiry<Digest, Entry> for Jitter {
    fn expire_after_create(&self, _: &Digest, entry: &Entry, _: Instant) -> Option<Duration> {
        if entry.life.is_some() {
            return entry.life;
        }
        #[expect(clippy::disallowed_methods, reason = "jitter decides nothing")]
        let percent = rand::rng().random_range(85..=115);
        Some(self.0 * percent / 100)
    }
}

impl Principals {
    pub(crate) fn new(
        config: &config::Principals,
        timeout: Duration,
        auth: AuthClient<Rpc>,
    ) -> Self {
        let mut key = [0; 32];
        #[expect(clippy::disallowed_methods, reason = "a key of this process alone")]
        rand::Rng::fill_bytes(&mut rand::rng(), &mut key);
        Self(Arc::new(Shared {
            auth,
            timeout,
            unknown_ttl: config.unknown_ttl,
            key,
            fresh: Cache::builder()
                .max_capacity(config.capacity)
                .expire_after(Jitter(config.ttl))
                .build(),
            known: Cache::builder()
                .max_capacity(config.capacity)
                .time_to_live(config.ttl + config.grace)
                .build(),
            unknown: Cache::builder()
                .max_capacity(config.unknown_capacity)
                .time_to_live(config.unknown_ttl)
                .build(),
            lookups: Semaphore::new(config.lookups),
            floors: RwLock::default(),
            epoch: AtomicU64::new(0),
            joined: AtomicBool::new(false),
        }))
    }

    /// Whose credential this is, with its digest.
    ///
    /// # Errors
    /// `invalid_api_key` when nobody's; `unavailable` when it cannot be told.
    pub(crate) async fn find(&self, credential: &SecretString) -> Result<Arc<Caller>, Failure> {
        let text = credential.expose_secret();
        if text.is_empty() {
            return Err(Failure::new(
                Reason::InvalidApiKey,
                "no API key was given; send it as `Authorization: Bearer …`, `x-api-key` or `x-goog-api-key`",
            ));
        }
        let digest = self.digest(text)?;
        if let Some(entry) = self.0.fresh.get(&digest).await {
            if self.acceptable(&entry) {
                return Ok(entry.caller);
            }
            self.0.fresh.invalidate(&digest).await;
        }
        if self.0.unknown.contains_key(&digest) {
            return Err(unknown());
        }
        // Rare, and large.
        Box::pin(self.ask(digest, text)).await
    }

    async fn ask(&self, digest: Digest, text: &str) -> Result<Arc<Caller>, Failure> {
        let look_up = self.look_up(digest, text);
        match self.0.fresh.try_get_with(digest, look_up).await {
            Ok(entry) => Ok(entry.caller),
            Err(failure) => self.fall_back(digest, &failure).await,
        }
    }

    fn digest(&self, credential: &str) -> Result<Digest, Failure> {
        // A key of 32 bytes always fits.
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0.key).map_err(|_| Failure::internal())?;
        mac.update(credential.as_bytes());
        Ok(mac.finalize().into_bytes().into())
    }

    fn acceptable(&self, entry: &Entry) -> bool {
        let who = &entry.caller.principal;
        let floors = self.0.floors.read();
        let low = |floor: Option<&u64>| floor.is_some_and(|floor| who.change_seq < *floor);
        entry.epoch == self.0.epoch.load(Ordering::Acquire)
            && !low(floors.tenants.get(&who.tenant))
            && !low(floors.groups.get(&who.group))
    }

    async fn look_up(&self, digest: Digest, credential: &str) -> Result<Entry, Failure> {
        let busy = || Failure::new(Reason::Unavailable, "API keys cannot be checked right now");
        let _place = self.0.lookups.acquire().await.map_err(|_| busy())?;
        let epoch = self.0.epoch.load(Ordering::Acquire);
        let mut request = tonic::Request::new(AuthenticateRequest {
            credential: credential.to_owned(),
        });
        request.set_timeout(self.0.timeout);
        match self.0.auth.clone().authenticate(request).await {
            Ok(response) => {
                let principal = response.into_inner().principal.ok_or_else(busy)?;
                let caller = Arc::new(Caller::new(principal));
                let entry = Entry {
                    caller,
                    epoch,
                    life: None,
                };
                if !self.acceptable(&entry) {
                    // Auth itself is behind the change that it announced.
                    return Err(busy().retry_after(Duration::from_secs(1)));
                }
                self.0.known.insert(digest, entry.clone()).await;
                Ok(entry)
            }
            Err(status) => {
                let failure = Failure::from_status(&status);
                if failure.reason == Reason::InvalidApiKey {
                    self.0.unknown.insert(digest, ()).await;
                    self.0.known.invalidate(&digest).await;
                }
                Err(failure)
            }
        }
    }

    /// Known callers go on while auth cannot be asked.
    async fn fall_back(&self, digest: Digest, failure: &Failure) -> Result<Arc<Caller>, Failure> {
        match failure.reason {
            Reason::Unavailable | Reason::Internal | Reason::UpstreamTimeout => {
                let after = failure.retry_after.unwrap_or(Duration::from_secs(1));
                let busy = "API keys cannot be checked right now";
                let busy = Failure::new(Reason::Unavailable, busy).retry_after(after);
                let known = self
                    .0
                    .known
                    .get(&digest)
                    .await
                    .ok_or_else(|| busy.clone())?;
                // The feed may have been joined anew: only changes that are known count.
                let entry = Entry {
                    epoch: self.0.epoch.load(Ordering::Acquire),
                    life: Some(self.0.unknown_ttl),
                    ..known
                };
                if !self.acceptable(&entry) {
                    return Err(busy);
                }
                // Not every request of the grace period is to wait for an answer that does not come.
                self.0.fresh.insert(digest, entry.clone()).await;
                Ok(entry.caller)
            }
            Reason::InvalidApiKey => Err(unknown()),
            _ => Err(failure.clone()),
        }
    }

    /// Obeys auth's change feed.
    pub(crate) fn hear(&self, news: &News<'_>) {
        match news {
            // Joined for the first time: what changed before is unknown.
            News::Connected(_) if !self.0.joined.swap(true, Ordering::AcqRel) => {
                self.0.epoch.fetch_add(1, Ordering::AcqRel);
            }
            // What was missed while it was cut is delivered; time to live bounds staleness meanwhile.
            News::Connected(_) | News::Lost => {}
            News::Changes(changes) => {
                let mut floors = self.0.floors.write();
                if floors.tenants.len() + floors.groups.len() > MAX_FLOORS {
                    *floors = Floors::default();
                    self.0.epoch.fetch_add(1, Ordering::AcqRel);
                }
                for change in *changes {
                    let map = match change.scope.as_str() {
                        "group" => &mut floors.groups,
                        _ => &mut floors.tenants,
                    };
                    map.insert(change.id.clone(), change.seq);
                }
                drop(floors);
                // A key that was unknown may have been made now.
                self.0.unknown.invalidate_all();
            }
        }
    }
}

fn unknown() -> Failure {
    Failure::new(Reason::InvalidApiKey, "this API key is not valid")
}
