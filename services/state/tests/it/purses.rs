//! Open holds.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_common::ids::{RequestId, TenantName};
use switchboard_state::purses::{
    HoldGrant, HoldTake, PurseId, PurseKind, PurseTake, PurseValue, StaleHold, TouchItem, Unit,
};

use crate::bed::{Bed, fresh};

/// A year from the beds' clocks.
const LATER_MS: i64 = 4_000_000_000_000;

pub fn acme() -> TenantName {
    "acme".into()
}

pub fn value(purse: &str, value: i64, version: u64) -> PurseValue {
    PurseValue {
        purse: PurseId::from(purse),
        value,
        version,
        window_ends_ms: None,
    }
}

pub fn balance(want: i64, min: i64) -> PurseTake {
    PurseTake {
        purse: PurseId::from("balance"),
        kind: PurseKind::Balance,
        want,
        min,
    }
}

fn budget(purse: &str, limit: i64, unit: Unit, want: i64) -> PurseTake {
    PurseTake {
        purse: PurseId::from(purse),
        kind: PurseKind::Budget {
            limit,
            window_ends_ms: LATER_MS,
            unit,
        },
        want,
        min: 1,
    }
}

pub fn hold_take(takes: Vec<PurseTake>) -> HoldTake {
    HoldTake {
        tenant: acme(),
        request: fresh(),
        takes,
    }
}

pub fn touch(request: RequestId, takes: Vec<PurseTake>, draft: &'static str) -> TouchItem {
    TouchItem {
        tenant: acme(),
        request,
        takes,
        draft: Bytes::from_static(draft.as_bytes()),
    }
}

pub const fn nanos(amount_nanos: i64) -> HoldGrant {
    HoldGrant::Held {
        amount_nanos,
        tokens: 0,
    }
}

async fn load(bed: &Bed, values: &[PurseValue]) {
    bed.state.purses.load(&acme(), values).await.unwrap();
}

async fn reserve(bed: &Bed, take: &HoldTake) -> HoldGrant {
    bed.state.purses.reserve(take).await.unwrap()
}

async fn held(bed: &Bed) -> i64 {
    bed.state.purses.held(&acme()).await.unwrap()
}

async fn settle(bed: &Bed, request: RequestId, values: &[PurseValue]) {
    bed.state
        .purses
        .settle(&acme(), &[request], values)
        .await
        .unwrap();
}

pub async fn balance_for_ten_serves_ten(bed: &Bed) {
    load(bed, &[value("balance", 1_000, 1)]).await;
    let takes: Vec<_> = (0..50)
        .map(|_| hold_take(vec![balance(100, 100)]))
        .collect();
    let mut served = Vec::new();
    for take in &takes {
        match reserve(bed, take).await {
            HoldGrant::Held { .. } => served.push(take.request),
            other => assert_eq!(
                other,
                HoldGrant::Short {
                    index: 0,
                    available: 0,
                    held: 1_000,
                }
            ),
        }
    }
    assert_eq!(served.len(), 10);
    assert_eq!(held(bed).await, 1_000);
    assert_eq!(
        reserve(bed, &takes[0]).await,
        nanos(100),
        "asking twice is one hold"
    );
    for (settled, request) in served.into_iter().enumerate() {
        let left = 900 - 100 * i64::try_from(settled).unwrap();
        settle(bed, request, &[value("balance", left, 2 + settled as u64)]).await;
    }
    assert_eq!(held(bed).await, 0);
    assert_eq!(bed.state.purses.open_holds().await.unwrap(), 0);
    assert!(matches!(
        reserve(bed, &hold_take(vec![balance(1, 1)])).await,
        HoldGrant::Short { available: 0, .. }
    ));
}

pub async fn a_hold_asks_every_purse(bed: &Bed) {
    load(
        bed,
        &[
            value("balance", 1_000, 1),
            value("hour", 60, 1),
            value("tokens", 5, 1),
        ],
    )
    .await;
    let take = hold_take(vec![
        balance(500, 1),
        budget("hour", 200, Unit::Nanos, 500),
        budget("tokens", 100, Unit::Tokens, 40),
    ]);
    assert_eq!(
        reserve(bed, &take).await,
        HoldGrant::Held {
            amount_nanos: 140,
            tokens: 40
        },
        "purses of one unit hold the same"
    );
    let next = HoldTake {
        request: fresh(),
        ..take.clone()
    };
    assert_eq!(
        reserve(bed, &next).await,
        HoldGrant::Short {
            index: 1,
            available: 0,
            held: 140,
        }
    );
    let tokens = hold_take(vec![budget("tokens", 45, Unit::Tokens, 1)]);
    assert_eq!(
        reserve(bed, &tokens).await,
        HoldGrant::Short {
            index: 0,
            available: 0,
            held: 40,
        }
    );
    bed.state.purses.void(&acme(), take.request).await.unwrap();
    assert!(matches!(reserve(bed, &next).await, HoldGrant::Held { .. }));
    assert_eq!(held(bed).await, 140);
}

