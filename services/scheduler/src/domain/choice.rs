//! One choice: filter, score, draw (SCHED-2 to SCHED-4). The result is an ordered list over everything that may serve.
//!
//! Invariants: the order holds each passing target once, tiers ascending; a drained target is never in it.

use std::sync::Arc;

use rand::Rng;

use super::{
    draw::{self, Entry, Policy},
    filter::{self, Ask, Membership, Outcomes},
    known::{Rest, TargetKnown, Why},
    score::{self, Factors, Facts, Pool, Weights},
    supply::{Cost, Target},
};

/// From this load on a target is hot.
const HOT: f64 = 0.9;

/// One target, as the choice saw it.
#[derive(Debug)]
pub struct Considered<'a> {
    /// Which.
    pub target: &'a Target,
    /// How it did in the filters.
    pub outcomes: Outcomes,
    /// Until when it, or its account, rests; Unix milliseconds.
    pub rests_until_ms: i64,
    /// Why it rests, if it does and that is known.
    pub rests_for: Option<Why>,
    /// Score and factors; absent: it was filtered.
    pub scored: Option<(f64, Factors)>,
    /// Its cost sheet.
    pub cost: Option<Cost>,
    /// Its slot was taken when it was asked.
    pub full: bool,
}

/// One choice.
#[derive(Debug)]
pub struct Choice<'a> {
    /// All targets of the model, in the catalogue's order.
    pub considered: Vec<Considered<'a>>,
    /// Indexes into `considered`, in the order in which they are to be tried.
    pub order: Vec<usize>,
    /// How it was drawn.
    pub policy: Policy,
}

/// Of a target's rest and its account's the one that ends later. `known` stands in where the target has no cell of its own.
#[must_use]
pub fn rest<'a>(target: &'a Target, known: Option<&'a TargetKnown>) -> &'a Rest {
    let account = &target.account.known.rest;
    let own = target.known.as_deref().or(known).map(|known| &known.rest);
    own.filter(|own| own.until_ms() > account.until_ms())
        .unwrap_or(account)
}

/// When a target and its account are rested, Unix milliseconds: the end of their [`rest`].
#[must_use]
pub fn rests_until_ms(target: &Target, known: Option<&TargetKnown>) -> i64 {
    rest(target, known).until_ms()
}

/// Chooses. `known` finds what is known of a target that has no cell of its own, `cost` its cost sheet; `depth` is how many may
/// wait for the model.
pub fn choose<'a>(
    ask: &Ask<'a>,
    known: impl Fn(&Target) -> Option<Arc<TargetKnown>>,
    cost: impl Fn(&Target) -> Option<Cost>,
    depth: u64,
    rng: &mut impl Rng,
) -> Choice<'a> {
    let (policy, weights) = match ask.group {
        Membership::Of(group) => (group.policy, group.weights),
        Membership::All | Membership::Unknown(_) => (Policy::default(), Weights::default()),
    };
    let targets = &ask.model.targets;
    let mut considered = Vec::with_capacity(targets.len());
    let mut passing: Vec<(usize, Facts)> = Vec::with_capacity(targets.len());
    for target in targets {
        let own = if target.known.is_none() {
            known(target)
        } else {
            None
        };
        let rest = rest(target, own.as_deref());
        let (rests_until_ms, rests_for) = (rest.until_ms(), rest.why());
        let outcomes = filter::outcomes(ask, target, rests_until_ms);
        let cost = cost(target);
        if outcomes.pass() {
            let known = target.known.as_deref().or(own.as_deref());
            passing.push((considered.len(), facts(target, known, cost, depth)));
        }
        considered.push(Considered {
            target,
            outcomes,
            rests_until_ms,
            rests_for,
            scored: None,
            cost,
            full: false,
        });
    }
    let tier = |index: usize| targets.get(index).map_or(0, |target| target.tier);
    passing.sort_by_key(|(index, _)| tier(*index));
    let mut order = Vec::with_capacity(passing.len());
    for peers in passing.chunk_by(|left, right| tier(left.0) == tier(right.0)) {
        draw_tier(
            ask,
            (policy, &weights),
            peers,
            &mut considered,
            &mut order,
            rng,
        );
    }
    Choice {
        considered,
        order,
        policy,
    }
}

