//! What the vault gives, to whom, and how catalogues change it.

use std::time::Duration;

use sea_orm::{ConnectionTrait as _, Statement};
use switchboard_common::{
    db::Database,
    error::{Failure, Reason},
    grpc::Role,
};
use switchboard_migrations::{Owner, migrate};
use switchboard_proto::{
    common::v1::WatchChangesRequest,
    credentials::v1::{
        GetRequest, ListAuditRequest, ListCredentialsRequest, credentials_client::CredentialsClient,
    },
};
use switchboard_token_refresh::Error;
use tonic::Code;

use crate::world::{Place, World, changes, request};

fn reason(status: &tonic::Status) -> Reason {
    Failure::from_status(status).reason
}

#[tokio::test]
async fn a_forwarder_gets_what_the_catalogue_gave() {
    for place in Place::all("gets") {
        let world = World::open(&place).await;
        assert!(world.component.ready());
        assert_eq!(
            world
                .apply(&[("main", "sk-upstream-1"), ("gpu", "")])
                .await
                .unwrap(),
            ["add main"]
        );
        let given = world.get("main", 0).await.unwrap();
        assert_eq!(
            (given.secret.as_str(), given.generation, given.expires_at_ms),
            ("sk-upstream-1", 1, None)
        );
        for missing in ["gpu", "' OR 1=1--", ""] {
            assert_eq!(
                reason(&world.get(missing, 0).await.unwrap_err()),
                Reason::NotFound
            );
        }
        world.close().await;
        // It is still there for the next process.
        let world = World::open(&place).await;
        assert_eq!(world.get("main", 0).await.unwrap().secret, "sk-upstream-1");
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_refused_generation_gets_the_newer_one_or_learns_that_there_is_none() {
    for place in Place::all("stale") {
        let world = World::open(&place).await;
        world.apply(&[("main", "first")]).await.unwrap();
        let same = world.get("main", 1).await.unwrap();
        assert_eq!((same.secret.as_str(), same.generation), ("first", 1));
        assert_eq!(
            world.apply(&[("main", "second")]).await.unwrap(),
            ["change main"]
        );
        let newer = world.get("main", 1).await.unwrap();
        assert_eq!((newer.secret.as_str(), newer.generation), ("second", 2));
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn the_last_three_generations_are_kept() {
    for place in Place::all("kept") {
        let world = World::open(&place).await;
        for secret in ["a", "b", "c", "d", "e"] {
            world
                .apply(&[("main", secret), ("other", "stays")])
                .await
                .unwrap();
        }
        let rows = world
            .database
            .reader()
            .query_all_raw(Statement::from_string(
                world.database.backend(),
                "SELECT account, generation FROM credential ORDER BY account, generation",
            ))
            .await
            .unwrap();
        let rows: Vec<(String, i64)> = rows
            .iter()
            .map(|row| {
                (
                    row.try_get("", "account").unwrap(),
                    row.try_get("", "generation").unwrap(),
                )
            })
            .collect();
        let expected = [("main", 3), ("main", 4), ("main", 5), ("other", 1)];
        assert_eq!(
            rows,
            expected.map(|(account, generation)| (account.to_owned(), generation))
        );
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn nobody_but_a_forwarder_gets_anything() {
    let place = Place::sqlite();
    let world = World::open(&place).await;
    world.apply(&[("main", "sk-upstream")]).await.unwrap();
    let ask = || GetRequest {
        account: "main".to_owned(),
        stale_generation: 0,
    };
    for role in Role::ALL
        .into_iter()
        .filter(|role| *role != Role::Forwarder)
    {
        let status = world.client(role).get(ask()).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{role}");
        let watch = world
            .client(role)
            .watch_changes(WatchChangesRequest { since: 0 })
            .await;
        assert_eq!(watch.unwrap_err().code(), Code::PermissionDenied, "{role}");
    }
    // Without any proof of a role, as on a listener for strangers: the handler itself refuses.
    let mut stranger = CredentialsClient::new(world.component.server());
    assert_eq!(
        stranger.get(ask()).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    let watch = stranger
        .watch_changes(WatchChangesRequest { since: 0 })
        .await;
    assert_eq!(watch.unwrap_err().code(), Code::PermissionDenied);
    assert!(
        world
            .metrics
            .render()
            .contains("credential_requests_total{outcome=\"Refused\"} 1")
    );
    world.close().await;
}

#[tokio::test]
async fn the_same_catalogue_twice_changes_nothing_and_what_left_is_disabled() {
    for place in Place::all("apply") {
        let world = World::open(&place).await;
        let file = [("main", "one"), ("seat", "two")];
        let planned = world
            .admin()
            .plan(request(&file))
            .await
            .unwrap()
            .into_inner()
            .changes;
        assert_eq!(planned.len(), 2);
        assert_eq!(
            reason(&world.get("main", 0).await.unwrap_err()),
            Reason::NotFound,
            "a plan writes nothing"
        );
        world.apply(&file).await.unwrap();
        let count = || async {
            let row = world
                .database
                .reader()
                .query_one_raw(Statement::from_string(
                    world.database.backend(),
                    "SELECT (SELECT COUNT(*) FROM change) + (SELECT COUNT(*) FROM audit) AS n",
                ))
                .await
                .unwrap()
                .unwrap();
            row.try_get::<i64>("", "n").unwrap()
        };
        assert_eq!(count().await, 3);
        assert!(world.apply(&file).await.unwrap().is_empty());
        assert_eq!(count().await, 3, "no audit row, no change row");

        assert_eq!(
            world.apply(&[("main", "one")]).await.unwrap(),
            ["disable seat"]
        );
        let status = world.get("seat", 0).await.unwrap_err();
        assert_eq!(reason(&status), Reason::NotFound);
        assert!(status.message().contains("disabled"));
        assert_eq!(world.apply(&file).await.unwrap(), ["change seat"]);
        assert_eq!(world.get("seat", 0).await.unwrap().generation, 1);

        let listed = world
            .admin()
            .list_credentials(ListCredentialsRequest {})
            .await
            .unwrap()
            .into_inner();
        let listed: Vec<_> = listed
            .credentials
            .iter()
            .map(|info| (info.account.as_str(), info.generation, info.status.as_str()))
            .collect();
        assert_eq!(listed, [("main", 1, "active"), ("seat", 1, "active")]);
        let audit = world
            .admin()
            .list_audit(ListAuditRequest { limit: 0 })
            .await
            .unwrap()
            .into_inner();
        let audit: Vec<_> = audit
            .entries
            .iter()
            .map(|entry| (entry.actor.as_str(), entry.detail.as_str()))
            .collect();
        assert_eq!(
            audit,
            [
                ("cli", "change credential seat: status: disabled → active"),
                ("cli", "disable credential seat: it left the file"),
                ("cli", "add credential main; add credential seat"),
            ]
        );
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn watchers_learn_of_each_change_also_of_one_that_another_process_committed() {
    for place in Place::all("watch") {
        let world = World::open(&place).await;
        world.apply(&[("before", "s")]).await.unwrap();
        let mut watch = world.watch(1).await;
        world
            .apply(&[("before", "s"), ("main", "s")])
            .await
            .unwrap();
        let seen = changes(&mut watch).await;
        assert_eq!(
            (seen[0].scope.as_str(), seen[0].id.as_str(), seen[0].seq),
            ("credential", "main", 2)
        );
        // A process that died right after its commit: nobody wakes anyone.
        world
            .database
            .writer()
            .execute_unprepared(
                "INSERT INTO change (scope, id, at_ms) VALUES ('credential', 'foreign', 1)",
            )
            .await
            .unwrap();
        assert_eq!(changes(&mut watch).await[0].id, "foreign");
        assert_eq!(
            changes(&mut world.watch(1).await).await.len(),
            2,
            "a late watcher gets what it missed"
        );
        drop(watch);
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn another_master_key_is_one_clear_error() {
    for place in Place::all("key") {
        let world = World::open_with(&place, 7).await.unwrap();
        world.apply(&[("main", "sk-upstream")]).await.unwrap();
        world.close().await;
        let Err(error) = World::open_with(&place, 8).await else {
            unreachable!("the vault opened with another key");
        };
        assert!(matches!(error, Error::MasterKey { .. }));
        let text = error.to_string();
        assert!(
            text.starts_with(
                "wrong master key: the credential of account `main` was sealed with key "
            ),
            "{text}"
        );
        assert!(!text.contains('\n'));
        place.clear().await;
    }
}

#[tokio::test]
async fn a_vault_without_its_schema_waits_for_it() {
    for place in Place::all("wait") {
        let database = Database::open(&place.config).await.unwrap();
        let world = World::start(database.clone(), 7).await.unwrap();
        assert!(!world.component.ready());
        let status = world.get("main", 0).await.unwrap_err();
        assert_eq!(reason(&status), Reason::Unavailable);
        assert!(Failure::from_status(&status).retry_after.is_some());
        migrate(database.writer(), Owner::TokenRefresh)
            .await
            .unwrap();
        let ready = async {
            while !world.component.ready() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), ready)
            .await
            .expect("becomes ready");
        world.apply(&[("main", "s")]).await.unwrap();
        assert_eq!(world.get("main", 0).await.unwrap().secret, "s");
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn wrong_requests_name_the_field() {
    let place = Place::sqlite();
    let world = World::open(&place).await;
    let status = world
        .apply(&[("main", "a"), ("main", "b")])
        .await
        .unwrap_err();
    let failure = Failure::from_status(&status);
    assert_eq!(failure.reason, Reason::InvalidRequest);
    assert_eq!(failure.param.as_deref(), Some("credentials[1].account"));
    let mut nobody = request(&[("main", "a")]);
    nobody.actor = None;
    let failure = Failure::from_status(&world.admin().apply(nobody).await.unwrap_err());
    assert_eq!(failure.param.as_deref(), Some("actor.name"));
    world.close().await;
}
