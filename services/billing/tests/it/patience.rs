//! Holds that are about to come back are waited for (BILL-3, CASES A25).

use std::time::Duration;

use switchboard_billing::Config;
use switchboard_common::error::Reason;
use switchboard_proto::billing::v1::{RecordRequest, ReserveRequest, ReserveResponse};

use crate::{
    bench::{Bench, Ground, Stores, stores, test_config},
    fixtures::{ask, prepaid, settlement},
};

async fn reserve(billing: &Bench, request: ReserveRequest) -> ReserveResponse {
    let mut client = billing.client.clone();
    client.reserve(request).await.unwrap().into_inner()
}

fn patient(hold_patience: Duration) -> Config {
    Config {
        // A settlement is on its way for long enough to be overtaken.
        gather: Duration::from_millis(50),
        hold_patience,
        ..test_config()
    }
}

#[tokio::test]
async fn what_an_answer_that_just_ended_holds_neither_refuses_nor_cuts_the_next() {
    for stores in stores() {
        // Too little for the least output beside the hold, and enough for a part of what is wanted.
        for (balance, replica) in [(1_500_000, 0), (1_700_000, 0), (1_700_000, 1)] {
            let ground = Ground::new(stores, true).await;
            let config = || patient(Duration::from_secs(30));
            let replicas = [
                ground.billing_with(config(), ground.state.clone()).await,
                ground.billing_with(config(), ground.state.clone()).await,
            ];
            let billing = &replicas[0];
            let versions = billing.usual_prices().await;
            billing
                .apply(vec![prepaid("acme", balance)], Vec::new())
                .await;
            let first = billing.new_id();
            reserve(billing, ask(first, "acme", versions.0, 500)).await;
            let mut recorder = replicas[replica].record().await;
            let ended = RecordRequest {
                settlements: vec![settlement(first, "acme", versions, 100)],
                touches: Vec::new(),
            };
            recorder.sender.send(ended).await.unwrap();

            let next = reserve(billing, ask(billing.new_id(), "acme", versions.0, 500)).await;
            assert_eq!(
                (next.held_nanos, next.output_cap),
                (1_000_000, None),
                "{stores:?} {balance}"
            );
            recorder.next().await;
            billing.assert_balanced().await;
        }
    }
}

#[tokio::test]
async fn what_cannot_come_back_is_not_waited_for() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let config = patient(Duration::from_secs(3_600));
    let billing = ground.billing_with(config, ground.state.clone()).await;
    let versions = billing.usual_prices().await;
    billing
        .apply(vec![prepaid("acme", 1_600_000)], Vec::new())
        .await;
    // Nobody else holds anything, and the balance does not pay for all.
    let part = reserve(&billing, ask(billing.new_id(), "acme", versions.0, 1_000)).await;
    assert_eq!((part.held_nanos, part.output_cap), (1_600_000, Some(800)));
    // Not even all of the balance pays for the least of this.
    let dear = ReserveRequest {
        choices: 8,
        ..ask(billing.new_id(), "acme", versions.0, 1_000)
    };
    let refused = billing.reserve(dear).await.unwrap_err();
    assert_eq!(refused.reason, Reason::InsufficientQuota);
}

#[tokio::test]
async fn patience_ends() {
    let ground = Ground::new(Stores::Embedded, true).await;
    for patience in [Duration::ZERO, Duration::from_millis(15)] {
        let billing = ground
            .billing_with(patient(patience), ground.state.clone())
            .await;
        let versions = billing.usual_prices().await;
        let tenant = format!("acme-{}", patience.as_millis());
        billing
            .apply(vec![prepaid(&tenant, 1_700_000)], Vec::new())
            .await;
        reserve(&billing, ask(billing.new_id(), &tenant, versions.0, 500)).await;
        let cut = reserve(&billing, ask(billing.new_id(), &tenant, versions.0, 500)).await;
        assert_eq!((cut.held_nanos, cut.output_cap), (700_000, Some(350)));
        let refused = billing
            .reserve(ask(billing.new_id(), &tenant, versions.0, 500))
            .await
            .unwrap_err();
        assert_eq!(refused.reason, Reason::InsufficientQuota);
    }
}
