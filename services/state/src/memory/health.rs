//! Averages and cooldowns in this process's memory.

use std::{collections::HashMap, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use switchboard_common::{clock::SharedClock, ids::AccountName};

use crate::{
    average::Record,
    error::Error,
    health::{Cooldown, Cooled, Health, Observation, Target, TargetHealth},
};

/// See [`Health`]. Bounded by the catalogue: one record per account and model.
pub(crate) struct MemoryHealth {
    clock: SharedClock,
    half_life: Duration,
    targets: Mutex<HashMap<Target, Record, RandomState>>,
}

impl MemoryHealth {
    pub(crate) fn new(clock: SharedClock, half_life: Duration) -> Self {
        Self {
            clock,
            half_life,
            targets: Mutex::default(),
        }
    }
}

#[async_trait::async_trait]
impl Health for MemoryHealth {
    async fn observe(&self, observations: &[Observation]) -> Result<(), Error> {
        let now_ms = self.clock.now_ms();
        let mut targets = self.targets.lock();
        for seen in observations {
            targets
                .entry(seen.target.clone())
                .or_default()
                .observe(seen, now_ms);
        }
        Ok(())
    }

    async fn cool(&self, cooldown: &Cooldown) -> Result<Cooled, Error> {
        let now_ms = self.clock.now_ms();
        let mut targets = self.targets.lock();
        let record = targets.entry(cooldown.target.clone()).or_default();
        record.cool(cooldown, now_ms);
        Ok(Cooled {
            until_ms: record.cooled_until_ms,
            strikes: record.strikes,
        })
    }

    async fn reset(&self, account: Option<&AccountName>) -> Result<u32, Error> {
        let now_ms = self.clock.now_ms();
        let mut lifted = 0;
        for (target, record) in self.targets.lock().iter_mut() {
            if account.is_none_or(|account| *account == target.account) {
                lifted += u32::from(record.cooled_until_ms > now_ms);
                record.cooled_until_ms = 0;
                record.strikes = 0;
                record.reason = Arc::from("");
            }
        }
        Ok(lifted)
    }

    async fn snapshot(&self) -> Result<HashMap<Target, TargetHealth>, Error> {
        let now_ms = self.clock.now_ms();
        Ok(self
            .targets
            .lock()
            .iter()
            .map(|(target, record)| (target.clone(), record.view(now_ms, 0, self.half_life)))
            .collect())
    }
}
