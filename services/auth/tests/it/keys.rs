//! What a key opens, and what is said to those who have none (AUTH-2; CASES A31, A34).

use switchboard_common::{error::Reason, grpc::Role};
use switchboard_proto::{
    auth::v1::{
        AuthenticateAdminRequest, AuthenticateRequest, ListKeysRequest, Status as Standing,
        auth_admin_client::AuthAdminClient,
    },
    common::v1::Limits,
};
use tonic::Code;

use crate::world::{ADMIN, OWN, Place, START_MS, World, catalogue, full_key, key, reason};

#[tokio::test]
async fn a_principal_has_everything_that_admission_needs() {
    for place in Place::all("principal") {
        let world = World::open(&place).await;
        assert!(world.component.ready());
        let secret = format!("{OWN}1");
        world
            .apply(catalogue(vec![full_key("ci", &secret)]))
            .await
            .unwrap();
        let principal = world.ask(&secret).await.unwrap();
        assert_eq!(principal.tenant, "acme");
        assert_eq!(principal.user, "ana@acme.example");
        assert_eq!(principal.key_name, "ci");
        assert_eq!(principal.group, "standard");
        for status in [
            principal.key_status(),
            principal.tenant_status(),
            principal.user_status(),
            principal.group_status(),
        ] {
            assert_eq!(status, Standing::Active);
        }
        assert_eq!(principal.expires_at_ms, Some(START_MS + 3_600_000));
        assert_eq!(principal.key_allow_ips, ["192.168.1.7/32"]);
        assert_eq!(principal.group_allow_ips, ["10.0.0.0/8"]);
        assert_eq!(principal.models, ["text-gen-default"]);
        let key_limits = principal.key_limits.unwrap();
        assert_eq!(
            (
                key_limits.requests_per_minute,
                key_limits.tokens_per_minute,
                key_limits.concurrency
            ),
            (Some(600), Some(200_000), Some(20))
        );
        assert_eq!(principal.user_limits.unwrap().concurrency, Some(5));
        assert_eq!(principal.group_user_limits.unwrap().concurrency, Some(10));
        assert_eq!(
            principal.group_limits.unwrap().requests_per_minute,
            Some(10_000)
        );
        assert_eq!(principal.tenant_limits, None::<Limits>);
        assert_eq!(
            (principal.group_multiplier, principal.user_multiplier),
            (1_200_000, 900_000)
        );
        assert!(
            principal.prepaid
                && principal.strict_hold
                && principal.abandoned_free
                && principal.reject_unsupported
        );
        assert!(!principal.serve_without_billing && !principal.log_content);
        assert_eq!(principal.cost_center, "build");
        assert_eq!(principal.tags["team"], "build");
        assert_eq!(principal.change_seq, 3, "group, key, tenant");
        // The second answer comes from the state store and is the same.
        let again = world.ask(&secret).await.unwrap();
        assert_eq!(again.key_id, principal.key_id);
        assert!(
            world
                .metrics
                .render()
                .contains("auth_answers_total{source=\"State\",outcome=\"Known\"} 1")
        );
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn an_issued_key_is_shown_once_and_recognised_by_its_first_characters() {
    for place in Place::all("issued") {
        let world = World::open(&place).await;
        world
            .apply(catalogue(vec![key("own", &format!("{OWN}1"))]))
            .await
            .unwrap();
        let issued = world.create(key("ci", "")).await.unwrap();
        assert!(switchboard_auth::domain::key::looks_issued(&issued.secret));
        let principal = world.ask(&issued.secret).await.unwrap();
        assert_eq!(
            (principal.key_id.as_str(), principal.user.as_str()),
            (issued.key_id.as_str(), "")
        );
        assert_eq!(
            (principal.user_multiplier, principal.user_status()),
            (1_000_000, Standing::Active)
        );
        let listed = world
            .admin()
            .list_keys(ListKeysRequest {
                tenant: "acme".to_owned(),
            })
            .await
            .unwrap()
            .into_inner();
        let listed: Vec<_> = listed
            .keys
            .iter()
            .map(|key| {
                (
                    key.name.as_str(),
                    key.prefix.as_str(),
                    key.origin.as_str(),
                    key.status.as_str(),
                )
            })
            .collect();
        assert_eq!(
            listed,
            [
                ("ci", &issued.secret[..10], "admin", "active"),
                ("own", "own-", "file", "active")
            ]
        );
        assert_ne!(
            world.create(key("second", "")).await.unwrap().secret,
            issued.secret
        );
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_stranger_learns_nothing() {
    for place in Place::all("stranger") {
        let world = World::open(&place).await;
        world.apply(catalogue(Vec::new())).await.unwrap();
        let known = world.create(key("ci", "")).await.unwrap().secret;
        let mut twin = known.clone();
        twin.replace_range(54.., if twin.ends_with('0') { "1" } else { "0" });
        let mut messages = Vec::new();
        for wrong in [
            "",
            "sk-sb-",
            "' OR 1=1--",
            "own-key-that-nobody-knows-0123456789",
            "own-key-' OR hash IS NOT NULL OR ''='",
            &twin,
            &known.to_uppercase(),
            &format!("{known} "),
        ] {
            let status = world.ask(wrong).await.unwrap_err();
            assert_eq!(
                (status.code(), reason(&status)),
                (Code::Unauthenticated, Reason::InvalidApiKey)
            );
            assert!(wrong.is_empty() || !status.message().contains(wrong));
            messages.push(status.message().to_owned());
        }
        messages.dedup();
        assert_eq!(messages.len(), 1, "whatever is wrong, the text is the same");
        assert!(world.ask(&known).await.is_ok());
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn only_an_admins_token_opens_the_admin_side() {
    for place in Place::all("token") {
        let world = World::open(&place).await;
        world.apply(catalogue(Vec::new())).await.unwrap();
        let issued = world.create(key("ci", "")).await.unwrap().secret;
        let ask = async |token: &str| {
            let request = AuthenticateAdminRequest {
                token: token.to_owned(),
            };
            world
                .admin()
                .authenticate_admin(request)
                .await
                .map(|answer| answer.into_inner().name)
        };
        assert_eq!(ask(ADMIN).await.unwrap(), "bootstrap");
        for wrong in ["", "admin-token-of-the-test", "' OR 1=1--", issued.as_str()] {
            assert_eq!(ask(wrong).await.unwrap_err().code(), Code::Unauthenticated);
        }
        assert_eq!(
            reason(&world.ask(ADMIN).await.unwrap_err()),
            Reason::InvalidApiKey,
            "nor is it a key"
        );
        assert_eq!(world.count("admin_token").await, 1);
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn each_side_answers_its_own_roles_alone() {
    let place = Place::embedded();
    let world = World::open(&place).await;
    for role in Role::ALL {
        if role != Role::Forwarder {
            let request = AuthenticateRequest {
                credential: "x".to_owned(),
            };
            let status = world.client(role).authenticate(request).await.unwrap_err();
            assert_eq!(status.code(), Code::PermissionDenied, "{role}");
        }
        if role != Role::Edge {
            let transport = switchboard_common::grpc::local(world.component.admin_server(), role);
            let list = AuthAdminClient::new(transport)
                .list_keys(ListKeysRequest::default())
                .await;
            assert_eq!(list.unwrap_err().code(), Code::PermissionDenied, "{role}");
        }
    }
    world.close().await;
}

#[tokio::test]
async fn no_key_lies_in_the_database() {
    let place = Place::embedded();
    let world = World::open(&place).await;
    let own = format!("{OWN}1");
    world
        .apply(catalogue(vec![key("own", &own)]))
        .await
        .unwrap();
    let issued = world.create(key("ci", "")).await.unwrap().secret;
    world.ask(&own).await.unwrap();
    world.ask(&issued).await.unwrap();
    world.close().await;
    let mut files = 0;
    for entry in std::fs::read_dir(place.directory.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        for secret in [own.as_str(), &issued, &issued[10..], ADMIN] {
            assert!(
                !bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes())
            );
        }
    }
    assert!(files > 0);
}
