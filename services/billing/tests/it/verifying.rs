//! Each invariant, broken by hand, is named (BILL-9).

use switchboard_common::{
    error::{Failure, Reason},
    ids::RequestId,
};
use switchboard_proto::{
    billing::v1::{ListAuditRequest, ResolveDeadLetterRequest},
    common::v1::Actor,
};

use crate::{
    bench::{Bench, Ground, stores},
    fixtures::{USD, budget, prepaid, settlement},
};

async fn books(ground: &Ground) -> (Bench, RequestId) {
    let billing = ground.billing().await;
    let versions = billing.usual_prices().await;
    let mut acme = prepaid("acme", USD);
    acme.budgets = vec![
        budget("tenant", "", "month", Some(USD), None),
        budget("user", "ann@example.com", "day", None, Some(1_000_000)),
    ];
    billing
        .apply(
            vec![acme],
            vec![budget("group", "default", "hour", Some(USD), None)],
        )
        .await;
    let id = billing.new_id();
    billing
        .settle(vec![
            settlement(id, "acme", versions, 500),
            settlement(billing.new_id(), "acme", versions, 7),
        ])
        .await;
    billing.assert_balanced().await;
    (billing, id)
}

#[tokio::test]
async fn whatever_is_tampered_with_is_named() {
    // What is done, and what must be said. `ID` stands for a request.
    let tampers = [
        (
            "UPDATE ledger_entry SET amount_nanos = amount_nanos + 1 WHERE account = 'cost'",
            "does not balance",
        ),
        (
            "DELETE FROM ledger_entry WHERE account = 'provider:a'",
            "does not balance",
        ),
        (
            "UPDATE wallet SET balance_nanos = balance_nanos + 5 WHERE id = 'tenant:acme'",
            "tenant:acme: its balance is",
        ),
        (
            "UPDATE wallet SET overrun_nanos = -5 WHERE id = 'tenant:acme'",
            "tenant:acme: its overrun debt is -0.000000005 USD",
        ),
        (
            "DELETE FROM wallet WHERE id = 'tenant:acme'",
            "balance:acme: entries of",
        ),
        (
            "UPDATE usage SET charge_nanos = 1 WHERE charge_nanos = 1000000",
            "request ID: the usage row charges 0.000000001 USD",
        ),
        (
            "UPDATE usage SET cost_nanos = 1 WHERE charge_nanos = 1000000",
            "request ID: the usage row costs 0.000000001 USD, its attempts",
        ),
        (
            "UPDATE attempt SET cost_nanos = 3 WHERE cost_nanos = 500000",
            "request ID: the usage row costs 0.0005 USD, its attempts",
        ),
        (
            "DELETE FROM usage WHERE charge_nanos = 1000000",
            "request ID: settled in the ledger, but it has no usage row",
        ),
        (
            "UPDATE spend_window SET used_nanos = 1 WHERE span = 'month'",
            "window tenant:acme tenant  month",
        ),
        (
            "UPDATE spend_window SET used_tokens = 1 WHERE span = 'day'",
            "window tenant:acme user ann@example.com day",
        ),
        (
            "UPDATE spend_window SET used_nanos = 1 WHERE span = 'hour'",
            "window group:default group default hour",
        ),
        (
            "DELETE FROM spend_window WHERE span = 'day'",
            "budget tenant:acme user ann@example.com per day: 2 usage rows",
        ),
        (
            "INSERT INTO ledger_entry SELECT transaction_id, 1, line, 'final', account, amount_nanos, at_ms FROM ledger_entry WHERE kind = 'settlement'",
            "request ID: the usage row charges 0.001 USD and costs 0.0005 USD, the ledger 0.002 USD and 0.001 USD",
        ),
    ];
    for stores in stores() {
        for (sql, named) in tampers {
            let ground = Ground::new(stores, true).await;
            let (billing, id) = books(&ground).await;
            assert!(ground.tamper(sql).await > 0, "{sql}");
            let verified = billing.verify().await;
            let named = named.replace("ID", &id.to_string());
            assert!(!verified.balanced, "{stores:?}: {sql}");
            assert!(
                verified
                    .problems
                    .iter()
                    .any(|problem| problem.contains(&named)),
                "{stores:?}: {sql}: expected `{named}` in {:#?}",
                verified.problems
            );
        }
    }
}

#[tokio::test]
async fn a_request_that_was_settled_under_two_days_is_named() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let (billing, id) = books(&ground).await;
        ground
            .tamper("CREATE TABLE copy AS SELECT * FROM usage WHERE charge_nanos = 1000000")
            .await;
        ground.tamper("UPDATE copy SET day = day - 1").await;
        ground.tamper("INSERT INTO usage SELECT * FROM copy").await;
        let verified = billing.verify().await;
        let named = format!("request {id}: settled 2 times");
        assert!(
            verified.problems.contains(&named),
            "{:#?}",
            verified.problems
        );
    }
}

#[tokio::test]
async fn a_dead_letter_is_resolved_once_with_a_reason_and_then_no_problem() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let (billing, _) = books(&ground).await;
        // A sheet that nobody knows: it can never be rated.
        let id = billing.new_id();
        billing
            .settle(vec![settlement(id, "acme", (4_711, 1), 5)])
            .await;
        let id = id.to_string();
        let verified = billing.verify().await;
        assert!(!verified.balanced, "{verified:?}");
        assert!(verified.problems[0].contains(&id), "{verified:?}");
        assert!(verified.resolved.is_empty());

        let resolve = async |request_id: &str, reason: &str| {
            let request = ResolveDeadLetterRequest {
                actor: Some(Actor {
                    name: "cli".to_owned(),
                    reason: reason.to_owned(),
                }),
                request_id: request_id.to_owned(),
            };
            let answer = billing.admin.clone().resolve_dead_letter(request).await;
            answer
                .map(|answer| answer.into_inner().resolved)
                .map_err(|status| Failure::from_status(&status).reason)
        };
        assert_eq!(resolve(&id, " ").await, Err(Reason::InvalidRequest));
        assert_eq!(resolve("", "why").await, Err(Reason::InvalidRequest));
        assert_eq!(resolve("nobody's", "why").await, Err(Reason::NotFound));
        assert!(!billing.verify().await.balanced);
        assert_eq!(resolve(&id, "paid back by hand").await, Ok(1));
        assert_eq!(resolve(&id, "another word").await, Ok(0));

        let verified = billing.assert_balanced().await;
        assert_eq!((verified.dead_letters, verified.resolved.len()), (1, 1));
        let told = &verified.resolved[0];
        assert!(
            told.contains(&id) && told.contains("paid back by hand"),
            "{told}"
        );
        let mut admin = billing.admin.clone();
        let audit = admin.list_audit(ListAuditRequest { limit: 10 }).await;
        let entries = audit.unwrap().into_inner().entries;
        let decisions: Vec<_> = entries
            .iter()
            .filter(|entry| entry.action == "resolve dead letter")
            .collect();
        assert_eq!(decisions.len(), 1, "{entries:?}");
        assert_eq!(decisions[0].reason, "paid back by hand");
        assert!(decisions[0].detail.contains(&id));
    }
}
