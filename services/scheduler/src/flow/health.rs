//! What attempts teach: averages in batches, cooldowns at once; and the refresh that brings what others learnt (SCHED-5).

use std::{
    collections::HashMap,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use switchboard_common::ids::{AccountName, ModelName};
use switchboard_proto::scheduler::v1::{AttemptOutcome, Blame as WireBlame, FailureKind};
use switchboard_state::{
    admission::Pool,
    health::{Cooldown, Observation, Target},
};

use super::core::Core;
use crate::domain::{
    cooldown::{self, CONFIRMED, Hold, Scope},
    filter,
    known::Why,
    outcome::{Blame, Failed, Outcome},
    supply::{AccountStatus, Supply},
};

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ok: u32,
    failed: u32,
    first_token_us: u64,
    first_tokens: u32,
}

/// What attempts taught since the last refresh. Bounded by the targets that were used in between.
#[derive(Default)]
pub struct Observed {
    seen: Mutex<HashMap<AccountName, HashMap<ModelName, Seen>>>,
    /// Numbers the refreshes.
    pub refresh: AtomicU64,
}

impl Observed {
    fn add(&self, account: &str, model: &str, outcome: &Outcome) {
        let Some(ok) = outcome.health() else { return };
        let mut all = self.seen.lock();
        if !all.contains_key(account) {
            all.insert(account.into(), HashMap::new());
        }
        let Some(models) = all.get_mut(account) else {
            return;
        };
        if !models.contains_key(model) {
            models.insert(model.into(), Seen::default());
        }
        let Some(seen) = models.get_mut(model) else {
            return;
        };
        if ok {
            seen.ok += 1;
        } else {
            seen.failed += 1;
        }
        if let Some(us) = outcome.first_token_us {
            seen.first_token_us = seen.first_token_us.saturating_add(us);
            seen.first_tokens += 1;
        }
    }

    fn take(&self) -> Vec<Observation> {
        let all = std::mem::take(&mut *self.seen.lock());
        all.into_iter()
            .flat_map(|(account, models)| {
                models.into_iter().map(move |(model, seen)| Observation {
                    target: Target {
                        account: account.clone(),
                        model: Some(model.as_str().into()),
                    },
                    ok: seen.ok,
                    failed: seen.failed,
                    first_token_us: seen.first_token_us,
                    first_tokens: seen.first_tokens,
                })
            })
            .collect()
    }
}

impl Core {
    /// Takes in what an attempt taught: its health with the next refresh, a cooldown at once.
    pub async fn learn(&self, outcome: &AttemptOutcome) {
        let read = read(outcome);
        self.observed
            .add(&outcome.account, &outcome.upstream_model, &read);
        if read.failed.is_none() {
            return;
        }
        let supply = self.catalogue.current();
        let Some(account) = supply.accounts.get(outcome.account.as_str()) else {
            return;
        };
        let Some(mut hold) = cooldown::hold(&read, account.cooldown_max) else {
            return;
        };
        if self.leaves_nobody(&supply, outcome, hold.scope) {
            hold = cooldown::capped(hold, self.config.last_account_cooldown);
        }
        self.cool(outcome, hold).await;
    }

    async fn cool(&self, outcome: &AttemptOutcome, hold: Hold) {
        let account = AccountName::from(outcome.account.as_str());
        let model = ModelName::from(outcome.upstream_model.as_str());
        let cooled = self
            .health
            .cool(&Cooldown {
                target: Target {
                    account: account.clone(),
                    model: (hold.scope == Scope::Target).then(|| model.as_str().into()),
                },
                hold: hold.length,
                backoff_max: hold.backoff_max,
                reason: hold.why.text().into(),
            })
            .await;
        let (until_ms, strikes) = match cooled {
            Ok(cooled) => (cooled.until_ms, cooled.strikes),
            Err(error) => {
                tracing::debug!(%error, "a cooldown is known to this process alone");
                let length = i64::try_from(hold.length.as_millis()).unwrap_or(i64::MAX);
                (self.clock.now_ms().saturating_add(length), 0)
            }
        };
        let why = confirmed(hold.why, strikes);
        let refresh = self.observed.refresh.load(Ordering::Relaxed);
        match hold.scope {
            Scope::Account => self
                .registry
                .account(&account)
                .rest
                .hold(until_ms, why, refresh),
            Scope::Target => {
                let cell = self.registry.target(&account, &model);
                cell.rest.hold(until_ms, why, refresh);
            }
        }
        tracing::info!(
            account = %account,
            upstream_model = %model,
            reason = why.text(),
            until_ms,
            "cooling down"
        );
    }

    /// Whether some model would have nobody usable left without this account, or this target.
    fn leaves_nobody(&self, supply: &Supply, outcome: &AttemptOutcome, scope: Scope) -> bool {
        let now_ms = self.clock.now_ms();
        let account = outcome.account.as_str();
        let models = supply.models_of.get(account);
        models
            .into_iter()
            .flatten()
            .filter(|model| model.active)
            .any(|model| {
                let falls = |target: &crate::domain::supply::Target| {
                    target.account.name.as_str() == account
                        && (scope == Scope::Account
                            || target
                                .upstream_model
                                .as_ref()
                                .is_none_or(|name| name.as_str() == outcome.upstream_model))
                };
                model.targets.iter().any(falls)
                    && !model.targets.iter().any(|target| {
                        !falls(target)
                            && target.weight > 0
                            && target.account.status == AccountStatus::Active
                            && filter::rested(
                                now_ms,
                                crate::domain::choice::rests_until_ms(target, None),
                            )
                    })
            })
    }

