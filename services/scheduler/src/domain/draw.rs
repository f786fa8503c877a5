//! The order in which the targets of a tier are tried (SCHED-4): drawn without replacement.
//!
//! The random source is a parameter. Every function returns a permutation of what it was given.

use rand::{Rng, RngExt as _};

/// How targets are drawn; a group's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// By weight × (score − lowest + 0.1).
    #[default]
    WeightedScore,
    /// Two drawn by weight; a hot one loses, else the better score wins.
    PowerOfTwo,
}

impl Policy {
    /// As catalogue and explanations write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WeightedScore => "weighted_score",
            Self::PowerOfTwo => "power_of_two",
        }
    }
}

/// One target of a tier.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which one; comes back in the order.
    pub index: usize,
    /// Its part of the traffic, more than 0.
    pub weight: u32,
    /// How good it is, 0 to 1.
    pub score: f64,
    /// Whether 90% of its slots are in use.
    pub hot: bool,
}

/// Scores so near to the best count as the best.
const AS_GOOD: f64 = 0.05;
/// What the lowest score is still worth.
const FLOOR: f64 = 0.1;
/// `power_of_two` decides so many places; who comes after them is drawn by weight alone, which keeps a long list cheap.
const DUELS: usize = 32;

/// Puts a tier's targets in the order in which they are to be tried.
pub fn order(policy: Policy, entries: &mut [Entry], rng: &mut impl Rng) {
    if entries.len() < 2 {
        return;
    }
    match policy {
        Policy::WeightedScore => weighted_score(entries, rng),
        Policy::PowerOfTwo => power_of_two(entries, rng),
    }
}

fn weighted_score(entries: &mut [Entry], rng: &mut impl Rng) {
    let best = entries.iter().map(|e| e.score).fold(0.0, f64::max);
    let leveled = |score: f64| if best - score <= AS_GOOD { best } else { score };
    let lowest = entries
        .iter()
        .map(|e| leveled(e.score))
        .fold(best, f64::min);
    by_weight(entries, rng, |entry| {
        f64::from(entry.weight) * (leveled(entry.score) - lowest + FLOOR)
    });
}

fn power_of_two(entries: &mut [Entry], rng: &mut impl Rng) {
    let duels = entries.len().min(DUELS);
    for place in 0..duels {
        let Some(rest) = entries.get_mut(place..).filter(|rest| rest.len() > 1) else {
            return;
        };
        let first = pick(rest, rng);
        rest.swap(0, first);
        let Some(others) = rest.get_mut(1..) else {
            return;
        };
        let second = 1 + pick(others, rng);
        if let (Some(one), Some(two)) = (rest.first(), rest.get(second))
            && loses(one, two)
        {
            rest.swap(0, second);
        }
    }
    if let Some(rest) = entries.get_mut(duels..) {
        by_weight(rest, rng, |entry| f64::from(entry.weight));
    }
}

/// Whether the first of two drawn gives way to the second.
fn loses(one: &Entry, two: &Entry) -> bool {
    match (one.hot, two.hot) {
        (true, false) => true,
        (false, true) => false,
        _ => two.score > one.score,
    }
}

/// The place of one, drawn by weight.
fn pick(entries: &[Entry], rng: &mut impl Rng) -> usize {
    let sum: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
    if sum == 0 {
        return 0;
    }
    let mut left = rng.random_range(0..sum);
    for (place, entry) in entries.iter().enumerate() {
        let weight = u64::from(entry.weight);
        if left < weight {
            return place;
        }
        left -= weight;
    }
    0
}