pub async fn unknown_purses_are_named_until_loaded(bed: &Bed) {
    load(bed, &[value("balance", 50, 7)]).await;
    let take = hold_take(vec![
        budget("day", 100, Unit::Nanos, 10),
        balance(10, 1),
        budget("hour", 100, Unit::Nanos, 10),
    ]);
    assert_eq!(
        reserve(bed, &take).await,
        HoldGrant::Unknown {
            indexes: vec![0, 2]
        }
    );
    assert_eq!(held(bed).await, 0);
    load(bed, &[value("day", 0, 1), value("hour", 95, 1)]).await;
    assert_eq!(reserve(bed, &take).await, nanos(5));
}

pub async fn an_older_value_never_replaces_a_newer(bed: &Bed) {
    // Ten processes load what they read when the counter was lost (CASES A7).
    for version in [3, 5, 4, 5, 1] {
        let read = i64::try_from(version).unwrap() * 10;
        load(bed, &[value("balance", read, version)]).await;
    }
    let take = hold_take(vec![balance(1_000, 1)]);
    assert_eq!(reserve(bed, &take).await, nanos(50));
}

pub async fn not_strict_takes_what_is_left(bed: &Bed) {
    load(bed, &[value("balance", 150, 1)]).await;
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(100, 1)])).await,
        nanos(100)
    );
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(100, 1)])).await,
        nanos(50)
    );
    assert!(matches!(
        reserve(bed, &hold_take(vec![balance(100, 1)])).await,
        HoldGrant::Short { .. }
    ));
}

pub async fn strict_takes_all_or_its_minimum(bed: &Bed) {
    load(bed, &[value("balance", 150, 1)]).await;
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(200, 160)])).await,
        HoldGrant::Short {
            index: 0,
            available: 150,
            held: 0,
        }
    );
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(200, 150)])).await,
        nanos(150)
    );
}

pub async fn a_settlement_ends_the_hold_and_sets_the_value(bed: &Bed) {
    load(bed, &[value("balance", 1_000, 1)]).await;
    let take = hold_take(vec![balance(400, 1)]);
    reserve(bed, &take).await;
    settle(bed, take.request, &[value("balance", 950, 2)]).await;
    assert_eq!(held(bed).await, 0);
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(10_000, 1)])).await,
        nanos(950)
    );
    assert_eq!(reserve(bed, &take).await, HoldGrant::Gone);
    settle(bed, take.request, &[value("balance", 1_000, 1)]).await;
    assert_eq!(held(bed).await, 950, "twice is once");
    // A settled request's late touch must not bring its hold back.
    let late = [touch(take.request, take.takes, "late")];
    bed.state.purses.touch(&late).await.unwrap();
    assert_eq!(held(bed).await, 950);
}

pub async fn what_was_voided_stays_void(bed: &Bed) {
    load(bed, &[value("balance", 1_000, 1)]).await;
    let take = hold_take(vec![balance(400, 1)]);
    bed.state.purses.void(&acme(), take.request).await.unwrap();
    assert_eq!(reserve(bed, &take).await, HoldGrant::Gone);
    let late = [touch(take.request, take.takes, "late")];
    bed.state.purses.touch(&late).await.unwrap();
    assert_eq!(held(bed).await, 0);
    assert_eq!(bed.state.purses.open_holds().await.unwrap(), 0);
}

pub async fn touches_keep_and_remake_holds(bed: &Bed) {
    let lost = fresh();
    let item = touch(
        lost,
        vec![balance(300, 1), budget("tokens", 0, Unit::Tokens, 20)],
        "draft",
    );
    for _ in 0..2 {
        bed.state
            .purses
            .touch(std::slice::from_ref(&item))
            .await
            .unwrap();
    }
    assert_eq!(held(bed).await, 300, "twice is once");
    let take = hold_take(vec![balance(900, 1)]);
    assert_eq!(
        reserve(bed, &take).await,
        HoldGrant::Unknown { indexes: vec![0] },
        "a hold that came back is no value"
    );
    load(bed, &[value("balance", 1_000, 1), value("tokens", 0, 1)]).await;
    assert_eq!(reserve(bed, &take).await, nanos(700));
    let tokens = hold_take(vec![budget("tokens", 50, Unit::Tokens, 50)]);
    assert_eq!(
        reserve(bed, &tokens).await,
        HoldGrant::Held {
            amount_nanos: 0,
            tokens: 30
        }
    );
    settle(bed, lost, &[]).await;
    assert_eq!(held(bed).await, 700);
    // A sign of life alone keeps what is held and makes nothing.
    for request in [take.request, fresh()] {
        let items = [touch(request, Vec::new(), "")];
        bed.state.purses.touch(&items).await.unwrap();
    }
    assert_eq!(held(bed).await, 700);
    assert_eq!(bed.state.purses.open_holds().await.unwrap(), 2);
}

