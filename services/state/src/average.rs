//! The arithmetic of health: the averages of one target, its open second and its cooldown. The Redis scripts do the same sums.

use std::{sync::Arc, time::Duration};

use crate::health::{ALPHA, Cooldown, Observation, TargetHealth};

/// What is stored of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// Share of failures; absent before the first closed second.
    pub(crate) error_rate: Option<f64>,
    pub(crate) ttft_us: Option<f64>,
    pub(crate) samples: u64,
    /// The second (Unix) that is being filled.
    pub(crate) second: i64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) first_token_us: u64,
    pub(crate) first_tokens: u64,
    pub(crate) cooled_until_ms: i64,
    pub(crate) strikes: u32,
    pub(crate) reason: Arc<str>,
    pub(crate) last_ms: i64,
}

impl Record {
    pub(crate) fn observe(&mut self, seen: &Observation, now_ms: i64) {
        let second = now_ms / 1_000;
        if second != self.second {
            self.close();
            self.second = second;
        }
        self.ok += u64::from(seen.ok);
        self.failed += u64::from(seen.failed);
        self.first_token_us += seen.first_token_us;
        self.first_tokens += u64::from(seen.first_tokens);
        self.samples += u64::from(seen.ok) + u64::from(seen.failed);
        self.last_ms = now_ms;
        if seen.ok > 0 {
            self.strikes = 0;
        }
    }

    pub(crate) fn cool(&mut self, cooldown: &Cooldown, now_ms: i64) {
        let base = i64::try_from(cooldown.hold.as_millis()).unwrap_or(i64::MAX / 4);
        // Failures of requests that ran side by side are one strike.
        if self.cooled_until_ms <= now_ms {
            self.strikes += 1;
        }
        let hold = cooldown.backoff_max.map_or(base, |max| {
            let max = i64::try_from(max.as_millis()).unwrap_or(i64::MAX / 4);
            let doublings = self.strikes.saturating_sub(1).min(30);
            base.saturating_mul(1 << doublings).min(max.max(base))
        });
        let until = now_ms + hold;
        if until > self.cooled_until_ms {
            self.cooled_until_ms = until;
            self.reason = Arc::clone(&cooldown.reason);
        }
    }

    /// As it reads at `now_ms` of the store's clock, which is `ahead_ms` ahead of the asker's.
    pub(crate) fn view(&self, now_ms: i64, ahead_ms: i64, half_life: Duration) -> TargetHealth {
        let mut closed = self.clone();
        if now_ms / 1_000 > self.second {
            closed.close();
        }
        let idle_ms = (now_ms - self.last_ms).max(0);
        let freshness = if self.samples == 0 {
            0.0
        } else {
            0.5_f64.powf(idle_ms as f64 / (half_life.as_millis() as f64).max(1.0))
        };
        let cooled = self.cooled_until_ms > now_ms;
        TargetHealth {
            error_rate: closed.error_rate.unwrap_or(0.0) * freshness,
            ttft_us: closed.ttft_us,
            freshness,
            samples: self.samples,
            cooled_until_ms: if cooled {
                self.cooled_until_ms - ahead_ms
            } else {
                0
            },
            reason: if cooled {
                Arc::clone(&self.reason)
            } else {
                Arc::from("")
            },
            strikes: self.strikes,
            last_ms: if self.samples == 0 {
                0
            } else {
                self.last_ms - ahead_ms
            },
        }
    }

    /// Moves the averages by the open second's mean and opens another.
    fn close(&mut self) {
        let all = self.ok + self.failed;
        if all > 0 {
            self.error_rate = Some(moved(
                self.error_rate,
                self.failed as f64 / all as f64,
                // Before the first failure the target counts as sound, so that one does not condemn it.
                Some(0.0),
            ));
        }
        if self.first_tokens > 0 {
            self.ttft_us = Some(moved(
                self.ttft_us,
                self.first_token_us as f64 / self.first_tokens as f64,
                None,
            ));
        }
        (self.ok, self.failed) = (0, 0);
        (self.first_token_us, self.first_tokens) = (0, 0);
    }
}

/// The next average; without a previous one it starts from `start`, or at the mean itself.
fn moved(average: Option<f64>, mean: f64, start: Option<f64>) -> f64 {
    match average.or(start) {
        Some(average) => average + ALPHA * (mean - average),
        None => mean,
    }
}

#[cfg(test)]
mod tests;
