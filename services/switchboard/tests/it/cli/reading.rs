//! Usage, explanations, the ledger, tenants: what is shown, in both forms.

use serde_json::json;
use switchboard_proto::{
    auth::v1 as auth,
    billing::v1::{self as billing, UsageAttempt, UsageRow},
    common::v1::Limits,
};

use super::{administer, fake::Fake};

fn row(number: u32, tenant: &str) -> UsageRow {
    UsageRow {
        request_id: format!("019ad1b2-0000-7000-8000-00000000000{number}"),
        created_at: "2026-11-29T22:00:00Z".to_owned(),
        tenant: tenant.to_owned(),
        key: "ci".to_owned(),
        public_model: "demo".to_owned(),
        upstream_model: "echo".to_owned(),
        account: "a".to_owned(),
        status: 200,
        ending: "complete".to_owned(),
        provisional: number == 2,
        input_tokens: Some(12),
        output_tokens: Some(5),
        usage_source: "provider".to_owned(),
        charge_nanos: 54_399_000,
        cost_nanos: 1,
        attempts: vec![UsageAttempt {
            account: "a".to_owned(),
            upstream_model: "echo".to_owned(),
            status: 200,
            sent: true,
            total_us: 1_500,
            ..UsageAttempt::default()
        }],
        ..UsageRow::default()
    }
}

fn with_rows() -> Fake {
    let fake = Fake::default();
    fake.script().rows = [5, 4, 3, 2, 1]
        .map(|number| row(number, if number == 4 { "other" } else { "acme" }))
        .to_vec();
    fake
}

#[tokio::test]
async fn usage_is_fetched_page_by_page_up_to_the_limit() {
    let ids = |done: &super::Done| -> Vec<String> {
        let rows = done.json()["rows"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["request_id"].as_str().unwrap()[35..].to_owned())
            .collect()
    };
    let fake = with_rows();
    let done = administer(&fake, &["usage", "list", "--output", "json"]).await;
    assert_eq!(
        (done.exit, ids(&done)),
        (0, ["5", "4", "3", "2", "1"].map(str::to_owned).to_vec())
    );
    let done = administer(
        &fake,
        &["usage", "list", "--limit", "3", "--output", "json"],
    )
    .await;
    assert_eq!(ids(&done), ["5", "4", "3"]);
    let words = [
        "usage",
        "list",
        "--tenant",
        "acme",
        "--before",
        "019ad1b2-0000-7000-8000-000000000004",
        "--output",
        "json",
    ];
    assert_eq!(ids(&administer(&fake, &words).await), ["3", "2", "1"]);
}

#[tokio::test]
async fn usage_for_people_has_exact_amounts_and_says_when_there_is_none() {
    let fake = with_rows();
    let done = administer(
        &fake,
        &["usage", "list", "--tenant", "acme", "--limit", "3"],
    )
    .await;
    assert_eq!(
        done.out,
        "\
CREATED               TENANT  KEY  MODEL  ACCOUNT  STATUS  ENDING                  IN  CACHED  OUT  CHARGE USD     COST USD  REQUEST
2026-11-29T22:00:00Z  acme    ci   demo   a           200  complete                12       -    5    0.054399  0.000000001  019ad1b2-0000-7000-8000-000000000005
2026-11-29T22:00:00Z  acme    ci   demo   a           200  complete                12       -    5    0.054399  0.000000001  019ad1b2-0000-7000-8000-000000000003
2026-11-29T22:00:00Z  acme    ci   demo   a           200  complete (provisional)  12       -    5    0.054399  0.000000001  019ad1b2-0000-7000-8000-000000000002
"
    );
    let done = administer(&Fake::default(), &["usage", "list"]).await;
    assert_eq!((done.exit, done.out.as_str()), (0, "no usage\n"));
}

#[tokio::test]
async fn the_ledger_decides_the_exit_code() {
    let fake = Fake::default();
    fake.script().ledger = billing::VerifyLedgerResponse {
        balanced: true,
        settlements: 3,
        entries: 12,
        ..Default::default()
    };
    let done = administer(&fake, &["ledger", "verify"]).await;
    assert_eq!(done.exit, 0);
    assert_eq!(
        done.out,
        "balanced: 3 settlements, 12 entries, 0 open holds, 0 dead letters\n"
    );
    {
        let mut script = fake.script();
        script.ledger.balanced = false;
        script.ledger.problems = vec!["tenant acme: balance is 3, entries add up to 4".to_owned()];
    }
    let done = administer(&fake, &["ledger", "verify"]).await;
    assert_eq!(done.exit, 1);
    assert!(
        done.out
            .starts_with("tenant acme: balance is 3, entries add up to 4\nnot balanced: "),
        "{}",
        done.out
    );
    let done = administer(&fake, &["ledger", "verify", "--output", "json"]).await;
    assert_eq!(done.exit, 1);
    assert_eq!(done.json()["balanced"], json!(false));
    assert_eq!(done.json()["settlements"], json!("3"));
}

#[tokio::test]
async fn a_dead_letter_is_resolved_with_a_reason_and_listed_as_such() {
    let fake = Fake::default();
    let id = "019ad1b2-0000-7000-8000-000000000001";
    let done = administer(&fake, &["ledger", "resolve", id]).await;
    assert_eq!(done.exit, 2);
    assert!(done.err.contains("--reason"), "{}", done.err);
    assert!(fake.script().resolved.is_empty());
    let resolve = [
        "ledger",
        "resolve",
        id,
        "--reason",
        "the upstream paid it back",
    ];
    let done = administer(&fake, &resolve).await;
    assert_eq!(
        (done.exit, done.out),
        (0, format!("request {id} stays unsettled\n"))
    );
    let done = administer(&fake, &resolve).await;
    assert_eq!(
        (done.exit, done.out),
        (0, format!("request {id} was resolved before\n"))
    );
    fake.script().ledger = billing::VerifyLedgerResponse {
        balanced: true,
        dead_letters: 1,
        resolved: vec![format!("request {id}: not settled, resolved")],
        ..Default::default()
    };
    let done = administer(&fake, &["ledger", "verify"]).await;
    assert_eq!(done.exit, 0);
    assert!(
        done.out
            .starts_with(&format!("for information: request {id}")),
        "{}",
        done.out
    );
}