    /// For ever: tells the shared state what was seen, and takes over what it knows.
    pub async fn refresh_health(self: &Arc<Self>) {
        loop {
            self.refresh_once().await;
            tokio::time::sleep(self.config.health_refresh).await;
        }
    }

    async fn refresh_once(&self) {
        let seen = self.observed.take();
        if !seen.is_empty()
            && let Err(error) = self.health.observe(&seen).await
        {
            tracing::debug!(%error, "what attempts taught is lost");
        }
        let refresh = self.observed.refresh.fetch_add(1, Ordering::Relaxed) + 1;
        match self.health.snapshot().await {
            Ok(all) => self.take_over(&all, refresh),
            Err(error) => tracing::debug!(%error, "health of the shared state is not known"),
        }
        self.refresh_load().await;
        self.expire_leases();
    }

    fn take_over(
        &self,
        all: &HashMap<Target, switchboard_state::health::TargetHealth>,
        refresh: u64,
    ) {
        let now_ms = self.clock.now_ms();
        let mut resting = 0;
        for (target, health) in all {
            // A pattern's targets get their cells here, by the names that were really asked.
            if let Some(model) = &target.model
                && health.cooled_until_ms > now_ms
            {
                let _ = self
                    .registry
                    .target(&target.account, &ModelName::from(&**model));
            }
        }
        self.registry.each_account(|account, cell| {
            let key = Target {
                account: account.clone(),
                model: None,
            };
            let health = all.get(&key);
            let until_ms = health.map_or(0, |health| health.cooled_until_ms);
            cell.rest.set(until_ms, health.and_then(why), refresh);
            resting += i64::from(cell.rest.until_ms() > now_ms);
        });
        self.registry.each_target(|account, model, cell| {
            let key = Target {
                account: account.clone(),
                model: Some(model.as_str().into()),
            };
            let health = all.get(&key);
            let until_ms = health.map_or(0, |health| health.cooled_until_ms);
            cell.rest.set(until_ms, health.and_then(why), refresh);
            resting += i64::from(cell.rest.until_ms() > now_ms);
            cell.set_averages(
                health.map_or(0.0, |health| health.error_rate),
                health.and_then(|health| health.ttft_us).map(whole_us),
            );
        });
        self.counted.cooldowns_active.set(resting);
        self.registry.forget(|account, model| {
            let key = Target {
                account: account.clone(),
                model: Some(model.as_str().into()),
            };
            all.get(&key)
                .is_some_and(|health| health.cooled_until_ms > now_ms)
        });
    }

    /// Looks at the load of the accounts that were asked since the last time.
    async fn refresh_load(&self) {
        let supply = self.catalogue.current();
        let asked: Vec<_> = supply
            .accounts
            .values()
            .filter(|account| account.known.was_asked())
            .collect();
        if asked.is_empty() {
            return;
        }
        let pools: Vec<Pool> = asked
            .iter()
            .map(|account| Pool::Account(account.name.clone()))
            .collect();
        if let Ok(used) = self.admission.usage(&pools).await {
            for (account, used) in asked.iter().zip(used) {
                account
                    .known
                    .set_used(i64::try_from(used).unwrap_or(i64::MAX));
            }
        }
    }

    fn expire_leases(&self) {
        self.table.expire(self.clock.now_ms(), |held| {
            self.counted.slots_held.dec();
            if let Some(known) = &held.known {
                known.freed();
            }
        });
    }

    /// Lifts cooldowns of one account, or of all; answers how many.
    ///
    /// # Errors
    /// The state store does not answer.
    pub async fn reset_cooldowns(
        &self,
        account: Option<&AccountName>,
    ) -> Result<u32, crate::Error> {
        let lifted = self.health.reset(account).await?;
        self.refresh_once().await;
        Ok(lifted)
    }
}

fn why(health: &switchboard_state::health::TargetHealth) -> Option<Why> {
    Why::from_text(&health.reason).map(|why| confirmed(why, health.strikes))
}

fn confirmed(why: Why, strikes: u32) -> Why {
    if why == Why::Credential && strikes >= CONFIRMED {
        Why::NeedsLogin
    } else {
        why
    }
}

fn whole_us(us: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(us / 1e6).map_or(0, |time| {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    })
}

fn read(wire: &AttemptOutcome) -> Outcome {
    Outcome {
        status: wire.status,
        blame: match WireBlame::try_from(wire.blame) {
            Ok(WireBlame::Account) => Blame::Account,
            Ok(WireBlame::Model) => Blame::Model,
            Ok(WireBlame::Host) => Blame::Host,
            Ok(WireBlame::Request) => Blame::Request,
            Ok(WireBlame::Nobody | WireBlame::Unspecified) | Err(_) => Blame::Nobody,
        },
        failed: match FailureKind::try_from(wire.failure) {
            Ok(FailureKind::RateLimited) => Some(Failed::RateLimited),
            Ok(FailureKind::Credential) => Some(Failed::Credential),
            Ok(FailureKind::Quota) => Some(Failed::Quota),
            Ok(FailureKind::Overloaded) => Some(Failed::Overloaded),
            Ok(FailureKind::Server) => Some(Failed::Server),
            Ok(FailureKind::Network) => Some(Failed::Network),
            Ok(FailureKind::Timeout) => Some(Failed::Timeout),
            Ok(FailureKind::Request) => Some(Failed::Request),
            Ok(FailureKind::Address) => Some(Failed::Address),
            Ok(FailureKind::Unspecified) | Err(_) => None,
        },
        retry_after_ms: wire.retry_after_ms,
        first_token_us: wire.first_token_us,
    }
}
