//! Silent holds, and crashes between commit and script (BILL-5).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use switchboard_billing::Config;
use switchboard_common::ids::{RequestId, TenantName};
use switchboard_proto::billing::v1::{RecordRequest, Settlement, Touch};
use switchboard_state::{
    Error,
    purses::{HoldGrant, HoldTake, PurseValue, Purses, StaleHold, TouchItem},
};

use crate::{
    bench::{Bench, Ground, Stores, reaping_config, stores, until},
    fixtures::{USD, ask, prepaid, provisional, settlement},
};

async fn touch(billing: &Bench, id: RequestId, held_nanos: i64, draft: Settlement) {
    let touch = Touch {
        request_id: id.to_string(),
        tenant: "acme".to_owned(),
        held_nanos,
        held_tokens: 0,
        draft: Some(draft),
    };
    let mut recorder = billing.record().await;
    let request = RecordRequest {
        settlements: Vec::new(),
        touches: vec![touch],
    };
    recorder.sender.send(request).await.unwrap();
    assert_eq!(recorder.next().await.touched, [id.to_string()]);
}

#[tokio::test]
async fn a_silent_request_is_settled_from_its_draft_and_finally_by_its_own_word() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        // It does not reap, so that the draft is there before anybody finds the hold silent.
        let billing = &ground.billing().await;
        let versions = billing.usual_prices().await;
        billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
        let id = billing.new_id();
        let real = settlement(id, "acme", versions, 500);
        billing
            .reserve(ask(id, "acme", versions.0, 1_000))
            .await
            .unwrap();
        // A draft as the forwarder writes it; what it says of its ending does not count.
        let mut draft = provisional(&real, 120);
        draft.provisional = false;
        touch(billing, id, 2_000_000, draft).await;

        // Two replicas reap: one of them books.
        let replicas = [
            ground
                .billing_with(reaping_config(), ground.state.clone())
                .await,
            ground
                .billing_with(reaping_config(), ground.state.clone())
                .await,
        ];
        let row = until(|| async { billing.usage("acme").await.pop() }).await;
        assert_eq!(
            (row.provisional, row.ending.as_str(), row.charge_nanos),
            (true, "gateway_lost", 240_000)
        );
        billing.until("acme", |tenant| tenant.held_nanos == 0).await;
        assert_eq!(billing.tenant("acme").await.balance_nanos, USD - 240_000);
        billing.assert_balanced().await;

        // The forwarder is back and sends what its journal has.
        replicas[1].settle(vec![real]).await;
        let row = billing.usage("acme").await.pop().unwrap();
        assert_eq!((row.provisional, row.charge_nanos), (false, 1_000_000));
        assert_eq!(billing.tenant("acme").await.balance_nanos, USD - 1_000_000);
        assert_eq!(billing.assert_balanced().await.settlements, 1);
    }
}

#[tokio::test]
async fn a_hold_of_which_nothing_was_ever_heard_is_given_back() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground
            .billing_with(reaping_config(), ground.state.clone())
            .await;
        let (version, _) = billing.usual_prices().await;
        billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
        billing
            .reserve(ask(billing.new_id(), "acme", version, 500))
            .await
            .unwrap();
        billing.until("acme", |tenant| tenant.held_nanos == 0).await;
        assert_eq!(billing.tenant("acme").await.balance_nanos, USD);
        until(|| async {
            billing
                .metrics
                .render()
                .contains("switchboard_holds_open 0")
                .then_some(())
        })
        .await;
        assert_eq!(billing.assert_balanced().await.settlements, 0);
    }
}

#[tokio::test]
async fn a_silent_request_of_a_tenant_without_any_bound_is_settled_too() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let id = billing.new_id();
        let held = billing.reserve(ask(id, "acme", versions.0, 500)).await;
        assert_eq!(held, Ok(0));
        let real = settlement(id, "acme", versions, 500);
        touch(&billing, id, 0, provisional(&real, 100)).await;
        let _reaping = ground
            .billing_with(reaping_config(), ground.state.clone())
            .await;
        let row = until(|| async { billing.usage("acme").await.pop() }).await;
        assert_eq!((row.provisional, row.charge_nanos), (true, 200_000));
        billing
            .until("acme", |tenant| tenant.balance_nanos == -200_000)
            .await;
        billing.assert_balanced().await;
    }
}

