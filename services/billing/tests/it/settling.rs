//! Settlements (BILL-4, BILL-6, BILL-7).

use switchboard_proto::{
    billing::v1::{Attempt, Ending, ExplainRequest, Party, TopUpRequest},
    common::v1::{Usage, UsageSource},
};

use crate::{
    bench::{Ground, Stores, stores, until},
    fixtures::{USD, actor, budget, party, postpaid, prepaid, provisional, settlement},
};

#[tokio::test]
async fn a_settlement_is_a_usage_row_a_charge_a_cost_and_a_window() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let mut acme = prepaid("acme", USD);
        acme.budgets = vec![budget("tenant", "", "month", Some(USD), Some(1_000_000))];
        billing.apply(vec![acme], Vec::new()).await;
        let id = billing.new_id();
        let mut whole = settlement(id, "acme", versions, 500);
        whole.stream = true;
        whole.attempts.insert(
            0,
            Attempt {
                number: 0,
                account: "b".to_owned(),
                upstream_model: "up".to_owned(),
                status: 500,
                error: "upstream_failed".to_owned(),
                ..Attempt::default()
            },
        );
        whole.attempts[1].number = 1;
        whole.usage = Some(Usage {
            input_tokens: Some(0),
            output_tokens: Some(500),
            ..Usage::default()
        });
        billing.settle(vec![whole]).await;

        let rows = billing.usage("acme").await;
        let row = &rows[0];
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (row.request_id.clone(), row.client_request_id.clone()),
            (id.to_string(), format!("mine-{id}"))
        );
        assert_eq!((row.charge_nanos, row.cost_nanos), (1_000_000, 500_000));
        assert_eq!(
            (row.input_tokens, row.cached_input_tokens, row.output_tokens),
            (Some(0), None, Some(500))
        );
        assert_eq!(
            (row.account.as_str(), row.upstream_model.as_str()),
            ("a", "up")
        );
        assert_eq!(
            (
                row.ending.as_str(),
                row.usage_source.as_str(),
                row.dialect.as_str()
            ),
            ("complete", "provider", "openai.chat")
        );
        assert_eq!(
            (row.user.as_str(), row.key.as_str(), row.group.as_str()),
            ("ann@example.com", "ci", "default")
        );
        assert!(row.stream && !row.provisional && row.created_at.ends_with('Z'));
        let costs: Vec<_> = row
            .attempts
            .iter()
            .map(|attempt| (attempt.number, attempt.cost_nanos, attempt.error.as_str()))
            .collect();
        assert_eq!(costs, [(0, 0, "upstream_failed"), (1, 500_000, "")]);

        let tenant = billing.tenant("acme").await;
        assert_eq!(tenant.balance_nanos, USD - 1_000_000);
        assert_eq!(
            (tenant.budgets[0].used_nanos, tenant.budgets[0].used_tokens),
            (1_000_000, 500)
        );
        for searched in [id.to_string(), format!("mine-{id}")] {
            let explained = billing
                .admin
                .clone()
                .explain(ExplainRequest { id: searched })
                .await
                .unwrap()
                .into_inner();
            assert_eq!(
                (
                    explained.decision_json.as_str(),
                    explained.catalogue_version
                ),
                ("{}", 7)
            );
            assert_eq!(explained.usage_raw, r#"{"completion_tokens":500}"#);
            assert_eq!(explained.row.unwrap(), *row);
        }
        let verified = billing.assert_balanced().await;
        // Opening: 2 lines; charge: 2, cost: 2.
        assert_eq!(
            (
                verified.settlements,
                verified.entries,
                verified.dead_letters
            ),
            (1, 6, 0)
        );
    }
}

#[tokio::test]
async fn whatever_comes_twice_is_settled_once() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let replicas = [ground.billing().await, ground.billing().await];
        let versions = replicas[0].usual_prices().await;
        replicas[0]
            .apply(vec![prepaid("acme", USD)], Vec::new())
            .await;
        let settlements: Vec<_> = (1..=100)
            .map(|output| settlement(replicas[0].new_id(), "acme", versions, output))
            .collect();
        // Both replicas get all of them, twice, in opposite orders, at the same time.
        let doubled: Vec<_> = settlements.iter().chain(&settlements).cloned().collect();
        let reversed: Vec<_> = doubled.iter().rev().cloned().collect();
        tokio::join!(replicas[0].settle(doubled), replicas[1].settle(reversed));
        assert_eq!(
            replicas[0].tenant("acme").await.balance_nanos,
            USD - 5_050 * 2_000,
            "{stores:?}"
        );
        let verified = replicas[0].assert_balanced().await;
        assert_eq!((verified.settlements, verified.dead_letters), (100, 0));
    }
}

