//! Every process obeys a change, whoever made it (AUTH-5, CASES A32 D18).

use switchboard_common::error::Reason;
use switchboard_proto::{auth::v1::Status as Standing, common::v1::Limits};

use crate::world::{OWN, Place, World, catalogue, changes, eventually, key, reason};

#[tokio::test]
async fn a_change_in_one_process_reaches_the_others_caches() {
    for place in Place::all("reach") {
        let here = World::open(&place).await;
        let there = here.replica(&place).await;
        let own = format!("{OWN}1");
        here.apply(catalogue(vec![key("ci", &own)])).await.unwrap();
        eventually("the new key is known there", || async {
            there.ask(&own).await.is_ok()
        })
        .await;

        let mut file = catalogue(vec![key("ci", &own)]);
        file.tenants[0].keys[0].limits = Some(Limits {
            concurrency: Some(3),
            ..Limits::default()
        });
        here.apply(file.clone()).await.unwrap();
        eventually("the limit", || async {
            there
                .ask(&own)
                .await
                .unwrap()
                .key_limits
                .is_some_and(|limits| limits.concurrency == Some(3))
        })
        .await;

        file.groups[0].multiplier = 2_000_000;
        here.apply(file.clone()).await.unwrap();
        eventually("the group's factor", || async {
            there.ask(&own).await.unwrap().group_multiplier == 2_000_000
        })
        .await;

        file.tenants[0].users[0].status = Standing::Disabled.into();
        file.tenants[0].status = Standing::Disabled.into();
        here.apply(file).await.unwrap();
        eventually("the tenant's end", || async {
            there.ask(&own).await.unwrap().tenant_status() == Standing::Disabled
        })
        .await;

        here.disable("acme/ci").await.unwrap();
        eventually("the key's end", || async {
            there.ask(&own).await.unwrap().key_status() == Standing::Disabled
        })
        .await;
        there.close().await;
        here.close().await;
        place.clear().await;
    }
}

/// The process that made it died right after its commit: nobody wakes anyone.
#[tokio::test]
async fn a_change_whose_maker_died_reaches_watchers_and_caches() {
    for place in Place::all("died") {
        let here = World::open(&place).await;
        let there = here.replica(&place).await;
        let own = format!("{OWN}1");
        here.apply(catalogue(vec![key("ci", &own)])).await.unwrap();
        let seen = here.ask(&own).await.unwrap().change_seq;
        eventually("the key is known there", || async {
            there.ask(&own).await.is_ok()
        })
        .await;
        let mut watch = there.watch(seen).await;
        here.sql("UPDATE api_key SET status = 'disabled', disabled_by = 'admin' WHERE name = 'ci'")
            .await;
        here.sql("INSERT INTO change (scope, id, at_ms) VALUES ('key', 'acme', 1800000000000)")
            .await;
        // A watcher may be told once more what it knows.
        let mut news: Vec<(String, String, u64)> = Vec::new();
        while !news
            .iter()
            .any(|(scope, id, seq)| scope == "key" && id == "acme" && *seq > seen)
        {
            news = changes(&mut watch)
                .await
                .into_iter()
                .map(|change| (change.scope, change.id, change.seq))
                .collect();
        }
        for world in [&here, &there] {
            eventually("the key's end", || async {
                world.ask(&own).await.unwrap().key_status() == Standing::Disabled
            })
            .await;
        }
        drop(watch);
        there.close().await;
        here.close().await;
        place.clear().await;
    }
}

/// The state store outlives auth; what it holds may be older than a change that no auth was there to see.
#[tokio::test]
async fn a_process_that_starts_refuses_entries_from_before_a_change_that_nobody_saw() {
    for place in Place::all("unseen") {
        let first = World::open(&place).await;
        let own = format!("{OWN}1");
        first.apply(catalogue(vec![key("ci", &own)])).await.unwrap();
        eventually("it is cached", || async {
            first.ask(&own).await.unwrap();
            first
                .metrics
                .render()
                .contains("auth_answers_total{source=\"State\"")
        })
        .await;
        assert!(
            first
                .lifecycle
                .shutdown(
                    std::time::Duration::from_secs(10),
                    std::time::Duration::from_secs(10)
                )
                .await
        );
        first
            .sql("UPDATE api_key SET status = 'disabled' WHERE name = 'ci'")
            .await;
        first
            .sql("INSERT INTO change (scope, id, at_ms) VALUES ('key', 'acme', 1800000000000)")
            .await;
        let second = first.replica(&place).await;
        assert_eq!(
            second.ask(&own).await.unwrap().key_status(),
            Standing::Disabled
        );
        second.close().await;
        first.database.clone().close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_key_that_was_asked_for_before_it_was_made_is_known_at_once() {
    for place in Place::all("early") {
        let world = World::open(&place).await;
        let own = format!("{OWN}1");
        assert_eq!(
            reason(&world.ask(&own).await.unwrap_err()),
            Reason::InvalidApiKey
        );
        world.apply(catalogue(vec![key("ci", &own)])).await.unwrap();
        eventually("it is known", || async { world.ask(&own).await.is_ok() }).await;
        world.close().await;
        place.clear().await;
    }
}
