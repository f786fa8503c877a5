//! The catalogue's versions (ROUTE-1, ROUTE-7; CASES D18).

use futures_util::StreamExt as _;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    common::v1::Actor,
    scheduler::v1::{
        ApplyRequest, ListAuditRequest, ListVersionsRequest, Release, RollbackRequest,
        WatchCatalogueRequest,
    },
};

use crate::world::{Shape, World, account, asked, granted, one_model};

fn served_by(name: &str) -> String {
    one_model(
        &(account("a", "") + &account("b", "")),
        &format!("targets: [{{account: {name}, model: up}}]"),
    )
}

#[tokio::test]
async fn a_change_makes_a_version_and_the_same_again_makes_none() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let first = node.try_apply(&served_by("a")).await.unwrap();
        assert_eq!(first.version, 1);
        assert!(
            first
                .changes
                .iter()
                .any(|c| c.kind == "add" && c.section == "model" && c.name == "m")
        );
        let same = node.try_apply(&served_by("a")).await.unwrap();
        assert_eq!((same.version, same.changes.len()), (1, 0));
        let second = node.try_apply(&served_by("b")).await.unwrap();
        assert_eq!(second.version, 2);
        assert_eq!(second.changes.len(), 1);
        assert!(
            second.changes[0].detail.contains("targets[0].account"),
            "{:?}",
            second.changes
        );

        let mut admin = node.admin.clone();
        let versions = admin
            .list_versions(ListVersionsRequest { limit: 10 })
            .await
            .unwrap()
            .into_inner()
            .versions;
        let shape: Vec<_> = versions
            .iter()
            .map(|v| (v.version, v.current, v.actor.as_str()))
            .collect();
        assert_eq!(shape, [(2, true, "cli"), (1, false, "cli")]);
        assert!(versions[0].diff.contains("model m"));
        let audit = admin
            .list_audit(ListAuditRequest { limit: 10 })
            .await
            .unwrap()
            .into_inner()
            .entries;
        assert_eq!(audit.len(), 2);
        assert_eq!(
            (audit[0].actor.as_str(), audit[0].reason.as_str()),
            ("cli", "test")
        );
    }
}

#[tokio::test]
async fn a_plan_writes_nothing() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let catalogue = switchboard_catalogue::parse(&served_by("a"), "t")
        .unwrap()
        .catalogue;
    let request = ApplyRequest {
        actor: None,
        catalogue_json: serde_json::to_vec(&catalogue).unwrap().into(),
        sheets: Vec::new(),
    };
    let planned = node.admin.clone().plan(request).await.unwrap().into_inner();
    assert!(planned.changes.len() >= 4);
    assert_eq!(planned.version, 0);
    assert_eq!(node.refused(asked()).await.reason, Reason::ModelNotFound);
}

#[tokio::test]
async fn a_request_runs_on_the_version_it_began_on() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let first = node.apply(&served_by("a")).await;
        let second = node.apply(&served_by("b")).await;
        for (version, expected) in [(first, "a"), (second, "b"), (0, "b"), (first, "a")] {
            let mut asked = asked();
            asked.catalogue_version = version;
            assert_eq!(granted(&node.acquire(asked).await), expected);
        }
        let mut never = asked();
        never.catalogue_version = 99;
        assert_eq!(node.refused(never).await.reason, Reason::NotFound);
    }
}

#[tokio::test]
async fn versions_that_are_no_longer_kept_are_loaded_again() {
    let mut shape = Shape::default();
    shape.config.kept_versions = 1;
    let world = World::small(&shape).await;
    let node = world.node();
    node.apply(&served_by("a")).await;
    for name in ["b", "a", "b", "a"] {
        node.apply(&served_by(name)).await;
    }
    for (version, expected) in [(2, "b"), (1, "a"), (4, "b"), (5, "a")] {
        let mut asked = asked();
        asked.catalogue_version = version;
        assert_eq!(granted(&node.acquire(asked).await), expected);
    }
}