#[tokio::test]
async fn the_real_settlement_replaces_a_provisional_one_once_as_a_difference() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let budgets = vec![budget("user", "ann@example.com", "day", Some(USD), None)];
        billing
            .apply(vec![postpaid("acme", budgets)], Vec::new())
            .await;
        let (early, late) = (billing.new_id(), billing.new_id());
        let (early, late) = (
            settlement(early, "acme", versions, 500),
            settlement(late, "acme", versions, 500),
        );

        billing.settle(vec![provisional(&early, 300)]).await;
        let row = billing.usage("acme").await.remove(0);
        assert_eq!(
            (row.charge_nanos, row.provisional, row.ending.as_str()),
            (600_000, true, "gateway_lost")
        );
        assert_eq!(row.usage_source, "estimated");
        // In one batch: the estimate again, the truth twice; and the other way round.
        billing
            .settle(vec![
                provisional(&early, 400),
                early.clone(),
                early.clone(),
                late.clone(),
                provisional(&late, 400),
            ])
            .await;
        let rows = billing.usage("acme").await;
        for row in &rows {
            assert_eq!(
                (row.charge_nanos, row.cost_nanos, row.provisional),
                (1_000_000, 500_000, false)
            );
            assert_eq!(
                (row.attempts.len(), row.attempts[0].cost_nanos),
                (1, 500_000)
            );
        }
        let tenant = billing.tenant("acme").await;
        assert_eq!(
            (tenant.balance_nanos, tenant.budgets[0].used_nanos),
            (-2_000_000, 2_000_000)
        );
        assert_eq!(billing.assert_balanced().await.settlements, 2);
        assert_eq!(
            billing.metric("switchboard_settlements_total{outcome=\"replaced\"}"),
            "1"
        );
    }
}

#[tokio::test]
async fn another_request_under_a_settled_id_is_put_aside_and_acknowledged() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
        let id = billing.new_id();
        let first = settlement(id, "acme", versions, 10);
        let mut other_body = settlement(id, "acme", versions, 20);
        other_body.fingerprint = vec![9].into();
        let mut other_key = settlement(id, "acme", versions, 30);
        other_key.party = Some(Party {
            key_id: "other".to_owned(),
            ..party("acme")
        });
        other_key.fingerprint = vec![1, 2, 3].into();
        billing.settle(vec![first.clone()]).await;
        billing
            .settle(vec![other_body.clone(), other_key, first])
            .await;
        billing.settle(vec![other_body]).await;
        assert_eq!(billing.tenant("acme").await.balance_nanos, USD - 20_000);
        let verified = billing.assert_balanced().await;
        assert_eq!((verified.settlements, verified.dead_letters), (1, 2));
        assert_eq!(
            billing.metric("switchboard_dead_letters_total{kind=\"conflict\"}"),
            "3"
        );
    }
}

#[tokio::test]
async fn one_bad_item_never_blocks_the_others() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        billing
            .apply(
                vec![prepaid("acme", USD), postpaid("edge", Vec::new())],
                Vec::new(),
            )
            .await;
        // A balance that can hold no further charge: only the database's transaction finds out.
        let top_up = TopUpRequest {
            actor: actor(),
            tenant: "edge".to_owned(),
            amount_nanos: -i64::MAX,
            idempotency_key: "k".to_owned(),
        };
        billing.admin.clone().top_up(top_up).await.unwrap();
        let mut batch: Vec<_> = (0..20)
            .map(|_| settlement(billing.new_id(), "acme", versions, 1))
            .collect();
        batch.insert(3, settlement(billing.new_id(), "edge", versions, 500));
        batch.insert(
            9,
            settlement(billing.new_id(), "acme", (4_711, versions.1), 5),
        );
        let mut nonsense = settlement(billing.new_id(), "acme", versions, 5);
        nonsense.request_id = "nonsense\0".to_owned();
        batch.insert(12, nonsense);
        let mut strange = settlement(billing.new_id(), "acme", versions, 1);
        strange.tags = "nul \0 in a tag".to_owned();
        batch.push(strange);
        // Everything is acknowledged.
        billing.settle(batch).await;
        assert_eq!(billing.tenant("acme").await.balance_nanos, USD - 21 * 2_000);
        let verified = billing.verify().await;
        assert_eq!(
            (
                verified.settlements,
                verified.dead_letters,
                verified.balanced
            ),
            (21, 3, false)
        );
        for kind in ["(failed)", "(unrated)", "(invalid)"] {
            assert!(
                verified.problems.iter().any(|line| line.contains(kind)),
                "{kind}: {:#?}",
                verified.problems
            );
        }
        assert_eq!(verified.problems.len(), 3);
    }
}

