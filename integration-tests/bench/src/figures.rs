//! Percentiles and medians.

use serde::Serialize;

/// Times of many like events, microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    pub p50_us: f64,
    pub p90_us: f64,
    /// Over rounds, that of the least disturbed one: what runs beside can only add to a tail, and on a shared machine it does in
    /// most rounds.
    pub p99_us: f64,
    /// Over rounds, the median of theirs.
    pub p99_median_us: f64,
    pub count: usize,
}

impl Times {
    /// Of samples in nanoseconds; they are sorted in place.
    pub fn of(nanoseconds: &mut [u64]) -> Self {
        nanoseconds.sort_unstable();
        let p99_us = percentile(nanoseconds, 0.99);
        Self {
            p50_us: percentile(nanoseconds, 0.50),
            p90_us: percentile(nanoseconds, 0.90),
            p99_us,
            p99_median_us: p99_us,
            count: nanoseconds.len(),
        }
    }

    /// Over rounds in which something was measured: medians, and the smallest tail.
    pub fn over(rounds: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(rounds.iter().map(field));
        Self {
            p50_us: of(|times| times.p50_us),
            p90_us: of(|times| times.p90_us),
            p99_us: least(rounds.iter().map(|times| times.p99_us)),
            p99_median_us: of(|times| times.p99_us),
            count: rounds.iter().map(|times| times.count).sum(),
        }
    }
}

/// Nearest rank, in microseconds.
fn percentile(sorted_nanoseconds: &[u64], share: f64) -> f64 {
    let rank = (share * sorted_nanoseconds.len() as f64).ceil() as usize;
    let value = sorted_nanoseconds.get(rank.saturating_sub(1));
    value.map_or(0.0, |value| *value as f64 / 1000.0)
}

/// The median; 0 of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (Some(value), 1) => *value,
        (Some(value), _) => {
            let below = values.get(middle - 1).copied().unwrap_or_default();
            f64::midpoint(*value, below)
        }
        (None, _) => 0.0,
    }
}

/// The smallest; 0 of nothing.
fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(f64::min).unwrap_or_default()
}

/// Largest less smallest, as a share of the median: what a repetition may differ by without a reason.
pub fn spread(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    let median = median(values.iter().copied());
    if median > 0.0 {
        (largest - smallest) / median
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut samples: Vec<u64> = (1..=100).rev().map(|n| n * 1000).collect();
        let times = Times::of(&mut samples);
        assert_eq!(
            (times.p50_us, times.p90_us, times.p99_us),
            (50.0, 90.0, 99.0)
        );
        assert_eq!(Times::of(&mut []).p99_us, 0.0);
    }

    #[test]
    fn over_rounds_the_tail_is_that_of_the_least_disturbed_one() {
        let rounds = [7, 3, 5].map(|ms: u64| Times::of(&mut [ms * 1_000_000]));
        let over = Times::over(&rounds);
        assert_eq!(
            (over.p50_us, over.p99_us, over.p99_median_us, over.count),
            (5000.0, 3000.0, 5000.0, 3)
        );
        assert_eq!(Times::over(&[]).p99_us, 0.0);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
        assert_eq!(spread(&[9.0, 10.0, 12.0]), 0.3);
    }
}
