//! Which account keeps a response (SCHED-6): written before its caller learns the id, read through a bounded memory.
//!
//! What comes while a statement runs is written by the next one, all together: the database is asked once however many
//! responses begin. Nothing is remembered of ids that are not there: another process may write them any time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use moka::future::Cache;
use parking_lot::Mutex;
use switchboard_common::{clock::SharedClock, db::Database, error::Failure, ids::AccountName};
use tokio::sync::{Semaphore, oneshot};

use super::refusal;
use crate::{
    Error,
    store::{self, Binding, Bound},
};

/// Rows of one statement at most.
const TOGETHER: usize = 64;
/// The longest id that is remembered, bytes.
const LONGEST: usize = 256;
/// How often expired rows are removed.
const SWEEP: Duration = Duration::from_secs(3_600);

/// What is remembered of a response.
#[derive(Clone, Debug)]
struct Known {
    account: AccountName,
    public_model: Arc<str>,
    /// Something may be left to settle: that is read anew.
    unsettled: bool,
    expires_at_ms: i64,
}

type Told = oneshot::Sender<Result<(), Failure>>;

/// All responses.
pub struct Responses {
    store: store::Responses,
    clock: SharedClock,
    ttl: Duration,
    known: Cache<(Box<str>, Box<str>), Known>,
    waiting: Mutex<Vec<(Bound, Told)>>,
    turn: Semaphore,
}

impl Responses {
    /// Over a database whose schema is there, or will be. `kept` are remembered in memory.
    #[must_use]
    pub fn new(database: Database, clock: SharedClock, ttl: Duration, kept: u64) -> Self {
        Self {
            store: store::Responses::new(database),
            clock,
            ttl,
            known: Cache::new(kept),
            waiting: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }

    /// Writes down who keeps a response.
    ///
    /// # Errors
    /// It cannot be, or the database does not answer. Then it may be written or not.
    pub async fn bind(&self, bound: Bound) -> Result<(), Failure> {
        if !may_be_asked_for(&bound.response_id) {
            return Err(refusal::invalid(
                "response_id",
                "1 to 256 letters, digits and `-_.:~=+`",
            ));
        }
        let (tell, mut told) = oneshot::channel();
        self.waiting.lock().push((bound, tell));
        loop {
            // Whoever has the turn writes for all that wait; one that is dropped meanwhile leaves its part to the next.
            let turn = self.turn.acquire().await;
            match told.try_recv() {
                Ok(done) => return done,
                Err(oneshot::error::TryRecvError::Empty) => self.write().await,
                // Its writer was dropped in the middle.
                Err(oneshot::error::TryRecvError::Closed) => {
                    return Err(Error::Interrupted.into());
                }
            }
            drop(turn);
        }
    }

    async fn write(&self) {
        let batch: Vec<_> = {
            let mut waiting = self.waiting.lock();
            let many = waiting.len().min(TOGETHER);
            waiting.drain(..many).collect()
        };
        let mut rows: HashMap<(&str, &str), &Bound> = HashMap::with_capacity(batch.len());
        for (bound, _) in &batch {
            rows.insert((&bound.tenant, &bound.response_id), bound);
        }
        let rows: Vec<_> = rows.into_values().collect();
        let expires_at_ms = self.expires_at_ms();
        let done = self.store.put(&rows, expires_at_ms).await;
        let done = done.map_err(|error| Failure::from(Error::Database(error)));
        for (bound, tell) in batch {
            if done.is_ok() {
                self.remember(&bound, expires_at_ms).await;
            }
            // Who left needs no answer.
            let _ = tell.send(done.clone());
        }
    }

    fn expires_at_ms(&self) -> i64 {
        let ttl = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX);
        self.clock.now_ms().saturating_add(ttl)
    }

    async fn remember(&self, bound: &Bound, expires_at_ms: i64) {
        let key = (
            bound.tenant.as_str().into(),
            bound.response_id.as_str().into(),
        );
        let known = Known {
            account: bound.binding.account.as_str().into(),
            public_model: bound.binding.public_model.as_str().into(),
            unsettled: !bound.binding.unsettled.is_empty(),
            expires_at_ms,
        };
        self.known.insert(key, known).await;
    }

    /// The account that keeps a response of this tenant; `None`: it has none of this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn account(&self, tenant: &str, id: &str) -> Result<Option<AccountName>, Error> {
        if let Some(known) = self.known(tenant, id).await {
            return Ok(Some(known.account));
        }
        let found = self.read(tenant, id).await?;
        Ok(found.map(|binding| binding.account.into()))
    }

    /// All that is written down of a response of this tenant; `None`: it has none of this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find(&self, tenant: &str, id: &str) -> Result<Option<Binding>, Error> {
        match self.known(tenant, id).await {
            Some(known) if !known.unsettled => Ok(Some(Binding {
                account: known.account.into(),
                public_model: known.public_model.to_string(),
                unsettled: Vec::new(),
            })),
            _ => self.read(tenant, id).await,
        }
    }

    async fn known(&self, tenant: &str, id: &str) -> Option<Known> {
        let key = (tenant.into(), id.into());
        let known = self.known.get(&key).await?;
        (known.expires_at_ms > self.clock.now_ms()).then_some(known)
    }

    async fn read(&self, tenant: &str, id: &str) -> Result<Option<Binding>, Error> {
        if !may_be_asked_for(id) {
            return Ok(None);
        }
        let now_ms = self.clock.now_ms();
        let found = self.store.get(tenant, id, now_ms).await?;
        if let Some(binding) = &found {
            let bound = Bound {
                tenant: tenant.to_owned(),
                response_id: id.to_owned(),
                binding: binding.clone(),
            };
            // Its row may end earlier than this says, but not by more than a memory lives.
            self.remember(&bound, now_ms.saturating_add(REMEMBERED_MS))
                .await;
        }
        Ok(found)
    }

    /// Removes what has expired, for ever.
    pub async fn sweep(&self) {
        loop {
            match self.store.sweep(self.clock.now_ms()).await {
                Ok(true) => {}
                Ok(false) => tokio::time::sleep(SWEEP).await,
                Err(error) => {
                    tracing::warn!(%error, "expired responses cannot be removed");
                    tokio::time::sleep(SWEEP).await;
                }
            }
        }
    }
}

/// How long a row that was read is believed, milliseconds.
const REMEMBERED_MS: i64 = 60_000;

/// Whether an id can stand in a path as it is: others are not remembered, and nobody is asked for them.
fn may_be_asked_for(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:~=+".contains(&byte);
    (1..=LONGEST).contains(&id.len()) && id.bytes().all(fits) && !id.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_would_change_a_path_is_none() {
        for good in ["resp_0123abcDEF", "a", "bGl0ZWxsbTo=", "r-1.x:y~z+"] {
            assert!(may_be_asked_for(good), "{good}");
        }
        let long = "r".repeat(257);
        for bad in [
            "", "..", ".x", "a/b", "a?b", "a b", "a%2fb", "a\0", "\u{e4}", &long,
        ] {
            assert!(!may_be_asked_for(bad), "{bad}");
        }
    }
}