#[tokio::test]
async fn what_runs_over_the_balance_is_charged_in_full_and_is_debt() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        billing.apply(vec![prepaid("acme", 100)], Vec::new()).await;
        // 80 tokens at 2,000 nano-USD.
        billing
            .settle(vec![settlement(billing.new_id(), "acme", versions, 80)])
            .await;
        let tenant = billing.tenant("acme").await;
        assert_eq!(
            (tenant.balance_nanos, tenant.overrun_nanos),
            (100 - 160_000, 159_900)
        );
        let entries = "SELECT CAST(SUM(amount_nanos) AS BIGINT) FROM ledger_entry WHERE account = 'overrun:acme'";
        assert_eq!(ground.number(entries).await, -159_900);
        let top_up = TopUpRequest {
            actor: actor(),
            tenant: "acme".to_owned(),
            amount_nanos: 200_000,
            idempotency_key: "invoice 1".to_owned(),
        };
        for _ in 0..2 {
            let answer = billing
                .admin
                .clone()
                .top_up(top_up.clone())
                .await
                .unwrap()
                .into_inner();
            assert_eq!(answer.balance_nanos, 40_100);
        }
        assert_eq!(billing.tenant("acme").await.overrun_nanos, 0);
        // The state store knows at once.
        assert_eq!(
            billing
                .reserve(crate::fixtures::ask(
                    billing.new_id(),
                    "acme",
                    versions.0,
                    20
                ))
                .await,
            Ok(40_000)
        );
        billing.assert_balanced().await;
    }
}

#[tokio::test]
async fn who_pays_nothing_has_a_row_all_the_same() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
        // All attempts failed; the upstream reported usage of one (CASES E3, BILL-6).
        let mut failed = settlement(billing.new_id(), "acme", versions, 40);
        failed.set_ending(Ending::Failed);
        (failed.status, failed.error_code) = (502, "upstream_failed".to_owned());
        failed.charge_nothing = true;
        failed.usage = None;
        failed.set_usage_source(UsageSource::None);
        // Left in the queue.
        let mut left = settlement(billing.new_id(), "acme", versions, 0);
        left.set_ending(Ending::CallerLeft);
        (left.status, left.usage, left.attempts) = (499, None, Vec::new());
        left.set_usage_source(UsageSource::None);
        billing.settle(vec![failed, left]).await;
        let rows = billing.usage("").await;
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.ending.as_str(),
                    row.status,
                    row.charge_nanos,
                    row.cost_nanos,
                    row.output_tokens,
                    row.usage_source.as_str(),
                )
            })
            .collect();
        assert!(
            told.contains(&("failed", 502, 0, 40_000, None, "none")),
            "{told:?}"
        );
        assert!(
            told.contains(&("caller_left", 499, 0, 0, None, "none")),
            "{told:?}"
        );
        assert_eq!(billing.tenant("acme").await.balance_nanos, USD);
        billing.assert_balanced().await;
    }
}

#[tokio::test]
async fn a_charge_belongs_to_the_window_in_which_its_request_was_admitted() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let now = ground.clock.now_ms();
        let earlier = switchboard_common::ids::RequestId::generate(now - 3_600_000);
        // Spent before there was a budget: the hour's whole count begins with what is in the books.
        billing
            .settle(vec![settlement(billing.new_id(), "acme", versions, 10)])
            .await;
        let budgets = vec![budget("tenant", "", "hour", Some(USD), None)];
        billing
            .apply(vec![postpaid("acme", budgets)], Vec::new())
            .await;
        billing
            .settle(vec![
                settlement(earlier, "acme", versions, 100),
                settlement(billing.new_id(), "acme", versions, 5),
            ])
            .await;
        // The hour before was not counted whole and is left alone.
        let used = ground
            .number("SELECT CAST(SUM(used_nanos) AS BIGINT) FROM spend_window")
            .await;
        assert!(
            used == 30_000 || ground.clock.now_ms() / 3_600_000 != now / 3_600_000,
            "{used}"
        );
        billing.assert_balanced().await;
    }
}

#[tokio::test]
async fn thousands_are_settled_in_few_transactions() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let settlements: Vec<_> = (0..3_000)
            .map(|index| settlement(billing.new_id(), ["a", "b", "c"][index % 3], versions, 1))
            .collect();
        let mut recorders = Vec::new();
        for part in settlements.chunks(1_000) {
            let (mut recorder, part) = (billing.record().await, part.to_vec());
            recorders.push(async move { recorder.settle(part).await });
        }
        futures_util::future::join_all(recorders).await;
        let verified = billing.assert_balanced().await;
        assert_eq!((verified.settlements, verified.entries), (3_000, 12_000));
        let batches: u64 = billing
            .metric("switchboard_settlement_batches_total")
            .parse()
            .unwrap();
        assert!(batches < 300, "{batches}");
        assert_eq!(billing.tenant("a").await.balance_nanos, -2_000_000);
    }
}

#[tokio::test]
async fn a_stream_that_its_sender_left_is_still_settled() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let billing = ground.billing().await;
    let versions = billing.usual_prices().await;
    let recorder = billing.record().await;
    let request = switchboard_proto::billing::v1::RecordRequest {
        settlements: vec![settlement(billing.new_id(), "acme", versions, 10)],
        touches: Vec::new(),
    };
    recorder.sender.send(request).await.unwrap();
    let crate::bench::Recorder {
        sender,
        mut responses,
    } = recorder;
    drop(sender);
    // The answer comes and then the end.
    assert_eq!(responses.message().await.unwrap().unwrap().settled.len(), 1);
    assert!(responses.message().await.unwrap().is_none());
    until(|| async { (billing.usage("acme").await.len() == 1).then_some(()) }).await;
}
