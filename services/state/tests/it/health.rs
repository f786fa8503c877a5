//! Averages and cooldowns.

use std::time::Duration;

use switchboard_common::ids::AccountName;
use switchboard_state::health::{Cooldown, Observation, Target, TargetHealth};

use crate::bed::Bed;

fn target(account: &str, model: Option<&str>) -> Target {
    Target {
        account: account.into(),
        model: model.map(Into::into),
    }
}

async fn health(bed: &Bed, target: &Target) -> TargetHealth {
    let known = bed.state.health.snapshot().await.unwrap();
    known.get(target).cloned().unwrap_or_default()
}

fn cooldown(target: &Target, seconds: u64) -> Cooldown {
    Cooldown {
        target: target.clone(),
        hold: Duration::from_secs(seconds),
        backoff_max: None,
        reason: "rate|limited".into(),
    }
}

pub async fn what_is_observed_is_seen(bed: &Bed) {
    let east = target("east", Some("gpt-x"));
    let seen = [
        Observation {
            target: east.clone(),
            ok: 3,
            failed: 1,
            first_token_us: 3_000,
            first_tokens: 3,
        },
        Observation {
            target: target("west", None),
            ok: 0,
            failed: 1,
            first_token_us: 0,
            first_tokens: 0,
        },
    ];
    bed.state.health.observe(&seen).await.unwrap();
    bed.until("its second is over", || async {
        health(bed, &east).await.ttft_us.is_some()
    })
    .await;
    let east = health(bed, &east).await;
    assert_eq!((east.samples, east.ttft_us), (4, Some(1_000.0)));
    assert!(
        (0.04..=0.05).contains(&east.error_rate),
        "a quarter, weighed by 0.2: {east:?}"
    );
    assert!(east.freshness > 0.5 && east.last_ms > 0);
    let west = health(bed, &target("west", None)).await;
    assert!((0.15..=0.2).contains(&west.error_rate), "{west:?}");
    assert_eq!(west.ttft_us, None);
    assert_eq!(bed.state.health.snapshot().await.unwrap().len(), 2);
}

pub async fn cooldowns_are_seen_and_lifted(bed: &Bed) {
    let east = target("east", Some("gpt-x"));
    let other = target("eastern", Some("gpt-x"));
    let state = &bed.state.health;
    let first = state.cool(&cooldown(&east, 300)).await.unwrap();
    let second = state.cool(&cooldown(&east, 5)).await.unwrap();
    assert_eq!((first.strikes, second.strikes), (1, 1));
    assert!(
        (first.until_ms - second.until_ms).abs() < 5_000,
        "the later of two"
    );
    state.cool(&cooldown(&other, 300)).await.unwrap();
    let seen = health(bed, &east).await;
    assert!((seen.cooled_until_ms - first.until_ms).abs() < 5_000);
    assert_eq!(&*seen.reason, "rate|limited");
    let account = AccountName::from("east");
    assert_eq!(state.reset(Some(&account)).await.unwrap(), 1);
    assert_eq!(health(bed, &east).await.cooled_until_ms, 0);
    assert!(health(bed, &other).await.cooled_until_ms > 0);
    assert_eq!(state.reset(None).await.unwrap(), 1);
    let backoff = Cooldown {
        hold: Duration::from_millis(20),
        backoff_max: Some(Duration::from_millis(50)),
        ..cooldown(&east, 0)
    };
    for strikes in 1..=3 {
        assert_eq!(state.cool(&backoff).await.unwrap().strikes, strikes);
        bed.until("it is over", || async {
            health(bed, &east).await.cooled_until_ms == 0
        })
        .await;
    }
}