#[tokio::test]
async fn nothing_is_reaped_within_the_grace_and_a_hold_beyond_its_limit_is_named() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let config = Config {
        reaper_grace: Duration::from_secs(3_600),
        hold_limit: Duration::from_millis(31),
        ..reaping_config()
    };
    let billing = ground.billing_with(config, ground.state.clone()).await;
    let (version, _) = billing.usual_prices().await;
    billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
    let id = billing.new_id();
    billing
        .reserve(ask(id, "acme", version, 500))
        .await
        .unwrap();
    let named = until(|| async { billing.verify().await.problems.pop() }).await;
    assert!(
        named.contains(&id.to_string()) && named.contains("hold"),
        "{named}"
    );
    // Rounds went by: the gauge was set by one of them.
    until(|| async {
        billing
            .metrics
            .render()
            .contains("switchboard_holds_open 1")
            .then_some(())
    })
    .await;
    assert_eq!(billing.tenant("acme").await.held_nanos, 1_000_000);
}

/// The process dies after the commit and before the script: what the script would have said is lost.
struct Mute {
    inner: Arc<dyn Purses>,
    mute: AtomicBool,
}

#[async_trait]
impl Purses for Mute {
    async fn reserve(&self, take: &HoldTake) -> Result<HoldGrant, Error> {
        self.inner.reserve(take).await
    }

    async fn load(&self, tenant: &TenantName, values: &[PurseValue]) -> Result<(), Error> {
        self.inner.load(tenant, values).await
    }

    async fn void(&self, tenant: &TenantName, request: RequestId) -> Result<(), Error> {
        self.inner.void(tenant, request).await
    }

    async fn settle(
        &self,
        tenant: &TenantName,
        requests: &[RequestId],
        values: &[PurseValue],
    ) -> Result<(), Error> {
        if self.mute.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("the process died".into()));
        }
        self.inner.settle(tenant, requests, values).await
    }

    async fn touch(&self, touches: &[TouchItem]) -> Result<(), Error> {
        self.inner.touch(touches).await
    }

    async fn stale(&self, silent_for_ms: u64, limit: usize) -> Result<Vec<StaleHold>, Error> {
        self.inner.stale(silent_for_ms, limit).await
    }

    async fn held(&self, tenant: &TenantName) -> Result<i64, Error> {
        self.inner.held(tenant).await
    }

    async fn open_holds(&self) -> Result<u64, Error> {
        self.inner.open_holds().await
    }
}

#[tokio::test]
async fn a_crash_between_commit_and_script_leaves_right_balances() {
    for stores in stores() {
        for touched in [false, true] {
            let ground = Ground::new(stores, true).await;
            let mute = Arc::new(Mute {
                inner: Arc::clone(&ground.state.purses),
                mute: AtomicBool::new(true),
            });
            let mut dying = ground.state.clone();
            dying.purses = mute;
            let billing = ground
                .billing_with(crate::bench::test_config(), dying)
                .await;
            let versions = billing.usual_prices().await;
            billing
                .apply(vec![prepaid("acme", 1_500_000)], Vec::new())
                .await;
            let id = billing.new_id();
            let real = settlement(id, "acme", versions, 500);
            billing
                .reserve(ask(id, "acme", versions.0, 500))
                .await
                .unwrap();
            if touched {
                touch(&billing, id, 1_000_000, provisional(&real, 120)).await;
            }
            billing.settle(vec![real.clone()]).await;
            assert_eq!(billing.tenant("acme").await.held_nanos, 1_000_000);
            assert_eq!(billing.metric("switchboard_hold_state_failures_total"), "1");

            // Another process takes over; the state store is the same.
            let after = ground
                .billing_with(reaping_config(), ground.state.clone())
                .await;
            after.until("acme", |tenant| tenant.held_nanos == 0).await;
            assert_eq!(after.tenant("acme").await.balance_nanos, 500_000);
            // The store's copy is right again: 500,000 and no more can be held.
            let all = ask(after.new_id(), "acme", versions.0, 1_000);
            let refused = after.reserve(all).await.unwrap_err();
            assert!(refused.message.contains("0.0005 USD left"), "{refused}");
            // The sender repeats itself.
            after.settle(vec![real]).await;
            assert_eq!(
                after.assert_balanced().await.settlements,
                1,
                "{stores:?} {touched}"
            );
            assert!(!after.usage("acme").await[0].provisional);
        }
    }
}