/// Scores the targets of one tier and appends them in the drawn order.
fn draw_tier(
    ask: &Ask<'_>,
    (policy, weights): (Policy, &Weights),
    peers: &[(usize, Facts)],
    considered: &mut [Considered<'_>],
    order: &mut Vec<usize>,
    rng: &mut impl Rng,
) {
    let pool = Pool::of(peers.iter().map(|(_, facts)| facts));
    let mut entries: Vec<Entry> = Vec::with_capacity(peers.len());
    for (index, facts) in peers {
        let factors = score::factors(facts, &pool);
        let score = score::score(weights, &factors);
        if let Some(one) = considered.get_mut(*index) {
            one.scored = Some((score, factors));
            entries.push(Entry {
                index: *index,
                weight: ask.weight(one.target),
                score,
                hot: facts.load() >= HOT,
            });
        }
    }
    draw::order(policy, &mut entries, rng);
    order.extend(entries.into_iter().map(|entry| entry.index));
}

fn facts(target: &Target, known: Option<&TargetKnown>, cost: Option<Cost>, depth: u64) -> Facts {
    let account = &target.account;
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    Facts {
        priority: account.priority,
        used: count(account.known.used()),
        slots: account.concurrency,
        waiters: count(account.known.waiters()),
        depth,
        error_rate: known.map_or(0.0, TargetKnown::error_rate),
        first_token_us: known.and_then(TargetKnown::first_token_us),
        unit_cost_nanos: cost.and_then(|cost| cost.unit_nanos),
    }
}

impl Choice<'_> {
    fn resting(&self) -> impl Iterator<Item = &Considered<'_>> {
        self.considered
            .iter()
            .filter(|one| one.outcomes.only_rests())
    }

    /// Whether all targets that only rest do it for such a reason.
    #[must_use]
    pub fn all_rest_for(&self, such: impl Fn(Why) -> bool) -> bool {
        self.resting().all(|one| one.rests_for.is_some_and(&such))
    }

    /// Milliseconds until the first target that only rests is rested; `None`: none only rests.
    #[must_use]
    pub fn rested_in_ms(&self, now_ms: i64) -> Option<u64> {
        self.resting()
            .map(|one| u64::try_from(one.rests_until_ms - now_ms).unwrap_or(0))
            .min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng as _, rngs::StdRng};
    use switchboard_proto::common::v1::TargetRule;

    use super::*;
    use crate::domain::{
        fixture::{self, ask},
        known::Why,
        rule::Rule,
    };

    fn draw<'a>(ask: &Ask<'a>, seed: u64) -> Choice<'a> {
        choose(
            ask,
            |_| None,
            |target| target.cost,
            2_000,
            &mut StdRng::seed_from_u64(seed),
        )
    }

    fn names(choice: &Choice<'_>) -> Vec<String> {
        choice
            .order
            .iter()
            .map(|index| choice.considered[*index].target.account.name.to_string())
            .collect()
    }

    #[test]
    fn a_later_tier_comes_after_all_of_an_earlier_one() {
        let model = fixture::model(vec![
            fixture::target("late", 1, 1_000),
            fixture::target("a", 0, 1),
            fixture::target("b", 0, 1),
        ]);
        for seed in 0..50 {
            assert_eq!(names(&draw(&ask(&model), seed))[2], "late");
        }
    }

    #[test]
    fn only_what_rests_tells_when_it_may_serve_again() {
        let model = fixture::model(vec![fixture::target("a", 0, 1), fixture::target("b", 0, 1)]);
        model.targets[0]
            .account
            .known
            .rest
            .hold(61_000, Why::RateLimited, 0);
        model.targets[1]
            .account
            .known
            .rest
            .hold(31_500, Why::RateLimited, 0);
        let choice = draw(&ask(&model), 1);
        assert!(choice.order.is_empty());
        assert_eq!(choice.rested_in_ms(1_000), Some(30_500));
    }

    #[test]
    fn a_tenant_draws_by_its_own_weights() {
        let model = fixture::model(vec![
            fixture::target("a", 0, 1_000_000),
            fixture::target("b", 0, 1),
        ]);
        let rule = TargetRule {
            weights: [("a".to_owned(), 1), ("b".to_owned(), 1_000_000)].into(),
            ..TargetRule::default()
        };
        let ask = Ask {
            rule: Rule::of(Some(&rule)),
            ..ask(&model)
        };
        for seed in 0..50 {
            assert_eq!(names(&draw(&ask, seed)), ["b", "a"]);
        }
    }

    #[test]
    fn a_loaded_account_is_drawn_less() {
        let model = fixture::model(vec![
            fixture::target("busy", 0, 1),
            fixture::target("idle", 0, 1),
        ]);
        model.targets[0].account.known.set_used(10);
        let first = (0..1_000)
            .filter(|seed| names(&draw(&ask(&model), *seed))[0] == "idle")
            .count();
        assert!(first > 700, "{first}");
    }

    proptest! {
        #[test]
        fn an_order_holds_what_passes_once_and_tiers_ascend(
            seed: u64,
            targets in proptest::collection::vec((0u32..3, 0u32..4, any::<bool>(), 0i64..12), 0..40),
        ) {
            let model = fixture::model(targets.iter().enumerate().map(|(index, (tier, weight, rests, used))| {
                let target = fixture::target(&index.to_string(), *tier, *weight);
                target.account.known.set_used(*used);
                if *rests {
                    target.account.known.rest.hold(9_000, Why::Quota, 0);
                }
                target
            }).collect());
            let choice = draw(&ask(&model), seed);
            let tiers: Vec<u32> = choice.order.iter().map(|index| targets[*index].0).collect();
            prop_assert!(tiers.is_sorted());
            let mut drawn = choice.order.clone();
            drawn.sort_unstable();
            let passing: Vec<usize> = targets.iter().enumerate()
                .filter(|(_, (_, weight, rests, _))| *weight > 0 && !rests)
                .map(|(index, _)| index).collect();
            prop_assert_eq!(drawn, passing);
        }
    }
}
