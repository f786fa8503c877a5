//! Health while the store is away: nothing is known (`open`), or what this process sees (`local_share`).

use std::collections::HashMap;

use switchboard_common::ids::AccountName;

use super::cache::passed;
use crate::{
    config::Policy,
    error::Error,
    health::{Cooldown, Cooled, Health, Observation, Target, TargetHealth},
    memory::health::MemoryHealth,
    redis::health::RedisHealth,
};

/// See [`Health`].
pub(crate) struct GuardedHealth {
    pub(crate) store: RedisHealth,
    pub(crate) local: MemoryHealth,
    pub(crate) policy: Policy,
}

#[async_trait::async_trait]
impl Health for GuardedHealth {
    async fn observe(&self, observations: &[Observation]) -> Result<(), Error> {
        if self.policy == Policy::LocalShare {
            self.local.observe(observations).await?;
        }
        passed(self.store.observe(observations).await, self.policy)
    }

    async fn cool(&self, cooldown: &Cooldown) -> Result<Cooled, Error> {
        let local = self.local.cool(cooldown).await?;
        match self.store.cool(cooldown).await {
            Ok(cooled) => Ok(cooled),
            Err(error) if self.policy == Policy::Closed => Err(error),
            Err(_) => Ok(local),
        }
    }

    async fn reset(&self, account: Option<&AccountName>) -> Result<u32, Error> {
        let local = self.local.reset(account).await?;
        match self.store.reset(account).await {
            Ok(lifted) => Ok(lifted),
            Err(error) if self.policy == Policy::Closed => Err(error),
            Err(_) => Ok(local),
        }
    }

    async fn snapshot(&self) -> Result<HashMap<Target, TargetHealth>, Error> {
        match (self.store.snapshot().await, self.policy) {
            (Ok(known), _) => Ok(known),
            (Err(error), Policy::Closed) => Err(error),
            (Err(_), Policy::Open) => Ok(HashMap::new()),
            (Err(_), Policy::LocalShare) => self.local.snapshot().await,
        }
    }
}
