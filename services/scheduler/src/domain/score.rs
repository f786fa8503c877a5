//! How good a target is (SCHED-3): factors from 0 to 1, weighed by the group.

/// What counts in the score, each 0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// The account's soft priority.
    pub priority: f64,
    /// Free slots.
    pub load: f64,
    /// A short queue.
    pub queue: f64,
    /// Few errors.
    pub error: f64,
    /// A quick first token.
    pub ttft: f64,
    /// Quota that resets soon: neutral, no windows are counted.
    pub reset: f64,
    /// Quota that is left: neutral, no windows are counted.
    pub headroom: f64,
    /// A low cost.
    pub cost: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            priority: 1.0,
            load: 1.0,
            queue: 0.7,
            error: 0.8,
            ttft: 0.5,
            reset: 0.3,
            headroom: 0.3,
            cost: 0.3,
        }
    }
}

/// What is not known is neither good nor bad.
pub const NEUTRAL: f64 = 0.5;

/// Names of [`Factors`]' values, in their order.
pub const NAMES: [&str; 6] = ["priority", "load", "queue", "error", "ttft", "cost"];

/// A target's factors, in the order of [`NAMES`], each as it enters the sum: 1 is best.
pub type Factors = [f64; 6];

/// What is known of one target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// The account's soft priority; lower is preferred.
    pub priority: u32,
    /// Slots in use.
    pub used: u64,
    /// Slots; absent: not limited.
    pub slots: Option<u64>,
    /// Requests that wait for the account.
    pub waiters: u64,
    /// How many may wait.
    pub depth: u64,
    /// Share of attempts that failed.
    pub error_rate: f64,
    /// Time to first token, microseconds.
    pub first_token_us: Option<u64>,
    /// Nano-USD of a million input and a million output tokens.
    pub unit_cost_nanos: Option<i64>,
}

impl Facts {
    /// Slots in use ÷ slots, 0 where they are not limited.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.slots.map_or(0.0, |slots| ratio(self.used, slots))
    }
}

/// What the targets of one tier are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pool {
    /// Median time to first token, of those that are known.
    pub median_first_token_us: Option<u64>,
    /// The lowest known cost.
    pub cheapest_nanos: Option<i64>,
}

impl Pool {
    /// The pool of these targets.
    #[must_use]
    pub fn of<'a>(facts: impl Iterator<Item = &'a Facts> + Clone) -> Self {
        let mut known: Vec<u64> = facts
            .clone()
            .filter_map(|fact| fact.first_token_us)
            .collect();
        let median_first_token_us = if known.is_empty() {
            None
        } else {
            let even = known.len().is_multiple_of(2);
            let middle = known.len() / 2;
            let (lower, upper, _) = known.select_nth_unstable(middle);
            // Of an even number the mean of the two in the middle.
            Some(match lower.iter().max() {
                Some(below) if even => below.midpoint(*upper),
                _ => *upper,
            })
        };
        Self {
            median_first_token_us,
            cheapest_nanos: facts.filter_map(|fact| fact.unit_cost_nanos).min(),
        }
    }
}

/// The factors of one target of a pool.
#[must_use]
pub fn factors(facts: &Facts, pool: &Pool) -> Factors {
    let priority = 1.0 / (1.0 + f64::from(facts.priority));
    let load = 1.0 - facts.load();
    let queue = 1.0 - ratio(facts.waiters, facts.depth);
    let error = 1.0 - facts.error_rate.clamp(0.0, 1.0);
    let ttft = match (facts.first_token_us, pool.median_first_token_us) {
        (Some(own), Some(median)) => 1.0 - ratio(own, median.saturating_mul(2)),
        _ => 1.0 - NEUTRAL,
    };
    let cost = match (facts.unit_cost_nanos, pool.cheapest_nanos) {
        // For free is as cheap as can be.
        (Some(own), Some(_)) if own <= 0 => 1.0,
        (Some(own), Some(cheapest)) => part(cheapest.max(0), own),
        _ => NEUTRAL,
    };
    [priority, load, queue, error, ttft, cost]
}

/// The weighted mean of the factors, 0 to 1. With no weight at all every target is as good as any.
#[must_use]
pub fn score(weights: &Weights, factors: &Factors) -> f64 {
    let [priority, load, queue, error, ttft, cost] = *factors;
    let sum = weights.priority * priority
        + weights.load * load
        + weights.queue * queue
        + weights.error * error
        + weights.ttft * ttft
        + weights.cost * cost
        + (weights.reset + weights.headroom) * NEUTRAL;
    let whole = weights.priority
        + weights.load
        + weights.queue
        + weights.error
        + weights.ttft
        + weights.cost
        + weights.reset
        + weights.headroom;
    if whole > 0.0 { sum / whole } else { NEUTRAL }
}

/// `part ÷ whole`, at most 1; of nothing: 1 when there is any part.
fn ratio(part: u64, whole: u64) -> f64 {
    if part == 0 {
        return 0.0;
    }
    if part >= whole {
        return 1.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio needs no exact integers"
    )]
    let ratio = part as f64 / whole as f64;
    ratio
}

fn part(part: i64, whole: i64) -> f64 {
    ratio(part.unsigned_abs(), whole.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn the_factors_are_the_specifications() {
        let facts = [
            Facts {
                priority: 1,
                used: 3,
                slots: Some(4),
                waiters: 500,
                depth: 2_000,
                error_rate: 0.25,
                first_token_us: Some(300_000),
                unit_cost_nanos: Some(40),
            },
            Facts {
                first_token_us: Some(100_000),
                unit_cost_nanos: Some(10),
                ..Facts::default()
            },
        ];
        let pool = Pool::of(facts.iter());
        assert_eq!(pool.median_first_token_us, Some(200_000));
        assert_eq!(pool.cheapest_nanos, Some(10));
        let first = factors(&facts[0], &pool);
        assert_eq!(first, [0.5, 0.25, 0.75, 0.75, 0.25, 0.25]);
        // An account without limits, waiters and errors; a first token of half the median; the cheapest.
        assert_eq!(factors(&facts[1], &pool), [1.0, 1.0, 1.0, 1.0, 0.75, 1.0]);
    }

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        let facts = [5, 1, 9].map(|us| Facts {
            first_token_us: Some(us),
            ..Facts::default()
        });
        assert_eq!(Pool::of(facts.iter()).median_first_token_us, Some(5));
        assert_eq!(Pool::of([Facts::default()].iter()), Pool::default());
    }

    #[test]
    fn what_is_unknown_is_neutral() {
        let all = factors(&Facts::default(), &Pool::default());
        assert!(close(all[4], 0.5) && close(all[5], 0.5));
    }

    proptest! {
        #[test]
        fn factors_and_scores_lie_between_0_and_1(
            priority: u32, used: u64, slots: Option<u64>, waiters: u64, depth: u64, error_rate in -1.0..2.0f64,
            first_token_us: Option<u64>, unit_cost_nanos: Option<i64>, other: Option<u64>, cheaper: Option<i64>,
        ) {
            let one = Facts { priority, used, slots, waiters, depth, error_rate, first_token_us, unit_cost_nanos };
            let two = Facts { first_token_us: other, unit_cost_nanos: cheaper, ..Facts::default() };
            let factors = factors(&one, &Pool::of([one, two].iter()));
            for factor in factors {
                prop_assert!((0.0..=1.0).contains(&factor), "{factors:?}");
            }
            let score = score(&Weights::default(), &factors);
            prop_assert!((0.0..=1.0).contains(&score));
        }
    }
}
