//! Slots, leases, buckets.

use std::{sync::Arc, time::Duration};

use switchboard_common::ids::{AccountName, RequestId, TenantName};
use switchboard_state::admission::{
    AccountGrant, AccountTake, BucketSpec, BucketUnit, Correction, LimitKind, Place, Pool, Release,
    Renewal, Renewed, Scope, SlotSpec, TenantGrant, TenantTake,
};

use crate::bed::{Bed, fresh};

pub const LONG: Duration = Duration::from_secs(60);
/// Long enough that a slow machine does not outlive it by accident.
const SHORT: Duration = Duration::from_secs(1);

pub fn user(limit: u64) -> SlotSpec {
    SlotSpec {
        scope: Scope::User,
        id: "bob@acme".into(),
        limit,
    }
}

fn bucket(unit: BucketUnit, rate_per_minute: u64, capacity: u64, cost: u64) -> BucketSpec {
    BucketSpec {
        scope: Scope::Key,
        id: "key".into(),
        unit,
        rate_per_minute,
        capacity,
        cost,
    }
}

pub fn tenant_take(slots: Vec<SlotSpec>, buckets: Vec<BucketSpec>) -> TenantTake {
    TenantTake {
        tenant: "acme".into(),
        request: fresh(),
        slots,
        buckets,
        ttl: LONG,
    }
}

pub fn account() -> Pool {
    Pool::Account(AccountName::from("east"))
}

pub fn account_take(limit: u64) -> AccountTake {
    AccountTake {
        account: account(),
        request: fresh(),
        attempt: 1,
        limit: Some(limit),
        buckets: Vec::new(),
        newcomer: false,
        ttl: LONG,
    }
}

async fn take(bed: &Bed, take: &TenantTake) -> TenantGrant {
    bed.state.admission.take_tenant(take).await.unwrap()
}

async fn take_slot(bed: &Bed, take: &AccountTake) -> AccountGrant {
    bed.state.admission.take_account(take).await.unwrap()
}

fn granted(grant: &TenantGrant) -> bool {
    matches!(grant, TenantGrant::Granted { .. })
}

fn refused(grant: &TenantGrant, at: usize, by: LimitKind) -> bool {
    matches!(grant, TenantGrant::Refused { index, kind, retry_after_ms, .. }
        if *index == at && *kind == by && *retry_after_ms > 0)
}

fn remaining(grant: &TenantGrant) -> Vec<u64> {
    match grant {
        TenantGrant::Granted { buckets } | TenantGrant::Refused { buckets, .. } => {
            buckets.iter().map(|bucket| bucket.remaining).collect()
        }
        TenantGrant::Gone => panic!("gone"),
    }
}

async fn release(bed: &Bed, request: RequestId, correction: Correction) {
    let releases = [Release::Tenant {
        tenant: "acme".into(),
        request,
        correction,
    }];
    bed.state.admission.release(&releases).await.unwrap();
}

pub fn account_release(request: RequestId, attempt: Option<u32>) -> Release {
    Release::Account {
        account: account(),
        request,
        attempt,
        correction: Correction::Keep,
    }
}

async fn used(bed: &Bed) -> u64 {
    bed.state.admission.usage(&[account()]).await.unwrap()[0]
}

async fn held(bed: &Bed) -> u64 {
    bed.state.admission.held().await.unwrap()
}

pub async fn slots_are_never_more_than_the_limit(bed: &Bed) {
    let takes: Vec<_> = (0..4).map(|_| tenant_take(vec![user(3)], vec![])).collect();
    for request in &takes[..3] {
        assert!(granted(&take(bed, request).await));
    }
    assert!(refused(&take(bed, &takes[3]).await, 0, LimitKind::Slot));
    assert_eq!(held(bed).await, 3);
    release(bed, takes[0].request, Correction::Keep).await;
    assert!(granted(&take(bed, &takes[3]).await));
    let other = TenantTake {
        tenant: "other".into(),
        ..tenant_take(vec![user(1)], vec![])
    };
    assert!(granted(&take(bed, &other).await), "tenants share nothing");
}

pub async fn a_second_take_changes_nothing(bed: &Bed) {
    let request = tenant_take(vec![user(1)], vec![bucket(BucketUnit::Requests, 60, 10, 1)]);
    assert_eq!(remaining(&take(bed, &request).await), [9]);
    let again = take(bed, &request).await;
    assert!(granted(&again));
    assert!(remaining(&again)[0] >= 9);
    let account = account_take(1);
    for _ in 0..2 {
        assert!(matches!(
            take_slot(bed, &account).await,
            AccountGrant::Granted { used: 1, .. }
        ));
    }
    assert_eq!(held(bed).await, 2);
}

