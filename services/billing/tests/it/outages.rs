//! Without the database (OPS-5): settlements wait, nothing is lost.

use switchboard_common::error::Reason;
use switchboard_migrations::{Owner, migrate};
use switchboard_proto::billing::v1::RecordRequest;

use crate::{
    bench::{Ground, stores, until},
    fixtures::{ask, provisional, settlement},
};

#[tokio::test]
async fn settlements_wait_for_the_schema_and_are_acknowledged_when_it_is_there() {
    for stores in stores() {
        let ground = Ground::new(stores, false).await;
        let billing = ground.billing().await;
        assert!(!billing.component.ready());
        let refused = billing
            .reserve(ask(billing.new_id(), "acme", 1, 10))
            .await
            .unwrap_err();
        assert_eq!(refused.reason, Reason::Unavailable);
        assert!(refused.retry_after.is_some());

        let mut free = settlement(billing.new_id(), "acme", (0, 0), 10);
        (free.charge_nothing, free.attempts) = (true, Vec::new());
        let estimate = provisional(&settlement(billing.new_id(), "acme", (1, 0), 10), 5);
        let mut recorder = billing.record().await;
        let request = RecordRequest {
            settlements: vec![free.clone(), estimate],
            touches: Vec::new(),
        };
        recorder.sender.send(request).await.unwrap();
        // It failed at least once before the schema came.
        let mut ready = billing.component.readiness();
        migrate(ground.database.writer(), Owner::Billing)
            .await
            .unwrap();
        ready.wait_for(|ready| *ready).await.unwrap();
        let mut settled = Vec::new();
        while settled.len() < 2 {
            settled.extend(recorder.next().await.settled);
        }
        assert!(billing.component.ready());
        // The one is in the books, the other has no price and waits for someone to look.
        let verified = until(|| async { Some(billing.verify().await) }).await;
        assert_eq!((verified.settlements, verified.dead_letters), (1, 1));
        assert_eq!(billing.usage("acme").await[0].request_id, free.request_id);
    }
}

#[tokio::test]
async fn a_commit_that_the_database_holds_up_is_tried_again_until_it_succeeds() {
    use sea_orm::{ConnectionTrait as _, TransactionTrait as _};
    let ground = Ground::new(crate::bench::Stores::Embedded, true).await;
    let config = switchboard_billing::Config {
        commit_timeout: std::time::Duration::from_millis(100),
        ..crate::bench::test_config()
    };
    let billing = ground.billing_with(config, ground.state.clone()).await;
    let versions = billing.usual_prices().await;
    // The file's only writer is taken.
    let lock = ground.sql().begin().await.unwrap();
    lock.execute_unprepared("UPDATE wallet SET version = version")
        .await
        .unwrap();
    let mut recorder = billing.record().await;
    let request = RecordRequest {
        settlements: vec![settlement(billing.new_id(), "acme", versions, 10)],
        touches: Vec::new(),
    };
    recorder.sender.send(request).await.unwrap();
    // Reading goes on meanwhile.
    assert!(billing.usage("acme").await.is_empty());
    lock.rollback().await.unwrap();
    assert_eq!(recorder.next().await.settled.len(), 1);
    assert_eq!(billing.assert_balanced().await.settlements, 1);
}
