//! Prices, balances, budgets, audit.

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    billing::v1::{
        ApplyPricesRequest, ApplyTenantsRequest, ExplainRequest, GetTenantRequest,
        ListAuditRequest, TenantMoney, TopUpRequest,
    },
    common::v1::{Change, WatchChangesRequest},
    scheduler::v1::Rates,
};

use crate::{
    bench::{Ground, Stores, stores, until},
    fixtures::{USD, actor, ask, budget, cost, output, postpaid, prepaid, price, settlement},
};

#[tokio::test]
async fn unchanged_rates_keep_their_version_and_what_left_the_file_stays_readable() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let request = |sheets| ApplyPricesRequest {
            actor: actor(),
            sheets,
        };
        let first = vec![price("m", output(2 * USD)), cost("a/up", output(USD))];
        let planned = billing
            .admin
            .clone()
            .plan_prices(request(first.clone()))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            planned
                .sheets
                .iter()
                .map(|sheet| sheet.version)
                .collect::<Vec<_>>(),
            [0, 0]
        );
        assert_eq!(planned.changes.len(), 2);
        assert_eq!(billing.price(first.clone()).await, [1, 2]);
        assert_eq!(billing.price(first.clone()).await, [1, 2]);

        let dearer = vec![price("m", output(3 * USD)), cost("a/up", output(USD))];
        let planned = billing
            .admin
            .clone()
            .plan_prices(request(dearer.clone()))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            planned
                .sheets
                .iter()
                .map(|sheet| sheet.version)
                .collect::<Vec<_>>(),
            [0, 2]
        );
        let change = &planned.changes[0];
        assert_eq!(
            (
                change.section.as_str(),
                change.name.as_str(),
                change.kind.as_str()
            ),
            ("price", "m", "change")
        );
        assert_eq!(change.detail, "output 2 → 3");
        assert_eq!(billing.price(dearer).await, [3, 2]);
        // Back to the old rates is back to the old version.
        assert_eq!(billing.price(first.clone()).await, [1, 2]);

        let left = billing
            .admin
            .clone()
            .apply_prices(request(vec![first[1].clone()]))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            (left.changes[0].kind.as_str(), left.changes[0].name.as_str()),
            ("disable", "m")
        );
        // What is pinned to the version goes on.
        assert_eq!(
            billing.reserve(ask(billing.new_id(), "acme", 1, 10)).await,
            Ok(0)
        );
        billing
            .settle(vec![settlement(billing.new_id(), "acme", (1, 2), 10)])
            .await;
        assert_eq!(billing.usage("acme").await[0].charge_nanos, 20_000);
    }
}

#[tokio::test]
async fn an_opening_balance_is_given_once_and_budgets_follow_the_file() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let (version, cost) = billing.usual_prices().await;
        let acme = |opening, budgets| TenantMoney {
            budgets,
            ..prepaid("acme", opening)
        };
        let day = |tokens| budget("tenant", "", "day", None, Some(tokens));
        let changes = billing
            .apply(vec![acme(5 * USD, vec![day(1_000)])], Vec::new())
            .await;
        assert_eq!(
            changes,
            [
                "add tenant acme: prepaid, opening balance 5 USD",
                "add budget acme per day: 1000 tokens"
            ]
        );
        assert!(
            billing
                .apply(vec![acme(5 * USD, vec![day(1_000)])], Vec::new())
                .await
                .is_empty()
        );
        // Another number in the file gives no more.
        assert!(
            billing
                .apply(vec![acme(9 * USD, vec![day(1_000)])], Vec::new())
                .await
                .is_empty()
        );
        assert_eq!(billing.tenant("acme").await.balance_nanos, 5 * USD);
        billing
            .settle(vec![settlement(
                billing.new_id(),
                "acme",
                (version, cost),
                900,
            )])
            .await;

        let refused = billing
            .reserve(ask(billing.new_id(), "acme", version, 500))
            .await
            .unwrap_err();
        assert_eq!(refused.reason, Reason::QuotaExceeded);
        let planned = billing
            .admin
            .clone()
            .plan_tenants(ApplyTenantsRequest {
                actor: actor(),
                tenants: vec![acme(5 * USD, vec![day(2_000)])],
                budgets: Vec::new(),
            })
            .await
            .unwrap()
            .into_inner();
        assert_eq!(planned.changes[0].detail, "1000 tokens → 2000 tokens");
        assert_eq!(
            billing.tenant("acme").await.budgets[0]
                .budget
                .as_ref()
                .unwrap()
                .tokens,
            Some(1_000)
        );
        // A raised budget holds from the next request on, in this process at once.
        billing
            .apply(vec![acme(5 * USD, vec![day(2_000)])], Vec::new())
            .await;
        assert_eq!(
            billing
                .reserve(ask(billing.new_id(), "acme", version, 500))
                .await,
            Ok(1_000_000)
        );
        // It left the file, comes back, and counts what was spent meanwhile.
        let changes = billing
            .apply(vec![acme(5 * USD, Vec::new())], Vec::new())
            .await;
        assert_eq!(changes, ["disable budget acme per day: left the file"]);
        billing
            .settle(vec![settlement(
                billing.new_id(),
                "acme",
                (version, cost),
                50,
            )])
            .await;
        billing.assert_balanced().await;
        billing
            .apply(vec![acme(5 * USD, vec![day(2_000)])], Vec::new())
            .await;
        let state = billing.tenant("acme").await.budgets.remove(0);
        assert_eq!(state.used_tokens, 950);
        billing.assert_balanced().await;
        // The tenant left the file: its money stays, its budgets go.
        let changes = billing.apply(Vec::new(), Vec::new()).await;
        assert_eq!(changes, ["disable budget acme per day: left the file"]);
        assert_eq!(
            billing.tenant("acme").await.balance_nanos,
            5 * USD - 950 * 2_000
        );
    }
}

