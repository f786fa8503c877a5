//! Single admin actions and what the audit log says of them.

use futures_util::future::join_all;
use switchboard_common::error::Reason;
use switchboard_proto::auth::v1::{
    CreateKeyRequest, GetTenantRequest, ListAuditRequest, ListKeysRequest, Status as Standing,
};

use crate::world::{OWN, Place, START_MS, World, actor, catalogue, key, param, reason};

#[tokio::test]
async fn every_action_leaves_its_audit_row_and_its_change() {
    for place in Place::all("audit") {
        let world = World::open(&place).await;
        world.apply(catalogue(Vec::new())).await.unwrap();
        let issued = world.create(key("ci", "")).await.unwrap();
        let before = world.count("change").await;
        let info = world.disable(&issued.key_id).await.unwrap();
        assert_eq!(
            (info.name.as_str(), info.status.as_str()),
            ("ci", "disabled")
        );
        assert_eq!(world.count("change").await, before + 1);
        world.disable("acme/ci").await.unwrap();
        assert_eq!(
            world.count("change").await,
            before + 1,
            "it was disabled already"
        );
        let entries = world
            .admin()
            .list_audit(ListAuditRequest { limit: 0 })
            .await
            .unwrap()
            .into_inner()
            .entries;
        let actions: Vec<_> = entries
            .iter()
            .map(|entry| (entry.actor.as_str(), entry.action.as_str()))
            .collect();
        assert_eq!(
            actions,
            [
                ("cli", "key.disable"),
                ("cli", "key.create"),
                ("cli", "apply"),
                ("system", "admin_token.set")
            ]
        );
        assert_eq!(entries[1].detail, format!("acme/ci ({})", issued.key_id));
        assert_eq!(
            (entries[1].reason.as_str(), entries[1].at_ms),
            ("test", START_MS)
        );
        assert!(
            entries
                .iter()
                .all(|entry| !entry.detail.contains(&issued.secret))
        );
        let newest = world
            .admin()
            .list_audit(ListAuditRequest { limit: 1 })
            .await
            .unwrap()
            .into_inner()
            .entries;
        assert_eq!(newest, entries[..1]);
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_tenant_is_shown_with_its_people_and_the_number_of_its_keys() {
    for place in Place::all("tenant") {
        let world = World::open(&place).await;
        world
            .apply(catalogue(vec![key("a", ""), key("b", "")]))
            .await
            .unwrap();
        let get = async |name: &str| {
            world
                .admin()
                .get_tenant(GetTenantRequest {
                    name: name.to_owned(),
                })
                .await
        };
        let tenant = get("acme").await.unwrap().into_inner();
        assert_eq!(
            (tenant.status.as_str(), tenant.keys, tenant.prepaid),
            ("active", 2, true)
        );
        assert_eq!(
            (
                tenant.users[0].email.as_str(),
                tenant.users[0].role.as_str()
            ),
            ("ana@acme.example", "admin")
        );
        assert_eq!(tenant.users[0].status(), Standing::Active);
        assert_eq!(reason(&get("nobody").await.unwrap_err()), Reason::NotFound);
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_made_is_refused_by_field() {
    for place in Place::all("refuse") {
        let world = World::open(&place).await;
        let own = format!("{OWN}1");
        world.apply(catalogue(vec![key("ci", &own)])).await.unwrap();
        let mut past = key("new", "");
        past.expires_at_ms = Some(START_MS);
        let mut group = key("new", "");
        group.group = "gold".to_owned();
        let mut user = key("new", "");
        user.user = "bob@acme.example".to_owned();
        for (wrong, expected, field) in [
            (key("", ""), Reason::InvalidRequest, "key.name"),
            (past, Reason::InvalidRequest, "key.expires_at_ms"),
            (group, Reason::InvalidRequest, "key.group"),
            (user, Reason::InvalidRequest, "key.user"),
            (key("new", "short"), Reason::InvalidRequest, "key.secret"),
            (key("ci", ""), Reason::Conflict, "key.name"),
            (key("new", &own), Reason::Conflict, "key.secret"),
        ] {
            let status = world.create(wrong).await.unwrap_err();
            assert_eq!(
                (reason(&status), param(&status).as_str()),
                (expected, field)
            );
            assert!(!status.message().contains(&own));
        }
        let mut request = CreateKeyRequest {
            actor: actor(),
            tenant: "nobody".to_owned(),
            key: Some(key("new", "")),
        };
        let status = world.admin().create_key(request.clone()).await.unwrap_err();
        assert_eq!(param(&status), "tenant");
        request.key = None;
        assert_eq!(
            param(&world.admin().create_key(request).await.unwrap_err()),
            "key"
        );
        // A whole key given instead of its id does not come back in the answer.
        let issued = world.create(key("new", "")).await.unwrap();
        let status = world.disable(&issued.secret).await.unwrap_err();
        assert_eq!(reason(&status), Reason::NotFound);
        assert!(!status.message().contains(&issued.secret));
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn an_expired_key_is_listed_as_such() {
    let place = Place::embedded();
    let world = World::open(&place).await;
    world.apply(catalogue(Vec::new())).await.unwrap();
    let mut brief = key("brief", "");
    brief.expires_at_ms = Some(START_MS + 1);
    let issued = world.create(brief).await.unwrap();
    world.clock.advance_ms(1);
    let list = world
        .admin()
        .list_keys(ListKeysRequest::default())
        .await
        .unwrap()
        .into_inner()
        .keys;
    assert_eq!(list[0].status, "expired");
    assert_eq!(
        world.ask(&issued.secret).await.unwrap().expires_at_ms,
        Some(START_MS + 1)
    );
    world.close().await;
}

#[tokio::test]
async fn admins_at_the_same_time_make_one_key_of_a_name() {
    for place in Place::all("race") {
        let world = World::open(&place).await;
        world.apply(catalogue(Vec::new())).await.unwrap();
        let results = join_all((0..8).map(|_| world.create(key("ci", "")))).await;
        let (made, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!((made.len(), refused.len()), (1, 7));
        assert!(
            refused
                .iter()
                .all(|refused| reason(refused.as_ref().unwrap_err()) == Reason::Conflict)
        );
        let files = join_all((0..4).map(|_| world.apply(catalogue(vec![key("file", "")])))).await;
        let issued: usize = files
            .iter()
            .map(|file| file.as_ref().unwrap().1.len())
            .sum();
        assert_eq!(issued, 1, "the same file at the same time is applied once");
        world.close().await;
        place.clear().await;
    }
}