/// A draw without replacement with probability ∝ `worth`: each gets an exponential waiting time of that rate, the shortest is
/// first. That is the same distribution as drawing one after the other, in one pass.
fn by_weight(entries: &mut [Entry], rng: &mut impl Rng, worth: impl Fn(&Entry) -> f64) {
    let mut timed: Vec<(f64, Entry)> = entries
        .iter()
        .map(|entry| {
            // In (0, 1]: the logarithm is finite.
            let uniform = 1.0 - rng.random::<f64>();
            (-uniform.ln() / worth(entry), *entry)
        })
        .collect();
    timed.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
    for (slot, (_, entry)) in entries.iter_mut().zip(timed) {
        *slot = entry;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    fn entry(index: usize, weight: u32, score: f64) -> Entry {
        Entry {
            index,
            weight,
            score,
            hot: false,
        }
    }

    /// How often each comes first, in percent.
    fn shares(policy: Policy, entries: &[Entry]) -> Vec<f64> {
        const DRAWS: u32 = 200_000;
        let mut rng = StdRng::seed_from_u64(7);
        let mut first = vec![0_u32; entries.len()];
        for _ in 0..DRAWS {
            let mut drawn = entries.to_vec();
            order(policy, &mut drawn, &mut rng);
            first[drawn[0].index] += 1;
        }
        first
            .into_iter()
            .map(|count| f64::from(count) * 100.0 / f64::from(DRAWS))
            .collect()
    }

    fn near(shares: &[f64], expected: &[f64]) -> bool {
        shares
            .iter()
            .zip(expected)
            .all(|(share, expected)| (share - expected).abs() <= 1.0)
    }

    #[test]
    fn equally_healthy_targets_split_by_weight_within_one_percent() {
        let entries = [entry(0, 80, 0.9), entry(1, 15, 0.87), entry(2, 5, 0.9)];
        let shares = shares(Policy::WeightedScore, &entries);
        assert!(near(&shares, &[80.0, 15.0, 5.0]), "{shares:?}");
    }

    #[test]
    fn a_better_score_draws_more() {
        // 0.5 above the lowest is worth six times the floor.
        let entries = [entry(0, 1, 0.9), entry(1, 1, 0.4)];
        let shares = shares(Policy::WeightedScore, &entries);
        assert!(near(&shares, &[600.0 / 7.0, 100.0 / 7.0]), "{shares:?}");
    }

    #[test]
    fn of_two_the_better_one_wins_unless_it_is_hot() {
        let better = [entry(0, 1, 0.9), entry(1, 1, 0.4)];
        assert!(near(&shares(Policy::PowerOfTwo, &better), &[100.0, 0.0]));
        let hot = [
            Entry {
                hot: true,
                ..better[0]
            },
            better[1],
        ];
        assert!(near(&shares(Policy::PowerOfTwo, &hot), &[0.0, 100.0]));
    }

    #[test]
    fn power_of_two_draws_its_pairs_by_weight() {
        // The best one wins each pair it is in: 1 − P(neither of two draws is it) = 1 − ⅔·½ = ⅔.
        let entries = [entry(0, 1, 0.9), entry(1, 1, 0.5), entry(2, 1, 0.4)];
        let shares = shares(Policy::PowerOfTwo, &entries);
        assert!(
            near(&shares, &[200.0 / 3.0, 100.0 / 3.0, 0.0]),
            "{shares:?}"
        );
    }

    proptest! {
        #[test]
        fn an_order_is_a_permutation(
            seed: u64,
            weights in proptest::collection::vec((1u32..1_000, 0.0..=1.0f64, any::<bool>()), 0..80),
        ) {
            for policy in [Policy::WeightedScore, Policy::PowerOfTwo] {
                let mut entries: Vec<Entry> = weights.iter().enumerate()
                    .map(|(index, (weight, score, hot))| Entry { index, weight: *weight, score: *score, hot: *hot })
                    .collect();
                order(policy, &mut entries, &mut StdRng::seed_from_u64(seed));
                let mut indexes: Vec<usize> = entries.iter().map(|e| e.index).collect();
                indexes.sort_unstable();
                prop_assert!(indexes.into_iter().eq(0..weights.len()));
            }
        }
    }
}
