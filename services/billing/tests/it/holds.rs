//! Money set aside (BILL-3).

use std::{sync::Arc, time::Duration};

use switchboard_common::{clock::ManualClock, error::Reason};
use switchboard_proto::{
    billing::v1::{Party, RecordRequest, ReserveRequest, Touch, VoidRequest},
    scheduler::v1::Rates,
};

use crate::{
    bench::{Ground, Stores, stores},
    fixtures::{USD, ask, budget, output, party, postpaid, prepaid, price, settlement},
};

/// CASES A1.
#[tokio::test]
async fn a_balance_for_ten_calls_admits_ten_of_fifty_and_ends_at_zero() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        // Two replicas share the stores.
        let replicas = [ground.billing().await, ground.billing().await];
        let versions = replicas[0].usual_prices().await;
        replicas[0]
            .apply(vec![prepaid("acme", 10 * 1_000_000)], Vec::new())
            .await;

        let ids: Vec<_> = (0..50).map(|_| replicas[0].new_id()).collect();
        let asked = ids.iter().enumerate().map(|(index, id)| {
            let replica = &replicas[index % 2];
            async move {
                (
                    *id,
                    replica.reserve(ask(*id, "acme", versions.0, 500)).await,
                )
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        let held: Vec<_> = answers
            .iter()
            .filter(|(_, held)| *held == Ok(1_000_000))
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(held.len(), 10, "{stores:?}");
        let refused = answers.iter().filter_map(|(_, held)| held.as_ref().err());
        assert!(
            refused
                .clone()
                .all(|failure| failure.reason == Reason::InsufficientQuota)
        );
        assert_eq!(refused.count(), 40);
        assert_eq!(replicas[1].tenant("acme").await.held_nanos, 10 * 1_000_000);

        let settlements = held
            .iter()
            .map(|id| settlement(*id, "acme", versions, 500))
            .collect();
        replicas[1].settle(settlements).await;
        let tenant = replicas[0]
            .until("acme", |tenant| tenant.held_nanos == 0)
            .await;
        assert_eq!((tenant.balance_nanos, tenant.overrun_nanos), (0, 0));
        assert_eq!(replicas[0].assert_balanced().await.settlements, 10);
        let refused = replicas[0]
            .reserve(ask(replicas[0].new_id(), "acme", versions.0, 500))
            .await
            .unwrap_err();
        assert!(
            refused.message.contains("tenant acme") && refused.message.contains("0 USD left"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_strict_hold_takes_all_that_is_left_if_that_pays_for_an_answer_and_caps_the_output() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let (version, _) = billing.usual_prices().await;
        billing
            .apply(
                vec![prepaid("acme", 600 * 2_000), prepaid("poor", 255 * 2_000)],
                Vec::new(),
            )
            .await;
        let answer = billing
            .client
            .clone()
            .reserve(ask(billing.new_id(), "acme", version, 1_000))
            .await
            .unwrap();
        let answer = answer.into_inner();
        assert_eq!(
            (answer.held_nanos, answer.output_cap),
            (600 * 2_000, Some(600))
        );
        assert_eq!(answer.estimated_tokens, 100 + 1_000);
        let refused = billing
            .reserve(ask(billing.new_id(), "poor", version, 1_000))
            .await
            .unwrap_err();
        assert_eq!(refused.reason, Reason::InsufficientQuota);
        // What pays for all is not capped.
        let whole = billing
            .client
            .clone()
            .reserve(ask(billing.new_id(), "poor", version, 200))
            .await
            .unwrap();
        assert_eq!(whole.into_inner().output_cap, None);
    }
}

#[tokio::test]
async fn what_is_not_strict_is_admitted_while_anything_is_left() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let (version, _) = billing.usual_prices().await;
        billing.apply(vec![prepaid("acme", 5)], Vec::new()).await;
        let easy = |id| ReserveRequest {
            strict: false,
            ..ask(id, "acme", version, 1_000)
        };
        assert_eq!(billing.reserve(easy(billing.new_id())).await, Ok(5));
        let refused = billing.reserve(easy(billing.new_id())).await.unwrap_err();
        assert_eq!(refused.reason, Reason::InsufficientQuota);
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_and_a_free_one_is_not() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let billing = ground.billing().await;
    for version in [0, 99] {
        let refused = billing
            .reserve(ask(billing.new_id(), "acme", version, 10))
            .await
            .unwrap_err();
        assert_eq!(
            (refused.reason, refused.param.as_deref()),
            (Reason::Unavailable, Some("model"))
        );
        assert!(refused.message.contains("has no price"));
    }
    assert_eq!(
        billing.metric("switchboard_unpriced_total{kind=\"price\"}"),
        "2"
    );
    let versions = billing.price(vec![price("m", output(0))]).await;
    billing.apply(vec![prepaid("acme", 0)], Vec::new()).await;
    assert_eq!(
        billing
            .reserve(ask(billing.new_id(), "acme", versions[0], 10))
            .await,
        Ok(0)
    );
}

#[tokio::test]
async fn a_budget_says_whose_it_is_and_when_it_resets() {
    // 2026-11-30T00:53:20Z.
    let clock = ManualClock::at_ms(1_796_000_000_000);
    let ground = Ground::with_clock(Stores::Embedded, true, Arc::clone(&clock) as _).await;
    let billing = ground.billing().await;
    let (version, cost) = billing.usual_prices().await;
    let budgets = vec![
        budget("user", "ann@example.com", "hour", Some(1_000_000), None),
        budget("key", "ci", "day", None, Some(2_000)),
    ];
    billing
        .apply(vec![postpaid("acme", budgets)], Vec::new())
        .await;
    let first = billing.new_id();
    assert_eq!(
        billing.reserve(ask(first, "acme", version, 500)).await,
        Ok(1_000_000)
    );
    let refused = billing
        .reserve(ask(billing.new_id(), "acme", version, 500))
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::QuotaExceeded);
    assert_eq!(refused.retry_after, Some(Duration::from_secs(400)));
    assert!(
        refused
            .message
            .contains("user ann@example.com for this hour")
            && refused.message.contains("resets at 2026-11-30T01:00:00Z"),
        "{refused}"
    );
    // Settled for less: what was not used is free again.
    billing
        .settle(vec![settlement(first, "acme", (version, cost), 400)])
        .await;
    billing.assert_balanced().await;
    assert_eq!(
        billing
            .reserve(ask(billing.new_id(), "acme", version, 100))
            .await,
        Ok(200_000)
    );
    // The next hour is another window; the key's day is not, whoever uses it.
    clock.advance_ms(400_000);
    assert_eq!(
        billing
            .reserve(ask(billing.new_id(), "acme", version, 500))
            .await,
        Ok(1_000_000)
    );
    let bob = |output| ReserveRequest {
        party: Some(Party {
            user: "bob@example.com".to_owned(),
            ..party("acme")
        }),
        ..ask(billing.new_id(), "acme", version, output)
    };
    // 2,000 less 400 used, 200 and 600 held.
    let rest = billing
        .client
        .clone()
        .reserve(bob(1_900))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (rest.held_nanos, rest.held_tokens, rest.output_cap),
        (0, 800, Some(700))
    );
    let refused = billing.reserve(bob(300)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::QuotaExceeded);
    assert!(
        refused.message.contains("key ci for this day")
            && refused.message.contains("0 tokens of 2000 tokens"),
        "{refused}"
    );
    let budgets = billing.tenant("acme").await.budgets;
    let used: Vec<_> = budgets
        .iter()
        .map(|state| (state.used_nanos, state.used_tokens))
        .collect();
    assert_eq!(used, [(800_000, 400), (0, 0)]);
}

