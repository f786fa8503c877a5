//! Keys, top-ups, versions, cooldowns, audit.

use serde_json::json;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{auth::v1::KeyInfo, common::v1::Limits};

use super::{administer, fake::Fake, run};

#[tokio::test]
async fn a_new_key_is_described_whole_and_its_secret_is_the_only_result() {
    let fake = Fake::default();
    let done = administer(
        &fake,
        &[
            "keys",
            "create",
            "--tenant",
            "acme",
            "--name",
            "ci",
            "--group",
            "g",
            "--user",
            "ana@acme",
            "--model",
            "m1",
            "--model",
            "m2",
            "--expires",
            "2027-12-31",
            "--allow-ip",
            "10.0.0.0/8",
            "--concurrency",
            "4",
            "--tag",
            "team=a=b",
            "--cost-center",
            "cc",
            "--reject-unsupported",
            "--reason",
            "for the pipeline",
        ],
    )
    .await;
    assert_eq!((done.exit, done.out.as_str()), (0, "sb-issued\n"));
    assert!(
        done.err.contains("acme/ci") && !done.err.contains("sb-issued"),
        "{}",
        done.err
    );
    let request = fake.script().created.take().unwrap();
    assert_eq!(request.tenant, "acme");
    assert_eq!(request.actor.unwrap().reason, "for the pipeline");
    let key = request.key.unwrap();
    assert_eq!(
        (key.name.as_str(), key.group.as_str(), key.user.as_str()),
        ("ci", "g", "ana@acme")
    );
    assert_eq!(key.models, ["m1", "m2"]);
    // The last day counts whole.
    assert_eq!(key.expires_at_ms, Some(1_830_297_600_000));
    assert_eq!(key.allow_ips, ["10.0.0.0/8"]);
    let limits = Limits {
        concurrency: Some(4),
        ..Limits::default()
    };
    assert_eq!(key.limits, Some(limits));
    assert_eq!(key.tags["team"], "a=b");
    assert_eq!(
        (key.cost_center.as_str(), key.reject_unsupported),
        ("cc", true)
    );

    let words = [
        "keys", "create", "--tenant", "acme", "--name", "x", "--group", "g", "--output", "json",
    ];
    let done = administer(&fake, &words).await;
    assert_eq!(done.json()["issued"]["secret"], json!("sb-issued"));
    assert_eq!(
        fake.script().created.take().unwrap().key.unwrap().limits,
        None
    );
}

#[tokio::test]
async fn keys_are_listed_and_disabled() {
    let fake = Fake::default();
    fake.script().keys = ["acme", "other"]
        .map(|tenant| KeyInfo {
            key_id: "id".to_owned(),
            tenant: tenant.to_owned(),
            name: "ci".to_owned(),
            status: "active".to_owned(),
            prefix: "sb-ab".to_owned(),
            ..KeyInfo::default()
        })
        .to_vec();
    let done = administer(&fake, &["keys", "list", "--tenant", "acme"]).await;
    assert_eq!(
        done.out,
        "\
TENANT  NAME  STATUS  GROUP  USER  PREFIX  EXPIRES  CREATED               ORIGIN  ID
acme    ci    active      -     -  sb-ab         -  1970-01-01T00:00:00Z       -  id
"
    );
    let done = administer(&fake, &["keys", "list", "--output", "json"]).await;
    assert_eq!(done.json()["keys"].as_array().unwrap().len(), 2);
    assert_eq!(done.json()["keys"][0]["expires_at_ms"], json!(null));
    let done = administer(&fake, &["keys", "disable", "acme/ci", "--output", "json"]).await;
    assert_eq!(done.json()["key"]["status"], json!("disabled"));
}

#[tokio::test]
async fn a_top_up_is_exact_and_can_be_asked_for_again() {
    let fake = Fake::default();
    let done = administer(&fake, &["tenants", "topup", "acme", "-2.500000001"]).await;
    assert_eq!((done.exit, done.out.as_str()), (0, "balance: 7.5 USD\n"));
    let asked = fake.script().topped_up.take().unwrap();
    assert_eq!(asked.amount_nanos, -2_500_000_001);
    assert!(
        asked.idempotency_key.starts_with("cli-"),
        "{}",
        asked.idempotency_key
    );

    fake.script().failing = Some(("billing.top_up", Failure::new(Reason::Unavailable, "away")));
    let done = administer(
        &fake,
        &["tenants", "topup", "acme", "1", "--idempotency-key", "mine"],
    )
    .await;
    assert_eq!(done.exit, 3);
    assert!(done.err.contains("--idempotency-key mine"), "{}", done.err);
}

#[tokio::test]
async fn versions_and_cooldowns() {
    let fake = Fake::default();
    let done = administer(&fake, &["catalogue", "versions"]).await;
    assert!(done.out.contains("+ account a; ~ model m"), "{}", done.out);
    let done = administer(&fake, &["catalogue", "rollback", "2"]).await;
    assert_eq!(
        done.out,
        "catalogue version 12 has what version 2 had; 1 changed\n"
    );
    let done = administer(&fake, &["cooldowns", "reset"]).await;
    assert_eq!(done.out, "5 lifted\n");
    let done = administer(&fake, &["cooldowns", "reset", "a", "--output", "json"]).await;
    assert_eq!(done.json(), json!({"lifted": 1}));
    let done = administer(&fake, &["credentials", "list"]).await;
    assert_eq!(done.out, "no credentials\n");
}

#[tokio::test]
async fn audit_rows_of_all_services_are_one_list_by_time() {
    let fake = Fake::default();
    let done = administer(
        &fake,
        &["audit", "list", "--limit", "3", "--output", "json"],
    )
    .await;
    let shown = done.json();
    let rows: Vec<_> = shown["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["service"].as_str().unwrap(),
                entry["at_ms"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [("scheduler", "3000"), ("auth", "2000"), ("billing", "1000")]
    );
    let done = administer(&fake, &["audit", "list"]).await;
    assert!(
        done.out.contains("key.create  first; second"),
        "{}",
        done.out
    );
    fake.script().failing = Some((
        "scheduler.list_audit",
        Failure::new(Reason::Unavailable, "away"),
    ));
    assert_eq!(administer(&fake, &["audit", "list"]).await.exit, 3);
}

#[tokio::test]
async fn completions_need_no_installation() {
    let done = run(&["completions", "bash"]).await;
    assert_eq!(done.exit, 0);
    assert!(done.out.contains("_switchboard"), "{}", done.out);
}
