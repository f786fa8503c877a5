//! The arithmetic of a token bucket, in thousandths of a unit and microseconds. The Redis script does the same sums.
//!
//! A bucket is stored as what is missing from full, so that a bucket nobody knows is a full one.

use crate::admission::{BucketSpec, BucketState, BucketUnit};

/// Capacities and costs above this count as this: products of the arithmetic then fit the 53 bits of the script's numbers.
pub(crate) const MAX_UNITS: u64 = 100_000_000;
/// Rates above this count as this.
pub(crate) const MAX_RATE: u64 = 1_000_000_000;
/// A debt grows no further than this, in thousandths.
pub(crate) const MAX_MISSING: i64 = 150_000_000_000;
/// Thousandths per unit.
pub(crate) const MILLI: i64 = 1_000;
/// `microseconds × rate per minute ÷ this` = thousandths.
const REFILL_DIVISOR: i64 = 60_000;

/// What a request asks of a bucket, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) rate: i64,
    pub(crate) capacity: i64,
    pub(crate) cost: i64,
    pub(crate) tokens: bool,
}

impl Ask {
    /// Of a spec whose limit is shared by `share` processes.
    pub(crate) fn new(spec: &BucketSpec, share: u64) -> Self {
        let clamp = |value: u64, max: u64| i64::try_from(value.min(max)).unwrap_or(i64::MAX);
        Self {
            rate: clamp((spec.rate_per_minute / share).max(1), MAX_RATE),
            capacity: clamp((spec.capacity / share).max(1), MAX_UNITS) * MILLI,
            cost: clamp(spec.cost, MAX_UNITS) * MILLI,
            tokens: spec.unit == BucketUnit::Tokens,
        }
    }
}

/// A bucket that is not full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Thousandths missing from full; more than the capacity is debt.
    pub(crate) missing: i64,
    /// As of then, microseconds.
    pub(crate) at_us: i64,
}

impl Bucket {
    /// The bucket at `now_us`.
    pub(crate) fn refilled(mut self, rate: i64, now_us: i64) -> Self {
        if self.missing <= 0 {
            return Self {
                missing: 0,
                at_us: now_us,
            };
        }
        let elapsed = (now_us - self.at_us).max(0);
        // Longer than it takes to be full again the product could overflow.
        if elapsed >= micros_for(self.missing, rate) {
            return Self {
                missing: 0,
                at_us: now_us,
            };
        }
        let refill = elapsed * rate / REFILL_DIVISOR;
        if refill > 0 {
            self.missing -= refill;
            // Not `now_us`: what did not make a thousandth yet is kept.
            self.at_us += micros_for(refill, rate);
        }
        self
    }

    /// How much the ask takes, or after how many milliseconds it may be asked again.
    pub(crate) fn take(&self, ask: &Ask) -> Result<i64, u64> {
        let level = ask.capacity - self.missing;
        let need = if ask.tokens { MILLI } else { ask.cost };
        if level < need {
            return Err(millis_for(need - level, ask.rate));
        }
        Ok(if ask.tokens {
            ask.cost.min(level)
        } else {
            ask.cost
        })
    }

    /// Adds to what is missing, or gives back.
    pub(crate) fn charge(&mut self, milli: i64) {
        self.missing = (self.missing + milli).clamp(0, MAX_MISSING);
    }

    /// For the caller's headers.
    pub(crate) fn state(&self, ask: &Ask) -> BucketState {
        let whole = |milli: i64| u64::try_from(milli / MILLI).unwrap_or(0);
        BucketState {
            remaining: whole(ask.capacity - self.missing),
            limit: whole(ask.capacity),
            reset_ms: millis_for(self.missing, ask.rate),
        }
    }
}

/// Microseconds until `milli` thousandths are refilled, rounded up.
fn micros_for(milli: i64, rate: i64) -> i64 {
    (milli * REFILL_DIVISOR + rate - 1) / rate
}

/// The same in milliseconds.
fn millis_for(milli: i64, rate: i64) -> u64 {
    u64::try_from((micros_for(milli, rate) + 999) / 1_000).unwrap_or(0)
}

#[cfg(test)]
mod tests;