#[tokio::test]
async fn a_groups_budget_is_one_for_all_tenants() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let versions = billing.usual_prices().await;
        let group = vec![budget("group", "default", "month", Some(1_000_000), None)];
        billing
            .apply(
                vec![postpaid("one", Vec::new()), postpaid("two", Vec::new())],
                group,
            )
            .await;
        // Both tenants have their copy of the group's purse.
        for tenant in ["one", "two"] {
            let id = billing.new_id();
            assert_eq!(
                billing.reserve(ask(id, tenant, versions.0, 10)).await,
                Ok(20_000)
            );
            void(&billing, tenant, id.to_string()).await;
        }
        billing
            .settle(vec![settlement(billing.new_id(), "one", versions, 500)])
            .await;
        let refused = billing
            .reserve(ask(billing.new_id(), "two", versions.0, 500))
            .await
            .unwrap_err();
        assert_eq!(refused.reason, Reason::QuotaExceeded, "{stores:?}");
        assert!(refused.message.contains("group default"), "{refused}");
        billing.assert_balanced().await;
    }
}

#[tokio::test]
async fn a_budget_that_comes_back_holds_against_what_was_spent_without_it() {
    let day = || vec![budget("tenant", "", "day", Some(1_000_000), None)];
    let month = || vec![budget("group", "default", "month", Some(1_000_000), None)];
    for stores in stores() {
        for (budgets, group) in [(day(), Vec::new()), (Vec::new(), month())] {
            let ground = Ground::new(stores, true).await;
            let billing = ground.billing().await;
            let versions = billing.usual_prices().await;
            let apply = async |budgets, group| {
                billing.apply(vec![postpaid("acme", budgets)], group).await;
            };
            let settle = async |id, output| {
                let settlement = settlement(id, "acme", versions, output);
                billing.settle(vec![settlement]).await;
            };
            let reserve = async |id, output| {
                let asked = ask(id, "acme", versions.0, output);
                billing.reserve(asked).await
            };
            apply(budgets.clone(), group.clone()).await;
            // The state store knows the window, then it is spent in while it does not count.
            let id = billing.new_id();
            assert_eq!(reserve(id, 10).await, Ok(20_000));
            settle(id, 10).await;
            apply(Vec::new(), Vec::new()).await;
            settle(billing.new_id(), 480).await;
            apply(budgets, group).await;
            // 500 tokens are all there is, 490 are used.
            let refused = reserve(billing.new_id(), 11).await.unwrap_err();
            assert_eq!(refused.reason, Reason::QuotaExceeded, "{stores:?}");
            assert_eq!(reserve(billing.new_id(), 10).await, Ok(20_000));
            billing.assert_balanced().await;
        }
    }
}

