//! The forwarder's memory of upstream credentials. Bounded; a change in the vault ends an entry; an older generation never
//! replaces a newer one. Secrets are in no log, no error and no `Debug`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use moka::{Expiry, future::Cache};
use secrecy::{ExposeSecret as _, SecretString};
use switchboard_common::{
    clock::SharedClock,
    error::{Failure, Reason},
    feed::News,
    grpc::Rpc,
};
use switchboard_proto::credentials::v1::{GetRequest, credentials_client::CredentialsClient};

/// See the module's page. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Vault {
    credentials: CredentialsClient<Rpc>,
    timeout: Duration,
    cache: Cache<String, Arc<Secret>>,
}

/// A secret and its generation.
#[derive(Debug)]
pub(crate) struct Secret {
    secret: SecretString,
    /// Rises with each renewal.
    pub(crate) generation: u64,
    /// How long it may be kept from when it was read.
    life: Option<Duration>,
}

impl Secret {
    /// The secret itself, for whoever sends it.
    pub(crate) fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// Whether `body` repeats it: as it is, or behind the escapes of JSON.
    pub(crate) fn occurs_in(&self, body: &[u8]) -> bool {
        let secret = self.secret.expose_secret();
        if secret.len() < 8 {
            return false;
        }
        let within =
            |body: &[u8], secret: &str| memchr::memmem::find(body, secret.as_bytes()).is_some();
        if within(body, secret) {
            return true;
        }
        if memchr::memchr(b'\\', body).is_none() {
            return false;
        }
        // Written anew, both have the same escapes.
        let plain = serde_json::from_slice::<serde_json::Value>(body);
        let quoted = serde_json::to_string(secret).unwrap_or_default();
        let quoted = quoted.trim_matches('"');
        plain.is_ok_and(|plain| within(plain.to_string().as_bytes(), quoted))
    }
}

struct Life;

impl Expiry<String, Arc<Secret>> for Life {
    fn expire_after_create(
        &self,
        _: &String,
        secret: &Arc<Secret>,
        _: Instant,
    ) -> Option<Duration> {
        secret.life
    }
}

/// A secret that ends sooner is asked for anew.
const SHORT_OF_LIFE: i64 = 30_000;

impl Vault {
    pub(crate) fn new(
        capacity: u64,
        timeout: Duration,
        credentials: CredentialsClient<Rpc>,
    ) -> Self {
        Self {
            credentials,
            timeout,
            cache: Cache::builder()
                .max_capacity(capacity)
                .expire_after(Life)
                .build(),
        }
    }

    /// The account's secret; `stale` is the generation that the upstream refused, 0 for none.
    ///
    /// # Errors
    /// The vault has none, or cannot be asked.
    pub(crate) async fn secret(
        &self,
        account: &str,
        stale: u64,
        clock: &SharedClock,
    ) -> Result<Arc<Secret>, Failure> {
        if stale == 0
            && let Some(secret) = self.cache.get(account).await
        {
            return Ok(secret);
        }
        let known = self.cache.get(account).await;
        if let Some(newer) = known.filter(|secret| secret.generation > stale) {
            return Ok(newer);
        }
        // Rare, and large.
        Box::pin(self.renew(account, stale, clock)).await
    }

    async fn renew(
        &self,
        account: &str,
        stale: u64,
        clock: &SharedClock,
    ) -> Result<Arc<Secret>, Failure> {
        self.cache.invalidate(account).await;
        let read = self.read(account, stale, clock);
        let read = self.cache.try_get_with_by_ref(account, read).await;
        read.map_err(|failure| (*failure).clone())
    }

    async fn read(
        &self,
        account: &str,
        stale_generation: u64,
        clock: &SharedClock,
    ) -> Result<Arc<Secret>, Failure> {
        let mut request = tonic::Request::new(GetRequest {
            account: account.to_owned(),
            stale_generation,
        });
        request.set_timeout(self.timeout);
        let answer = self.credentials.clone().get(request).await;
        let answer = answer.map_err(|status| Failure::from_status(&status))?;
        let answer = answer.into_inner();
        let now = clock.now_ms();
        let life = answer.expires_at_ms.map(|end| {
            let left = end.saturating_sub(now).saturating_sub(SHORT_OF_LIFE);
            Duration::from_millis(u64::try_from(left).unwrap_or(0))
        });
        if answer.secret.is_empty() {
            return Err(Failure::new(
                Reason::UpstreamCredentialsExhausted,
                "the account has no credential",
            ));
        }
        Ok(Arc::new(Secret {
            secret: SecretString::from(answer.secret),
            generation: answer.generation,
            life,
        }))
    }

    /// Obeys the vault's change feed.
    pub(crate) fn hear(&self, news: &News<'_>) {
        match news {
            News::Changes(changes) => {
                for change in *changes {
                    // Ready at once unless moka is in the middle of its own housekeeping.
                    if self.cache.invalidate(&change.id).now_or_never().is_none() {
                        self.cache.invalidate_all();
                    }
                }
            }
            News::Connected(_) | News::Lost => {}
        }
    }
}