#[tokio::test]
async fn every_change_has_its_actor_and_reaches_other_processes_by_the_feed() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let (here, there) = (ground.billing().await, ground.billing().await);
        let (version, _) = here.usual_prices().await;
        let mut changes = there
            .client
            .clone()
            .watch_changes(WatchChangesRequest { since: 2 })
            .await
            .unwrap()
            .into_inner();
        here.apply(vec![prepaid("acme", USD)], Vec::new()).await;
        // Both know the tenant's terms now.
        for billing in [&here, &there] {
            assert_eq!(
                billing
                    .reserve(ask(billing.new_id(), "acme", version, 500))
                    .await,
                Ok(1_000_000)
            );
        }
        let acme = TenantMoney {
            budgets: vec![budget("key", "ci", "hour", Some(5), None)],
            ..prepaid("acme", USD)
        };
        here.apply(vec![acme], Vec::new()).await;
        until(|| async {
            let answer = there
                .reserve(ask(there.new_id(), "acme", version, 500))
                .await;
            answer
                .err()
                .filter(|failure| failure.reason == Reason::QuotaExceeded)
        })
        .await;
        let mut seen: Vec<Change> = Vec::new();
        while seen.len() < 2 {
            seen.extend(changes.message().await.unwrap().unwrap().changes);
        }
        let seen: Vec<_> = seen
            .iter()
            .map(|change| (change.scope.as_str(), change.id.as_str()))
            .collect();
        assert_eq!(seen, [("tenant", "acme"), ("budget", "acme")]);
        let entries = here
            .admin
            .clone()
            .list_audit(ListAuditRequest { limit: 0 })
            .await
            .unwrap()
            .into_inner()
            .entries;
        let told: Vec<_> = entries
            .iter()
            .map(|entry| (entry.actor.as_str(), entry.action.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("cli", "apply tenants"),
                ("cli", "apply tenants"),
                ("cli", "apply prices")
            ]
        );
        assert!(
            entries[1].detail.contains("opening balance 1 USD"),
            "{}",
            entries[1].detail
        );
    }
}

#[tokio::test]
async fn what_an_admin_asks_wrongly_is_told_so() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let billing = ground.billing().await;
    let mut admin = billing.admin.clone();
    let prices = |sheets| ApplyPricesRequest {
        actor: actor(),
        sheets,
    };
    for (sheets, told) in [
        (vec![price("m", Rates::default())], "at least one rate"),
        (
            vec![price("m", output(-1))],
            "output: expected a rate that is not negative",
        ),
        (vec![price("", output(1))], "the model's name"),
        (
            vec![price("m", output(1)), price("m", output(2))],
            "each subject once",
        ),
    ] {
        let refused = Failure::from_status(&admin.apply_prices(prices(sheets)).await.unwrap_err());
        assert_eq!(refused.reason, Reason::InvalidRequest);
        assert!(refused.message.contains(told), "{refused}");
    }
    let nobody = ApplyPricesRequest {
        actor: None,
        sheets: vec![price("m", output(1))],
    };
    let refused = Failure::from_status(&admin.apply_prices(nobody).await.unwrap_err());
    assert_eq!(refused.param.as_deref(), Some("actor.name"));
    for (wrong, param) in [
        (
            budget("tenant", "", "week", Some(1), None),
            "budgets.window",
        ),
        (
            budget("tenant", "x", "day", Some(1), None),
            "budgets.subject",
        ),
        (
            budget("group", "g", "day", Some(1), None),
            "budgets.subject_kind",
        ),
        (budget("user", "u", "day", None, None), "budgets"),
    ] {
        let request = ApplyTenantsRequest {
            actor: actor(),
            tenants: vec![postpaid("acme", vec![wrong])],
            budgets: Vec::new(),
        };
        let refused = Failure::from_status(&admin.apply_tenants(request).await.unwrap_err());
        assert_eq!(
            (refused.reason, refused.param.as_deref()),
            (Reason::InvalidRequest, Some(param))
        );
    }
    let missing = Failure::from_status(
        &admin
            .get_tenant(GetTenantRequest {
                name: "nobody".to_owned(),
            })
            .await
            .unwrap_err(),
    );
    assert_eq!(missing.reason, Reason::NotFound);
    let missing = Failure::from_status(
        &admin
            .explain(ExplainRequest {
                id: "nothing".to_owned(),
            })
            .await
            .unwrap_err(),
    );
    assert_eq!(missing.reason, Reason::NotFound);

    billing.apply(vec![prepaid("acme", 0)], Vec::new()).await;
    let mut top_up = TopUpRequest {
        actor: actor(),
        tenant: "acme".to_owned(),
        amount_nanos: 5,
        idempotency_key: "k".to_owned(),
    };
    admin.top_up(top_up.clone()).await.unwrap();
    top_up.amount_nanos = 6;
    let refused = Failure::from_status(&admin.top_up(top_up.clone()).await.unwrap_err());
    assert_eq!(refused.reason, Reason::Conflict);
    top_up.tenant = "nobody".to_owned();
    let refused = Failure::from_status(&admin.top_up(top_up).await.unwrap_err());
    assert_eq!(refused.reason, Reason::NotFound);
    billing.assert_balanced().await;
}
