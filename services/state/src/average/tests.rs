use super::*;
use crate::health::Target;

fn seen(ok: u32, failed: u32, first_token_us: u64) -> Observation {
    Observation {
        target: Target {
            account: "a".into(),
            model: None,
        },
        ok,
        failed,
        first_token_us: first_token_us * u64::from(ok),
        first_tokens: ok,
    }
}

fn cooldown(hold: u64, max: Option<u64>) -> Cooldown {
    Cooldown {
        target: seen(0, 0, 0).target,
        hold: Duration::from_secs(hold),
        backoff_max: max.map(Duration::from_secs),
        reason: "overloaded".into(),
    }
}

const HALF_LIFE: Duration = Duration::from_secs(60);

#[test]
fn a_thousand_samples_of_one_second_move_the_average_once() {
    let mut record = Record::default();
    for _ in 0..1_000 {
        record.observe(&seen(0, 1, 0), 5_000);
    }
    assert_eq!(
        record.view(5_999, 0, HALF_LIFE).error_rate,
        0.0,
        "still open"
    );
    let view = record.view(6_000, 0, HALF_LIFE);
    assert!((view.error_rate - 0.2 * view.freshness).abs() < 1e-12);
    record.observe(&seen(1, 0, 100), 6_000);
    record.observe(&seen(1, 0, 300), 6_500);
    record.observe(&seen(1, 0, 1_200), 7_000);
    assert_eq!(record.ttft_us, Some(200.0), "that second's mean");
    record.observe(&seen(1, 0, 1_200), 8_000);
    assert_eq!(record.ttft_us, Some(400.0));
}

#[test]
fn without_samples_errors_drift_to_nothing() {
    let mut record = Record::default();
    for second in 0..50 {
        record.observe(&seen(0, 1, 0), second * 1_000);
    }
    let fresh = record.view(50_000, 0, HALF_LIFE).error_rate;
    let later = record.view(110_000, 0, HALF_LIFE).error_rate;
    assert!(
        fresh > 0.98 && (later / fresh - 0.5).abs() < 1e-9,
        "{fresh} {later}"
    );
}

#[test]
fn of_two_cooldowns_the_later_counts_and_backoff_doubles_until_a_success() {
    let mut record = Record::default();
    record.cool(&cooldown(30, None), 0);
    record.cool(&cooldown(5, None), 1_000);
    assert_eq!((record.cooled_until_ms, record.strikes), (30_000, 1));
    let mut record = Record::default();
    let mut holds = Vec::new();
    let mut now = 0;
    for _ in 0..4 {
        record.cool(&cooldown(5, Some(20)), now);
        holds.push(record.cooled_until_ms - now);
        now = record.cooled_until_ms;
    }
    assert_eq!(holds, [5_000, 10_000, 20_000, 20_000]);
    record.observe(&seen(1, 0, 1), now);
    record.cool(&cooldown(5, Some(20)), now);
    assert_eq!(record.cooled_until_ms - now, 5_000);
}

#[test]
fn a_store_s_clock_that_is_ahead_is_translated() {
    let mut record = Record::default();
    record.cool(&cooldown(30, None), 100_000);
    let view = record.view(110_000, 7_000, HALF_LIFE);
    assert_eq!(view.cooled_until_ms, 123_000);
    assert_eq!(&*view.reason, "overloaded");
    assert_eq!(record.view(130_000, 7_000, HALF_LIFE).cooled_until_ms, 0);
}