#[tokio::test]
async fn a_rollback_is_a_new_version_like_the_old() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        node.apply(&served_by("a")).await;
        node.apply(&served_by("b")).await;
        let actor = Some(Actor {
            name: "cli".to_owned(),
            reason: "it was better".to_owned(),
        });
        let request = RollbackRequest { actor, version: 1 };
        let answer = node
            .admin
            .clone()
            .rollback(request.clone())
            .await
            .unwrap()
            .into_inner();
        assert_eq!((answer.version, answer.changes.len()), (3, 1));
        assert_eq!(granted(&node.acquire(asked()).await), "a");
        let unknown = RollbackRequest {
            version: 77,
            ..request
        };
        let status = node.admin.clone().rollback(unknown).await.unwrap_err();
        assert_eq!(Failure::from_status(&status).reason, Reason::NotFound);
    }
}

#[tokio::test]
async fn what_cannot_be_a_version_is_refused_and_changes_nothing() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    node.apply(&served_by("a")).await;
    let actor = Some(Actor {
        name: "cli".to_owned(),
        reason: String::new(),
    });
    for (actor, json, field) in [
        (actor.clone(), "{\"models\": 3}", Some("catalogue_json")),
        (None, "{\"version\": 1}", Some("actor")),
        (
            actor,
            "{\"version\":1,\"models\":[{\"name\":\"x\",\"targets\":[{\"account\":\"zz\"}]}]}",
            None,
        ),
    ] {
        let request = ApplyRequest {
            actor,
            catalogue_json: json.as_bytes().to_vec().into(),
            sheets: Vec::new(),
        };
        let status = node.admin.clone().apply(request).await.unwrap_err();
        let failure = Failure::from_status(&status);
        assert_eq!(failure.reason, Reason::InvalidRequest, "{failure}");
        assert_eq!(failure.param.as_deref(), field);
    }
    assert_eq!(granted(&node.acquire(asked()).await), "a");
}

#[tokio::test]
async fn watchers_of_every_process_see_each_new_version() {
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    for world in World::each(&shape).await {
        let mut streams = Vec::new();
        for node in &world.nodes {
            let mut scheduler = node.scheduler.clone();
            let watch = WatchCatalogueRequest { since: 0 };
            let mut stream = scheduler.watch_catalogue(watch).await.unwrap().into_inner();
            // Nothing was applied yet, which is an answer too: a forwarder is ready with an empty catalogue.
            let empty = stream.next().await.unwrap().unwrap();
            assert_eq!((empty.version, empty.models.len()), (0, 0));
            streams.push(stream);
        }
        for (version, name) in [(1, "a"), (2, "b")] {
            world.nodes[0].apply(&served_by(name)).await;
            for stream in &mut streams {
                let snapshot = stream.next().await.unwrap().unwrap();
                assert_eq!(snapshot.version, version);
                assert_eq!(snapshot.models[0].name, "m");
                assert_eq!(snapshot.groups[0].name, "g");
            }
            for node in &world.nodes {
                let asked = asked();
                assert_eq!(granted(&node.acquire(asked.clone()).await), name);
                node.release(&asked.request_id, Release::default()).await;
            }
        }
        // Who has the current version is not told again.
        let watch = WatchCatalogueRequest { since: 2 };
        let mut stream = world.nodes[1]
            .scheduler
            .clone()
            .watch_catalogue(watch)
            .await
            .unwrap()
            .into_inner();
        world.nodes[0].apply(&served_by("a")).await;
        assert_eq!(stream.next().await.unwrap().unwrap().version, 3);
    }
}

#[tokio::test]
async fn a_process_that_starts_later_serves_what_was_applied_before() {
    let world = World::small(&Shape {
        nodes: 2,
        ..Shape::default()
    })
    .await;
    let version = world.nodes[0].apply(&served_by("a")).await;
    // It need not have seen it: a request that is pinned brings it.
    let mut asked = asked();
    asked.catalogue_version = version;
    assert_eq!(granted(&world.nodes[1].acquire(asked).await), "a");
}