pub async fn silent_holds_are_found_with_their_draft(bed: &Bed) {
    load(bed, &[value("balance", 1_000, 1)]).await;
    let touched = hold_take(vec![balance(100, 1)]);
    let untouched = hold_take(vec![balance(50, 1)]);
    for take in [&touched, &untouched] {
        reserve(bed, take).await;
    }
    for draft in ["first", "second", ""] {
        let items = [touch(touched.request, touched.takes.clone(), draft)];
        bed.state.purses.touch(&items).await.unwrap();
    }
    assert_eq!(bed.state.purses.stale(60_000, 10).await.unwrap(), []);
    bed.until("both are silent", || async {
        bed.state.purses.stale(20, 10).await.unwrap().len() == 2
    })
    .await;
    let stale = bed.state.purses.stale(20, 10).await.unwrap();
    let of = |request: RequestId| -> StaleHold {
        stale
            .iter()
            .find(|hold| hold.request == request)
            .unwrap()
            .clone()
    };
    assert_eq!(
        of(touched.request).draft,
        Some(Bytes::from_static(b"second"))
    );
    assert_eq!(of(touched.request).amount_nanos, 100);
    assert_eq!(of(touched.request).tenant, acme());
    assert_eq!(of(untouched.request).draft, None);
    assert!(of(untouched.request).silent_ms > 20);
    assert_eq!(bed.state.purses.stale(20, 1).await.unwrap().len(), 1);
    settle(bed, touched.request, &[]).await;
    settle(bed, untouched.request, &[]).await;
    assert_eq!(bed.state.purses.stale(0, 10).await.unwrap(), []);
}

pub async fn huge_balances_are_exact(bed: &Bed) {
    // 50 million dollars and a nano-dollar: past what a double can count.
    let huge = 50_000_000_000_000_001;
    load(
        bed,
        &[
            value("balance", huge, 1),
            value("budget", huge - 7, 1),
            value("all", i64::MIN, 1),
        ],
    )
    .await;
    let take = hold_take(vec![
        balance(1_000, 1_000),
        budget("budget", huge, Unit::Nanos, 1_000),
    ]);
    let short = HoldTake {
        takes: vec![
            take.takes[0].clone(),
            PurseTake {
                min: 8,
                ..take.takes[1].clone()
            },
        ],
        ..take
    };
    let expected = HoldGrant::Short {
        index: 1,
        available: 7,
        held: 0,
    };
    assert_eq!(reserve(bed, &short).await, expected);
    let all = hold_take(vec![balance(1_000, 1_000)]);
    assert_eq!(reserve(bed, &all).await, nanos(1_000));
    let debt = hold_take(vec![PurseTake {
        purse: PurseId::from("all"),
        ..balance(1, 1)
    }]);
    assert!(
        matches!(reserve(bed, &debt).await, HoldGrant::Short { available, .. } if available < 0)
    );
}

pub async fn debts_refuse(bed: &Bed) {
    load(bed, &[value("balance", -1_500_000_000, 1)]).await;
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(10, 1)])).await,
        HoldGrant::Short {
            index: 0,
            available: -1_500_000_000,
            held: 0,
        }
    );
    load(bed, &[value("balance", 5, 2)]).await;
    assert_eq!(
        reserve(bed, &hold_take(vec![balance(10, 1)])).await,
        nanos(5)
    );
}

pub async fn many_at_once_never_hold_more_than_there_is(bed: &Bed) {
    load(bed, &[value("balance", 1_000, 1)]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let purses = Arc::clone(&bed.state.purses);
        tasks.spawn(async move {
            match purses
                .reserve(&hold_take(vec![balance(70, 1)]))
                .await
                .unwrap()
            {
                HoldGrant::Held { amount_nanos, .. } => amount_nanos,
                _ => 0,
            }
        });
    }
    let amounts = tasks.join_all().await;
    assert_eq!(amounts.iter().sum::<i64>(), 1_000);
    assert_eq!(amounts.iter().filter(|amount| **amount > 0).count(), 15);
    assert_eq!(held(bed).await, 1_000);
}
