//! Usage rows for people (CON-1).

use switchboard_proto::billing::v1::ListUsageRequest;

use crate::{
    bench::{Ground, stores},
    fixtures::settlement,
};

#[tokio::test]
async fn rows_are_listed_newest_first_page_by_page_and_by_tenant() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let now = ground.clock.now_ms();
        // Over a day's end, in disorder.
        let mut ids: Vec<_> = (0..7)
            .map(|day| switchboard_common::ids::RequestId::generate(now - day * 40_000_000))
            .collect();
        ids.rotate_left(3);
        let tenants = ["one", "two"];
        let settlements = ids
            .iter()
            .enumerate()
            .map(|(index, id)| settlement(*id, tenants[index % 2], versions, 1))
            .collect();
        billing.settle(settlements).await;
        let mut newest = ids.clone();
        newest.sort_by(|a, b| b.cmp(a));
        let mut listed = Vec::new();
        let mut before = String::new();
        loop {
            let request = ListUsageRequest {
                limit: 3,
                before: before.clone(),
                ..ListUsageRequest::default()
            };
            let rows = billing
                .admin
                .clone()
                .list_usage(request)
                .await
                .unwrap()
                .into_inner()
                .rows;
            let Some(last) = rows.last() else {
                break;
            };
            before = last.request_id.clone();
            listed.extend(rows.into_iter().map(|row| row.request_id));
        }
        assert_eq!(
            listed,
            newest.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        let mine = billing.usage("two").await;
        assert_eq!(mine.len(), 3);
        assert!(
            mine.iter()
                .all(|row| row.tenant == "two" && row.attempts.len() == 1)
        );
        billing.assert_balanced().await;
    }
}
