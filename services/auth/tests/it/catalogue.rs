//! A file's access side: applied, applied again, changed, emptied.

use switchboard_common::error::Reason;
use switchboard_proto::{
    auth::v1::{ListKeysRequest, Status as Standing},
    common::v1::{Limits, TargetRule},
};

use crate::world::{OWN, Place, START_MS, World, catalogue, full_key, key, param, reason};

fn own(number: u32) -> String {
    format!("{OWN}{number}")
}

#[tokio::test]
async fn the_same_file_twice_changes_nothing_and_what_left_is_disabled() {
    for place in Place::all("twice") {
        let world = World::open(&place).await;
        let file = || catalogue(vec![full_key("ci", &own(1)), key("made", "")]);
        let planned = world.admin().plan(file()).await.unwrap().into_inner();
        assert_eq!((planned.changes.len(), planned.issued.len()), (5, 0));
        assert_eq!(world.count("change").await, 0, "a plan writes nothing");
        let (changes, issued) = world.apply(file()).await.unwrap();
        assert_eq!(
            changes,
            [
                "add group standard",
                "add tenant acme",
                "add user acme/ana@acme.example",
                "add key acme/ci",
                "add key acme/made",
            ]
        );
        assert_eq!((issued.len(), issued[0].name.as_str()), (1, "made"));
        assert_eq!(world.ask(&issued[0].secret).await.unwrap().key_name, "made");
        let (before, rows) = (world.count("change").await, world.count("audit").await);
        let (changes, issued_again) = world.apply(file()).await.unwrap();
        assert!(changes.is_empty() && issued_again.is_empty());
        assert_eq!(
            (world.count("change").await, world.count("audit").await),
            (before, rows)
        );

        let mut empty = catalogue(Vec::new());
        empty.groups.clear();
        empty.tenants.clear();
        let by_hand = world.create(key("by-hand", "")).await.unwrap();
        assert_eq!(world.apply(empty.clone()).await.unwrap().0.len(), 5);
        assert!(world.apply(empty).await.unwrap().0.is_empty());
        let principal = world.ask(&own(1)).await.unwrap();
        for status in [
            principal.key_status(),
            principal.tenant_status(),
            principal.user_status(),
            principal.group_status(),
        ] {
            assert_eq!(status, Standing::Disabled);
        }
        let principal = world.ask(&by_hand.secret).await.unwrap();
        assert_eq!(
            principal.key_status(),
            Standing::Active,
            "what came from elsewhere is not touched"
        );
        assert_eq!(principal.tenant_status(), Standing::Disabled);
        world.apply(file()).await.unwrap();
        assert_eq!(
            world.ask(&own(1)).await.unwrap().key_status(),
            Standing::Active
        );
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_tenants_routes_are_kept_told_and_compared() {
    for place in Place::all("routes") {
        let world = World::open(&place).await;
        let rule = TargetRule {
            pin: vec!["local".to_owned(), "main".to_owned()],
            forbid: vec!["seat".to_owned()],
            weights: [("main".to_owned(), 0), ("local".to_owned(), 9)].into(),
        };
        let file = |rule: Option<&TargetRule>| {
            let mut file = catalogue(vec![key("ci", &own(1))]);
            file.tenants[0].routes = rule
                .map(|rule| ("chat".to_owned(), rule.clone()))
                .into_iter()
                .chain([("embed".to_owned(), TargetRule::default())])
                .collect();
            file
        };
        world.apply(file(None)).await.unwrap();
        assert!(world.ask(&own(1)).await.unwrap().routes.is_empty());
        let changed = world.admin().apply(file(Some(&rule))).await.unwrap();
        let changes = changed.into_inner().changes;
        assert_eq!(changes.len(), 1);
        assert_eq!(
            (changes[0].section.as_str(), changes[0].detail.as_str()),
            (
                "tenant",
                "routes.chat: none → pin local main, forbid seat, weight local 9, weight main 0"
            )
        );
        assert!(world.apply(file(Some(&rule))).await.unwrap().0.is_empty());
        assert_eq!(
            world.ask(&own(1)).await.unwrap().routes,
            [("chat".to_owned(), rule.clone())].into()
        );
        let mut broken = rule;
        broken.forbid = vec![" seat".to_owned()];
        let refused = world.apply(file(Some(&broken))).await.unwrap_err();
        assert_eq!(param(&refused), "tenants[0].routes.chat.forbid[0]");
        world.apply(file(None)).await.unwrap();
        assert!(world.ask(&own(1)).await.unwrap().routes.is_empty());
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_replaced_secret_is_good_for_an_hour_more() {
    for place in Place::all("rotate") {
        let world = World::open(&place).await;
        world
            .apply(catalogue(vec![key("ci", &own(1))]))
            .await
            .unwrap();
        let id = world.ask(&own(1)).await.unwrap().key_id;
        let planned = world
            .admin()
            .plan(catalogue(vec![key("ci", &own(2))]))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            planned.changes[0].detail,
            "secret replaced; the old one stays good for 3600 s"
        );
        world
            .apply(catalogue(vec![key("ci", &own(2))]))
            .await
            .unwrap();
        let new = world.ask(&own(2)).await.unwrap();
        let old = world.ask(&own(1)).await.unwrap();
        assert_eq!((&new.key_id, &old.key_id), (&id, &id));
        assert_eq!(
            (new.expires_at_ms, old.expires_at_ms),
            (None, Some(START_MS + 3_600_000))
        );
        world.clock.advance_ms(3_600_000);
        assert_eq!(
            reason(&world.ask(&own(1)).await.unwrap_err()),
            Reason::InvalidApiKey
        );
        assert!(world.ask(&own(2)).await.is_ok());
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn secrets_move_between_the_files_keys() {
    for place in Place::all("move") {
        let world = World::open(&place).await;
        world
            .apply(catalogue(vec![key("a", &own(1)), key("b", &own(2))]))
            .await
            .unwrap();
        world
            .apply(catalogue(vec![key("a", &own(2)), key("b", &own(1))]))
            .await
            .unwrap();
        assert_eq!(world.ask(&own(1)).await.unwrap().key_name, "b");
        assert_eq!(world.ask(&own(2)).await.unwrap().key_name, "a");
        world
            .apply(catalogue(vec![key("renamed", &own(1)), key("a", &own(2))]))
            .await
            .unwrap();
        assert_eq!(world.ask(&own(1)).await.unwrap().key_name, "renamed");
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_file_does_not_bring_back_what_an_admin_disabled() {
    for place in Place::all("leaked") {
        let world = World::open(&place).await;
        world
            .apply(catalogue(vec![key("ci", &own(1))]))
            .await
            .unwrap();
        world.disable("acme/ci").await.unwrap();
        assert!(
            world
                .apply(catalogue(vec![key("ci", &own(1))]))
                .await
                .unwrap()
                .0
                .is_empty()
        );
        assert_eq!(
            world.ask(&own(1)).await.unwrap().key_status(),
            Standing::Disabled
        );
        world
            .apply(catalogue(vec![key("ci", &own(2))]))
            .await
            .unwrap();
        assert_eq!(
            world.ask(&own(2)).await.unwrap().key_status(),
            Standing::Active
        );
        assert_eq!(
            reason(&world.ask(&own(1)).await.unwrap_err()),
            Reason::InvalidApiKey
        );
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn changed_fields_are_told_old_and_new() {
    let place = Place::embedded();
    let world = World::open(&place).await;
    world
        .apply(catalogue(vec![full_key("ci", &own(1))]))
        .await
        .unwrap();
    let mut file = catalogue(vec![full_key("ci", &own(1))]);
    file.tenants[0].keys[0].models.push("coder".to_owned());
    file.tenants[0].keys[0].limits = Some(Limits {
        concurrency: Some(1),
        ..Limits::default()
    });
    file.tenants[0].log_content = true;
    file.groups[0].allow_ips.clear();
    let planned = world
        .admin()
        .plan(file.clone())
        .await
        .unwrap()
        .into_inner()
        .changes;
    let lines: Vec<_> = planned
        .iter()
        .map(|change| format!("{}: {}", change.name, change.detail))
        .collect();
    assert_eq!(
        lines,
        [
            "standard: allow_ips: 10.0.0.0/8 → any",
            "acme: log_content: false → true",
            "acme/ci: models: text-gen-default → text-gen-default coder; \
             limits: 600 requests/min, 200000 tokens/min, 20 at once → 1 at once",
        ]
    );
    // The grant is there at once, also for a key that was used before (CASES D18).
    world.ask(&own(1)).await.unwrap();
    world.apply(file).await.unwrap();
    crate::world::eventually("the new model is seen", || async {
        world.ask(&own(1)).await.unwrap().models.len() == 2
    })
    .await;
    world.close().await;
}

#[tokio::test]
async fn mistakes_name_the_field_and_write_nothing() {
    let place = Place::embedded();
    let world = World::open(&place).await;
    let mut unknown_group = catalogue(vec![key("ok", &own(1)), key("bad", &own(2))]);
    unknown_group.tenants[0].keys[1].group = "gold".to_owned();
    let mut unknown_status = catalogue(vec![key("ok", &own(1))]);
    unknown_status.tenants[0].keys[0].status = 9;
    let mut unknown_role = catalogue(Vec::new());
    unknown_role.tenants[0].users[0].role = "boss".to_owned();
    let mut nobody = catalogue(Vec::new());
    nobody.actor = None;
    for (file, field) in [
        (unknown_group, "tenants[0].keys[1].group"),
        (unknown_status, "tenants[0].keys[0].status"),
        (unknown_role, "tenants[0].users[0].role"),
        (
            catalogue(vec![key("a", &own(1)), key("b", &own(1))]),
            "tenants[0].keys[1].secret",
        ),
        (nobody, "actor.name"),
    ] {
        let status = world.apply(file).await.unwrap_err();
        assert_eq!(reason(&status), Reason::InvalidRequest);
        assert_eq!(param(&status), field);
        assert!(
            status.message().starts_with(&format!("{field}: ")) && !status.message().contains(OWN)
        );
    }
    assert_eq!(world.count("tenant").await + world.count("change").await, 0);
    let keys = world
        .admin()
        .list_keys(ListKeysRequest::default())
        .await
        .unwrap()
        .into_inner()
        .keys;
    assert!(keys.is_empty());
    world.close().await;
}