#[tokio::test]
async fn an_explanation_has_the_row_and_the_decision_as_objects() {
    let fake = Fake::default();
    fake.script().explained = billing::ExplainResponse {
        row: Some(row(1, "acme")),
        decision_json: r#"{"catalogueVersion":"7","policy":"weighted_score","layer":"scored","queuedMs":"0","targets":[
            {"account":"b","upstreamModel":"m","tier":0,"weight":1,"filters":[{"filter":"group","pass":true},{"filter":"cooldown","pass":false,"detail":"rests for 9 s"}]},
            {"account":"a","upstreamModel":"echo","tier":0,"weight":1,"filters":[{"filter":"group","pass":true}],"score":0.75,"factors":{"load":0.5},"drawn":0,"full":true}]}"#.to_owned(),
        usage_raw: r#"{"prompt_tokens":12}"#.to_owned(),
        catalogue_version: 7,
    };
    let done = administer(&fake, &["explain", "x", "--output", "json"]).await;
    let shown = done.json();
    assert_eq!(shown["row"]["charge_nanos"], json!("54399000"));
    assert_eq!(shown["row"]["reasoning_tokens"], json!(null));
    assert_eq!(shown["decision"]["catalogue_version"], json!("7"));
    assert_eq!(
        shown["decision"]["targets"][0]["filters"][1],
        json!({"filter": "cooldown", "pass": false, "detail": "rests for 9 s"})
    );
    assert_eq!(shown["usage_raw"], json!(r#"{"prompt_tokens":12}"#));

    let done = administer(&fake, &["explain", "x"]).await;
    for line in [
        "request          019ad1b2-0000-7000-8000-000000000001\n",
        "served by        a/echo\n",
        "tokens           12 input, 5 output (provider)\n",
        "charge           0.054399 USD (price version 0)\n",
        "choice: scored by weighted_score, catalogue version 7, 0 ms in the queue\n 1. a/echo  tier 0, weight 1, score 0.7500, full\n    factors: load 0.5000\n    filters: group pass\n",
        " -. b/m  tier 0, weight 1\n    filters: group pass, cooldown FAIL (rests for 9 s)\n",
        "ATTEMPT  ACCOUNT  MODEL  SENT  STATUS  ERROR  IN  OUT  COST USD",
    ] {
        assert!(done.out.contains(line), "{line}\n{}", done.out);
    }

    // It left the queue before anything was chosen.
    fake.script().explained.decision_json = String::new();
    let done = administer(&fake, &["explain", "x", "--output", "json"]).await;
    assert_eq!(done.json()["decision"], json!(null));
}

#[tokio::test]
async fn a_tenant_is_one_object_of_two_services_facts() {
    let fake = Fake::default();
    fake.script().access = Some(auth::GetTenantResponse {
        name: "acme".to_owned(),
        status: "active".to_owned(),
        users: vec![auth::User {
            email: "ana@acme".to_owned(),
            role: "owner".to_owned(),
            multiplier: 1_250_000,
            status: 1,
            ..Default::default()
        }],
        keys: 2,
        prepaid: true,
        strict_hold: true,
        limits: Some(Limits {
            concurrency: Some(8),
            ..Default::default()
        }),
    });
    let done = administer(&fake, &["tenants", "show", "acme", "--output", "json"]).await;
    assert_eq!(
        done.json()["balance_nanos"],
        json!(null),
        "billing does not know it yet"
    );
    fake.script().money = Some(billing::GetTenantResponse {
        name: "acme".to_owned(),
        prepaid: true,
        balance_nanos: -1,
        held_nanos: 2_500_000_000,
        budgets: vec![billing::BudgetState {
            budget: Some(billing::Budget {
                subject_kind: "key".to_owned(),
                subject: "ci".to_owned(),
                window: "day".to_owned(),
                amount_nanos: Some(5_000_000_000),
                tokens: None,
            }),
            used_nanos: 1,
            used_tokens: 9,
            resets_at_ms: 86_400_000,
        }],
        overrun_nanos: 0,
    });
    let done = administer(&fake, &["tenants", "show", "acme", "--output", "json"]).await;
    let shown = done.json();
    assert_eq!(done.exit, 0);
    for (field, expected) in [
        ("name", json!("acme")),
        ("status", json!("active")),
        ("balance_nanos", json!("-1")),
        ("held_nanos", json!("2500000000")),
        ("prepaid", json!(true)),
        ("keys", json!("2")),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!(shown["budgets"][0]["budget"]["tokens"], json!(null));
    assert_eq!(shown["users"][0]["multiplier"], json!("1250000"));
    let done = administer(&fake, &["tenants", "show", "acme"]).await;
    for part in [
        "-0.000000001",
        "2.5",
        "limits: 8 at once",
        "key ci",
        "ana@acme",
        "1.25",
        "1970-01-02T00:00:00Z",
    ] {
        assert!(done.out.contains(part), "{part}\n{}", done.out);
    }
    let done = administer(&fake, &["tenants", "show", "nobody"]).await;
    assert_eq!((done.exit, done.out.as_str()), (4, ""));
    assert_eq!(done.err, "not_found: there is no tenant `nobody`");
}
