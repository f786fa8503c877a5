//! Any order of takes, releases, renewals, settlements and passing time.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use proptest::prelude::*;
use switchboard_common::ids::RequestId;
use switchboard_state::{
    admission::{AccountGrant, AccountTake, Renewal},
    purses::{HoldGrant, HoldTake},
};

use crate::{
    admission::{account, account_release, account_take},
    bed::{Bed, fresh},
    purses::{acme, balance, hold_take, touch, value},
};

#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    Release(usize),
    Renew(usize),
    Void(usize),
    Settle(usize, i64),
    Touch(usize),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..12_usize;
    prop_oneof![
        5 => who.clone().prop_map(Step::Take),
        2 => who.clone().prop_map(Step::Release),
        2 => who.clone().prop_map(Step::Renew),
        1 => who.clone().prop_map(Step::Void),
        1 => (who.clone(), 0..200_i64).prop_map(|(who, charge)| Step::Settle(who, charge)),
        1 => who.prop_map(Step::Touch),
        2 => (1..40_000_i64).prop_map(Step::Wait),
    ]
}

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// Takes, releases and renewals, against a plain model of who holds until when.
async fn slots(bed: &Bed, limit: u64, steps: &[Step]) {
    const TTL_MS: i64 = 30_000;
    let requests: Vec<RequestId> = (0..12).map(|_| fresh()).collect();
    let mut now = 0;
    let mut holders: HashMap<usize, i64> = HashMap::new();
    let mut gone: HashMap<usize, i64> = HashMap::new();
    for step in steps {
        holders.retain(|_, until| *until > now);
        gone.retain(|_, until| *until > now);
        match step {
            Step::Take(who) => {
                let take = AccountTake {
                    request: requests[*who],
                    ttl: Duration::from_millis(30_000),
                    ..account_take(limit)
                };
                let grant = bed.state.admission.take_account(&take).await.unwrap();
                let expected = if gone.contains_key(who) {
                    "gone"
                } else if holders.contains_key(who) {
                    "granted"
                } else if (holders.len() as u64) < limit {
                    holders.insert(*who, now + TTL_MS);
                    "granted"
                } else {
                    "full"
                };
                let got = match grant {
                    AccountGrant::Granted { used, .. } => {
                        assert_eq!(used, holders.len() as u64);
                        "granted"
                    }
                    AccountGrant::Full { used, .. } => {
                        assert!(used >= limit);
                        "full"
                    }
                    AccountGrant::Gone => "gone",
                    other => panic!("{other:?}"),
                };
                assert_eq!(got, expected, "{step:?}");
            }
            Step::Release(who) => {
                let release = account_release(requests[*who], Some(1));
                bed.state.admission.release(&[release]).await.unwrap();
                holders.remove(who);
                gone.entry(*who).or_insert(now + 60_000);
            }
            Step::Renew(who) => {
                let renewal = Renewal::Account {
                    account: account(),
                    request: requests[*who],
                    attempt: 1,
                };
                let ttl = Duration::from_millis(30_000);
                bed.state.admission.renew(&[renewal], ttl).await.unwrap();
                if !gone.contains_key(who) {
                    holders.insert(*who, now + TTL_MS);
                }
            }
            Step::Wait(ms) => {
                now += ms;
                bed.pass(*ms);
            }
            Step::Void(_) | Step::Settle(..) | Step::Touch(_) => {}
        }
        holders.retain(|_, until| *until > now);
        let used = bed.state.admission.usage(&[account()]).await.unwrap();
        assert_eq!(used, [holders.len() as u64], "{step:?}");
        assert_eq!(bed.state.admission.held().await.unwrap(), used[0]);
    }
}

/// Holds, settlements and touches, against a plain model of one balance.
async fn holds(bed: &Bed, opening: i64, steps: &[Step]) {
    let takes: Vec<HoldTake> = (0..12)
        .map(|who| hold_take(vec![balance(50 + who * 10, 1)]))
        .collect();
    let mut balance_now = opening;
    let mut version = 1;
    let mut open: HashMap<usize, i64> = HashMap::new();
    let mut ended: HashSet<usize> = HashSet::new();
    let purses = &bed.state.purses;
    purses
        .load(&acme(), &[value("balance", opening, 1)])
        .await
        .unwrap();
    for step in steps {
        let sum: i64 = open.values().sum();
        match step {
            Step::Take(who) => {
                let want = takes[*who].takes[0].want;
                let expected = if ended.contains(who) {
                    HoldGrant::Gone
                } else if let Some(amount) = open.get(who) {
                    held(*amount)
                } else if balance_now - sum >= 1 {
                    let amount = want.min(balance_now - sum);
                    open.insert(*who, amount);
                    held(amount)
                } else {
                    HoldGrant::Short {
                        index: 0,
                        available: balance_now - sum,
                        held: sum,
                    }
                };
                assert_eq!(purses.reserve(&takes[*who]).await.unwrap(), expected);
            }
            Step::Void(who) | Step::Release(who) => {
                purses.void(&acme(), takes[*who].request).await.unwrap();
                open.remove(who);
                ended.insert(*who);
            }
            Step::Settle(who, charge) => {
                if !ended.contains(who) {
                    balance_now -= charge;
                    version += 1;
                }
                let values = [value("balance", balance_now, version)];
                purses
                    .settle(&acme(), &[takes[*who].request], &values)
                    .await
                    .unwrap();
                open.remove(who);
                ended.insert(*who);
            }
            Step::Touch(who) => {
                let Some(amount) = open.get(who).copied() else {
                    continue;
                };
                let items = [touch(
                    takes[*who].request,
                    vec![balance(amount, 1)],
                    "draft",
                )];
                purses.touch(&items).await.unwrap();
            }
            // An old copy that comes late.
            Step::Renew(_) => {
                let values = [value("balance", opening, 1)];
                purses.load(&acme(), &values).await.unwrap();
            }
            Step::Wait(_) => {}
        }
        let sum: i64 = open.values().sum();
        assert_eq!(purses.held(&acme()).await.unwrap(), sum, "{step:?}");
        assert_eq!(purses.open_holds().await.unwrap(), open.len() as u64);
    }
}

const fn held(amount_nanos: i64) -> HoldGrant {
    HoldGrant::Held {
        amount_nanos,
        tokens: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slots_in_any_order(limit in 1..6_u64, steps in prop::collection::vec(step(), 1..80)) {
        run(async { slots(&Bed::memory(), limit, &steps).await });
    }

    #[test]
    fn holds_in_any_order(opening in -50..800_i64, steps in prop::collection::vec(step(), 1..80)) {
        run(async { holds(&Bed::memory(), opening, &steps).await });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 12, ..ProptestConfig::default() })]

    // Redis tells its own time: these leave out the waiting.
    #[test]
    fn slots_in_any_order_on_redis(limit in 1..6_u64, steps in prop::collection::vec(step(), 1..60)) {
        let steps: Vec<_> = steps.into_iter().filter(|step| !matches!(step, Step::Wait(_))).collect();
        run(async {
            if let Some(bed) = Bed::redis().await {
                slots(&bed, limit, &steps).await;
            }
        });
    }

    #[test]
    fn holds_in_any_order_on_redis(opening in -50..800_i64, steps in prop::collection::vec(step(), 1..60)) {
        run(async {
            if let Some(bed) = Bed::redis().await {
                holds(&bed, opening, &steps).await;
            }
        });
    }
}