async fn void(billing: &crate::bench::Bench, tenant: &str, request_id: String) {
    let request = VoidRequest {
        request_id,
        tenant: tenant.to_owned(),
    };
    billing.client.clone().void(request).await.unwrap();
}

#[tokio::test]
async fn a_hold_is_asked_for_once_and_given_back_before_during_and_after() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground.billing().await;
        let (version, _) = billing.usual_prices().await;
        billing
            .apply(vec![prepaid("acme", 3_000_000)], Vec::new())
            .await;
        let id = billing.new_id();
        for _ in 0..3 {
            assert_eq!(
                billing.reserve(ask(id, "acme", version, 500)).await,
                Ok(1_000_000)
            );
        }
        assert_eq!(billing.tenant("acme").await.held_nanos, 1_000_000);
        for _ in 0..2 {
            void(&billing, "acme", id.to_string()).await;
        }
        assert_eq!(billing.tenant("acme").await.held_nanos, 0);
        let late = billing.new_id();
        void(&billing, "acme", late.to_string()).await;
        let gone = billing
            .reserve(ask(late, "acme", version, 500))
            .await
            .unwrap_err();
        assert_eq!(gone.reason, Reason::Conflict);
        assert_eq!(billing.tenant("acme").await.held_nanos, 0);
    }
}

#[tokio::test]
async fn a_touch_brings_a_lost_hold_back_but_not_a_settled_one() {
    for stores in stores() {
        let ground = Ground::new(stores, true).await;
        let billing = ground
            .billing_with(crate::bench::test_config(), ground.state.clone())
            .await;
        let versions = billing.usual_prices().await;
        billing
            .apply(vec![prepaid("acme", 3_000_000)], Vec::new())
            .await;
        // Never reserved here: as if the store had lost it.
        let id = billing.new_id();
        let touch = Touch {
            request_id: id.to_string(),
            tenant: "acme".to_owned(),
            held_nanos: 700_000,
            held_tokens: 0,
            draft: Some(settlement(id, "acme", versions, 10)),
        };
        let mut recorder = billing.record().await;
        let touches = RecordRequest {
            settlements: Vec::new(),
            touches: vec![touch.clone()],
        };
        recorder.sender.send(touches.clone()).await.unwrap();
        assert_eq!(recorder.next().await.touched, [id.to_string()]);
        assert_eq!(billing.tenant("acme").await.held_nanos, 700_000);
        recorder
            .settle(vec![settlement(id, "acme", versions, 500)])
            .await;
        recorder.sender.send(touches).await.unwrap();
        assert_eq!(recorder.next().await.touched, [id.to_string()]);
        assert_eq!(billing.tenant("acme").await.held_nanos, 0);
        assert_eq!(billing.tenant("acme").await.balance_nanos, 2_000_000);
    }
}

#[tokio::test]
async fn holds_expect_what_the_model_answers() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let billing = ground.billing().await;
    let versions = billing.usual_prices().await;
    billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
    let easy = |id| ReserveRequest {
        strict: false,
        requested_output: None,
        ..ask(id, "acme", versions.0, 0)
    };
    assert_eq!(
        billing.reserve(easy(billing.new_id())).await,
        Ok(4_096 * 2_000)
    );
    billing
        .settle(
            (0..20)
                .map(|_| settlement(billing.new_id(), "acme", versions, 30))
                .collect(),
        )
        .await;
    assert_eq!(
        billing.reserve(easy(billing.new_id())).await,
        Ok(30 * 2_000)
    );
}

#[tokio::test]
async fn multipliers_and_input_count() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let billing = ground.billing().await;
    let rates = Rates {
        input: Some(3 * USD),
        ..output(2 * USD)
    };
    let versions = billing.price(vec![price("m", rates)]).await;
    billing.apply(vec![prepaid("acme", USD)], Vec::new()).await;
    let dear = ReserveRequest {
        party: Some(Party {
            group_multiplier: 1_200_000,
            user_multiplier: 500_000,
            ..party("acme")
        }),
        ..ask(billing.new_id(), "acme", versions[0], 100)
    };
    // (100 × 3 + 100 × 2) µUSD × 1.2 × 0.5
    assert_eq!(billing.reserve(dear).await, Ok(300_000));
}

#[tokio::test]
async fn what_is_asked_wrongly_is_told_so() {
    let ground = Ground::new(Stores::Embedded, true).await;
    let billing = ground.billing().await;
    let id = billing.new_id();
    for (request, param) in [
        (
            ReserveRequest {
                request_id: "1".to_owned(),
                ..ask(id, "acme", 1, 1)
            },
            "request_id",
        ),
        (
            ReserveRequest {
                party: None,
                ..ask(id, "acme", 1, 1)
            },
            "party.tenant",
        ),
    ] {
        let refused = billing.reserve(request).await.unwrap_err();
        assert_eq!(
            (refused.reason, refused.param.as_deref()),
            (Reason::InvalidRequest, Some(param))
        );
    }
}