pub async fn a_refused_take_consumes_nothing(bed: &Bed) {
    let full = BucketSpec {
        id: "other".into(),
        ..bucket(BucketUnit::Requests, 1, 1, 1)
    };
    assert!(granted(
        &take(bed, &tenant_take(vec![], vec![full.clone()])).await
    ));
    let both = tenant_take(
        vec![user(5)],
        vec![bucket(BucketUnit::Requests, 1, 5, 1), full.clone()],
    );
    let grant = take(bed, &both).await;
    assert!(refused(&grant, 1, LimitKind::Bucket), "{grant:?}");
    assert_eq!(remaining(&grant), [5, 0]);
    let slot = tenant_take(vec![user(5), user(0)], vec![both.buckets[0].clone()]);
    assert!(refused(&take(bed, &slot).await, 1, LimitKind::Slot));
    let mut five = tenant_take(vec![user(1)], vec![bucket(BucketUnit::Requests, 1, 5, 5)]);
    assert!(
        granted(&take(bed, &five).await),
        "no slot and no token was lost"
    );
    five.request = fresh();
    assert!(refused(&take(bed, &five).await, 0, LimitKind::Slot));
}

pub async fn leases_end_by_themselves_unless_renewed(bed: &Bed) {
    let kept = account_take(10);
    let lost = AccountTake {
        ttl: SHORT,
        ..account_take(10)
    };
    take_slot(bed, &kept).await;
    take_slot(bed, &lost).await;
    let renewal = [Renewal::Account {
        account: account(),
        request: kept.request,
        attempt: 1,
    }];
    let renewed = bed.state.admission.renew(&renewal, LONG).await.unwrap();
    assert_eq!(renewed, Renewed::default());
    bed.until("one lease ends", || async { used(bed).await == 1 })
        .await;
    assert!(matches!(
        take_slot(bed, &account_take(2)).await,
        AccountGrant::Granted { used: 2, .. }
    ));
}

pub async fn what_was_released_stays_released(bed: &Bed) {
    let late = tenant_take(vec![user(1)], vec![]);
    release(bed, late.request, Correction::Refund).await;
    assert_eq!(take(bed, &late).await, TenantGrant::Gone);
    let account = account_take(1);
    let releases = [account_release(account.request, Some(1))];
    bed.state.admission.release(&releases).await.unwrap();
    assert_eq!(take_slot(bed, &account).await, AccountGrant::Gone);
    let renewals = [
        Renewal::Account {
            account: self::account(),
            request: account.request,
            attempt: 1,
        },
        Renewal::Tenant {
            tenant: "acme".into(),
            request: late.request,
            slots: vec![(Scope::User, "bob@acme".into())],
        },
    ];
    let renewed = bed.state.admission.renew(&renewals, LONG).await.unwrap();
    assert_eq!((renewed.restored, renewed.gone), (0, 2));
    assert_eq!(held(bed).await, 0);
    let second = AccountTake {
        attempt: 2,
        ..account
    };
    assert!(matches!(
        take_slot(bed, &second).await,
        AccountGrant::Granted { .. }
    ));
}

pub async fn what_was_given_back_may_ask_again(bed: &Bed) {
    let request = tenant_take(vec![user(1)], vec![bucket(BucketUnit::Requests, 1, 1, 1)]);
    assert!(granted(&take(bed, &request).await));
    let releases = [Release::Tenant {
        tenant: "acme".into(),
        request: request.request,
        correction: Correction::Refund,
    }];
    bed.state.admission.give_back(&releases).await.unwrap();
    assert_eq!(held(bed).await, 0);
    assert!(granted(&take(bed, &request).await));
    bed.state.admission.release(&releases).await.unwrap();
    bed.state.admission.give_back(&releases).await.unwrap();
    assert_eq!(take(bed, &request).await, TenantGrant::Gone);
}

pub async fn renewals_put_lost_leases_back_even_over_the_limit(bed: &Bed) {
    assert!(granted(
        &take(bed, &tenant_take(vec![user(1)], vec![])).await
    ));
    let lost = fresh();
    let renewals = [Renewal::Tenant {
        tenant: "acme".into(),
        request: lost,
        slots: vec![(Scope::User, "bob@acme".into())],
    }];
    for restored in [1, 0] {
        let renewed = bed.state.admission.renew(&renewals, LONG).await.unwrap();
        assert_eq!(renewed.restored, restored);
    }
    assert_eq!(held(bed).await, 2);
    let more = tenant_take(vec![user(2)], vec![]);
    assert!(refused(&take(bed, &more).await, 0, LimitKind::Slot));
    release(bed, lost, Correction::Used(5)).await;
    assert!(granted(&take(bed, &more).await));
}

