//! Averages and cooldowns in Redis, all in one hash: there are as many as the catalogue has targets.

use std::{collections::HashMap, sync::Arc, time::Duration};

use switchboard_common::{clock::SharedClock, ids::AccountName};

use super::link::{Arguments, Link};
use crate::{
    average::Record,
    error::Error,
    health::{Cooldown, Cooled, Health, Observation, Target, TargetHealth},
};

/// See [`Health`].
pub(crate) struct RedisHealth {
    link: Arc<Link>,
    clock: SharedClock,
    half_life: Duration,
    targets: String,
}

impl RedisHealth {
    pub(crate) fn new(link: Arc<Link>, clock: SharedClock, half_life: Duration) -> Self {
        Self {
            targets: format!("{}{{h}}:targets", link.prefix),
            link,
            clock,
            half_life,
        }
    }
}

fn name_of(target: &Target) -> String {
    match &target.model {
        Some(model) => format!("{}\0{model}", target.account),
        None => target.account.to_string(),
    }
}

fn target_of(name: &str) -> Target {
    match name.split_once('\0') {
        Some((account, model)) => Target {
            account: account.into(),
            model: Some(model.into()),
        },
        None => Target {
            account: name.into(),
            model: None,
        },
    }
}

/// Reads the fields in the order of health.lua.
fn record_of(fields: &str) -> Option<Record> {
    let mut parts = fields.splitn(12, '|');
    let mut next = || parts.next();
    let whole = |text: &str| text.parse::<f64>().ok().map(|number| number as i64);
    let count = |text: &str| whole(text).and_then(|number| u64::try_from(number).ok());
    Some(Record {
        error_rate: next()?.parse().ok(),
        ttft_us: next()?.parse().ok(),
        samples: count(next()?)?,
        second: whole(next()?)?,
        ok: count(next()?)?,
        failed: count(next()?)?,
        first_token_us: count(next()?)?,
        first_tokens: count(next()?)?,
        cooled_until_ms: whole(next()?)?,
        strikes: u32::try_from(count(next()?)?).ok()?,
        last_ms: whole(next()?)?,
        reason: next()?.into(),
    })
}

#[async_trait::async_trait]
impl Health for RedisHealth {
    async fn observe(&self, observations: &[Observation]) -> Result<(), Error> {
        if observations.is_empty() {
            return Ok(());
        }
        let mut arguments = Arguments::default();
        for seen in observations {
            arguments
                .add(name_of(&seen.target))
                .add(seen.ok)
                .add(seen.failed)
                .add(seen.first_token_us)
                .add(seen.first_tokens);
        }
        self.link
            .call::<i64>(&self.link.scripts.observe, &[&self.targets], &arguments)
            .await
            .map(|_| ())
    }

    async fn cool(&self, cooldown: &Cooldown) -> Result<Cooled, Error> {
        let mut arguments = Arguments::default();
        arguments
            .add(name_of(&cooldown.target))
            .add(cooldown.hold.as_millis().to_string());
        match cooldown.backoff_max {
            Some(max) => arguments.add(max.as_millis().to_string()),
            None => arguments.add(""),
        };
        arguments.add(&*cooldown.reason);
        let (left_ms, strikes): (i64, u32) = self
            .link
            .call(&self.link.scripts.cool, &[&self.targets], &arguments)
            .await?;
        Ok(Cooled {
            until_ms: self.clock.now_ms() + left_ms,
            strikes,
        })
    }

    async fn reset(&self, account: Option<&AccountName>) -> Result<u32, Error> {
        let mut arguments = Arguments::default();
        if let Some(account) = account {
            arguments.add(account.as_str());
        }
        self.link
            .call(&self.link.scripts.reset, &[&self.targets], &arguments)
            .await
    }

    async fn snapshot(&self) -> Result<HashMap<Target, TargetHealth>, Error> {
        let (store_ms, targets): (i64, Vec<(String, String)>) = self
            .link
            .call(
                &self.link.scripts.snapshot,
                &[&self.targets],
                &Arguments::default(),
            )
            .await?;
        let ahead_ms = store_ms - self.clock.now_ms();
        Ok(targets
            .iter()
            .filter_map(|(name, fields)| {
                let record = record_of(fields)?;
                Some((
                    target_of(name),
                    record.view(store_ms, ahead_ms, self.half_life),
                ))
            })
            .collect())
    }
}