pub async fn buckets_give_their_burst_and_come_back(bed: &Bed) {
    // 20 a second: slow enough that a busy machine does not refill one in between.
    let spec = || vec![bucket(BucketUnit::Requests, 60, 3, 1)];
    for left in [2, 1, 0] {
        assert_eq!(
            remaining(&take(bed, &tenant_take(vec![], spec())).await),
            [left]
        );
    }
    let grant = take(bed, &tenant_take(vec![], spec())).await;
    let TenantGrant::Refused {
        retry_after_ms,
        buckets,
        ..
    } = &grant
    else {
        panic!("{grant:?}");
    };
    assert!((1..=1_000).contains(retry_after_ms), "{retry_after_ms}");
    assert!((2_000..=3_000).contains(&buckets[0].reset_ms));
    assert_eq!(buckets[0].limit, 3);
    bed.until("one comes back", || async {
        granted(&take(bed, &tenant_take(vec![], spec())).await)
    })
    .await;
}

pub async fn tokens_are_corrected_at_the_end(bed: &Bed) {
    let spec = |cost| vec![bucket(BucketUnit::Tokens, 10, 1_000, cost)];
    let first = tenant_take(vec![], spec(700));
    assert_eq!(remaining(&take(bed, &first).await), [300]);
    release(bed, first.request, Correction::Used(200)).await;
    let second = tenant_take(vec![], spec(5_000));
    assert_eq!(
        remaining(&take(bed, &second).await),
        [0],
        "it took the 800 that were left"
    );
    let third = tenant_take(vec![], spec(1));
    assert!(refused(&take(bed, &third).await, 0, LimitKind::Bucket));
    // 1,200 of 1,000 used: a debt of 200, 20 minutes at this rate.
    release(bed, second.request, Correction::Used(1_000)).await;
    let TenantGrant::Refused { retry_after_ms, .. } = take(bed, &third).await else {
        panic!("admitted");
    };
    assert!(
        (1_195_000..=1_206_000).contains(&retry_after_ms),
        "{retry_after_ms}"
    );
    release(bed, second.request, Correction::Used(0)).await;
    assert!(
        !granted(&take(bed, &third).await),
        "a second release changes nothing"
    );
}

pub async fn a_refund_gives_all_back(bed: &Bed) {
    let request = tenant_take(
        vec![],
        vec![
            bucket(BucketUnit::Requests, 1, 5, 1),
            bucket(BucketUnit::Tokens, 1, 100, 60),
        ],
    );
    assert_eq!(remaining(&take(bed, &request).await), [4, 40]);
    release(bed, request.request, Correction::Refund).await;
    let next = TenantTake {
        request: fresh(),
        ..request
    };
    assert_eq!(remaining(&take(bed, &next).await), [4, 40]);
    release(bed, next.request, Correction::Used(10)).await;
    let last = TenantTake {
        request: fresh(),
        ..next
    };
    assert_eq!(
        remaining(&take(bed, &last).await),
        [3, 30],
        "requests stay counted, tokens are corrected"
    );
}

pub async fn newcomers_step_back_for_waiters(bed: &Bed) {
    let newcomer = AccountTake {
        newcomer: true,
        ..account_take(5)
    };
    bed.state
        .admission
        .mark_waiters(&account(), SHORT)
        .await
        .unwrap();
    assert_eq!(take_slot(bed, &newcomer).await, AccountGrant::WaitersFirst);
    assert!(matches!(
        take_slot(bed, &account_take(5)).await,
        AccountGrant::Granted { .. }
    ));
    bed.until("the mark ends", || async {
        matches!(
            take_slot(bed, &newcomer).await,
            AccountGrant::Granted { .. }
        )
    })
    .await;
}

pub async fn buckets_are_looked_at_without_taking(bed: &Bed) {
    let specs = || {
        vec![
            bucket(BucketUnit::Requests, 1, 5, 1),
            bucket(BucketUnit::Tokens, 1, 100, 60),
        ]
    };
    let look = async || {
        let place = Place::Tenant(&"acme".into());
        let states = bed.state.admission.buckets(place, &specs()).await.unwrap();
        let left: Vec<u64> = states.iter().map(|state| state.remaining).collect();
        left
    };
    assert_eq!(look().await, [5, 100]);
    let request = tenant_take(vec![], specs());
    take(bed, &request).await;
    for _ in 0..2 {
        assert_eq!(look().await, [4, 40]);
    }
    release(bed, request.request, Correction::Refund).await;
    assert_eq!(look().await, [5, 100]);
    let pool = account();
    let of_pool = BucketSpec {
        scope: Scope::Pool,
        id: "".into(),
        ..bucket(BucketUnit::Requests, 1, 2, 1)
    };
    let slots = AccountTake {
        buckets: vec![of_pool.clone()],
        ..account_take(1)
    };
    take_slot(bed, &slots).await;
    let place = Place::Pool(&pool);
    let looked = bed.state.admission.buckets(place, &[of_pool]).await;
    let looked = looked.unwrap();
    assert_eq!((looked[0].remaining, looked[0].limit), (1, 2));
    // A take that is refused for its slot tells the same.
    let full = AccountTake {
        request: fresh(),
        ..slots
    };
    let AccountGrant::Full { buckets, .. } = take_slot(bed, &full).await else {
        panic!("a slot was free");
    };
    assert_eq!(buckets[0].remaining, 1);
    let none = bed.state.admission.buckets(place, &[]).await.unwrap();
    assert_eq!(none, []);
}

pub async fn each_attempt_holds_its_own_slot(bed: &Bed) {
    let first = account_take(2);
    let second = AccountTake {
        attempt: 2,
        ..first.clone()
    };
    take_slot(bed, &first).await;
    take_slot(bed, &second).await;
    assert_eq!(used(bed).await, 2);
    assert!(matches!(
        take_slot(bed, &account_take(2)).await,
        AccountGrant::Full { used: 2, .. }
    ));
    let admission = &bed.state.admission;
    admission
        .release(&[account_release(first.request, Some(1))])
        .await
        .unwrap();
    assert_eq!(used(bed).await, 1);
    admission
        .release(&[account_release(first.request, None)])
        .await
        .unwrap();
    assert_eq!(used(bed).await, 0);
    let unlimited = AccountTake {
        limit: None,
        ..account_take(0)
    };
    assert!(matches!(
        take_slot(bed, &unlimited).await,
        AccountGrant::Granted { used: 1, .. }
    ));
}

pub async fn limits_per_second_and_per_minute_stand_side_by_side(bed: &Bed) {
    let spec = || {
        vec![
            bucket(BucketUnit::RequestsPerSecond, 60, 2, 1),
            bucket(BucketUnit::Requests, 1, 10, 1),
        ]
    };
    for left in [[1, 9], [0, 8]] {
        assert_eq!(
            remaining(&take(bed, &tenant_take(vec![], spec())).await),
            left
        );
    }
    let grant = take(bed, &tenant_take(vec![], spec())).await;
    assert!(refused(&grant, 0, LimitKind::Bucket));
    let limited = AccountTake {
        buckets: vec![BucketSpec {
            scope: Scope::Pool,
            id: "".into(),
            ..bucket(BucketUnit::Requests, 1, 1, 1)
        }],
        ..account_take(9)
    };
    take_slot(bed, &limited).await;
    let next = AccountTake {
        request: fresh(),
        ..limited
    };
    assert!(matches!(
        take_slot(bed, &next).await,
        AccountGrant::RateLimited { index: 0, retry_after_ms, .. } if retry_after_ms > 50_000
    ));
    assert_eq!(used(bed).await, 1);
}

pub async fn many_at_once_get_the_limit_and_no_more(bed: &Bed) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let admission = Arc::clone(&bed.state.admission);
        tasks.spawn(async move {
            let grant = admission.take_account(&account_take(7)).await.unwrap();
            matches!(grant, AccountGrant::Granted { .. })
        });
    }
    let served = tasks.join_all().await.into_iter().filter(|served| *served);
    assert_eq!(served.count(), 7);
    assert_eq!(used(bed).await, 7);
}

pub async fn a_batch_of_many_places_is_released_at_once(bed: &Bed) {
    let mut releases = Vec::new();
    let mut renewals = Vec::new();
    for place in 0..5 {
        for _ in 0..60 {
            let request = AccountTake {
                account: AccountName::from(format!("account-{place}")).into(),
                ..account_take(100)
            };
            take_slot(bed, &request).await;
            renewals.push(Renewal::Account {
                account: request.account.clone(),
                request: request.request,
                attempt: 1,
            });
            releases.push(Release::Account {
                account: request.account,
                request: request.request,
                attempt: Some(1),
                correction: Correction::Keep,
            });
        }
    }
    assert_eq!(held(bed).await, 300);
    let renewed = bed.state.admission.renew(&renewals, LONG).await.unwrap();
    assert_eq!(renewed, Renewed::default());
    bed.state.admission.release(&releases).await.unwrap();
    assert_eq!(held(bed).await, 0);
    let renewed = bed.state.admission.renew(&renewals, LONG).await.unwrap();
    assert_eq!(renewed.gone, 300);
    let tenant = TenantName::from("acme");
    assert_eq!(bed.state.purses.held(&tenant).await.unwrap(), 0);
}
