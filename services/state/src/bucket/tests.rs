use proptest::prelude::*;

use super::*;

fn ask(rate: i64, capacity: i64, cost: i64, tokens: bool) -> Ask {
    Ask {
        rate,
        capacity: capacity * MILLI,
        cost: cost * MILLI,
        tokens,
    }
}

#[test]
fn a_full_bucket_gives_its_burst_and_then_its_rate() {
    let ask = ask(60, 3, 1, false);
    let mut bucket = Bucket::default().refilled(ask.rate, 0);
    for _ in 0..3 {
        let taken = bucket.take(&ask).unwrap();
        bucket.charge(taken);
    }
    assert_eq!(bucket.take(&ask), Err(1_000));
    assert_eq!(bucket.refilled(ask.rate, 999_999).take(&ask), Err(1));
    assert_eq!(bucket.refilled(ask.rate, 1_000_000).take(&ask), Ok(MILLI));
}

#[test]
fn tokens_are_admitted_while_one_is_left_and_take_what_is_left() {
    let ask = ask(1_000, 100, 70, true);
    let mut bucket = Bucket::default();
    bucket.charge(bucket.take(&ask).unwrap());
    assert_eq!(bucket.take(&ask), Ok(30 * MILLI));
    bucket.charge(30 * MILLI);
    assert_eq!(bucket.take(&ask), Err(60));
    bucket.charge(500 * MILLI);
    assert_eq!(
        bucket.state(&ask).remaining,
        0,
        "a debt shows as nothing left"
    );
    assert_eq!(bucket.take(&ask), Err(30_060));
}

#[test]
fn often_asked_slow_buckets_still_refill() {
    let ask = ask(1, 1, 1, false);
    let mut bucket = Bucket {
        missing: MILLI,
        at_us: 0,
    };
    for now in (0..=60_000_000).step_by(30_000) {
        bucket = bucket.refilled(ask.rate, now);
    }
    assert_eq!(bucket.take(&ask), Ok(MILLI));
}

proptest! {
    #[test]
    fn over_any_time_no_more_is_given_than_burst_and_refill(
        rate in 1_i64..5_000_000,
        capacity in 1_i64..100_000,
        steps in prop::collection::vec((0_i64..3_000_000, 1_i64..5_000, any::<bool>()), 1..200),
    ) {
        let mut bucket = Bucket::default().refilled(rate, 0);
        let (mut now, mut given) = (0_i64, 0_i128);
        for (wait, cost, tokens) in steps {
            now += wait;
            bucket = bucket.refilled(rate, now);
            let ask = ask(rate, capacity, cost, tokens);
            let before = bucket;
            match bucket.take(&ask) {
                Ok(taken) => {
                    bucket.charge(taken);
                    given += i128::from(taken);
                }
                Err(retry) => {
                    prop_assert!(retry > 0);
                    prop_assert_eq!(before, bucket, "a refusal consumes nothing");
                }
            }
            prop_assert!(bucket.missing >= 0, "never above its capacity");
            let most = i128::from(capacity) * 1_000 + i128::from(now) * i128::from(rate) / 60_000;
            prop_assert!(given <= most, "{} of {}", given, most);
        }
    }

    #[test]
    fn the_script_s_numbers_are_exact(missing in 0..=MAX_MISSING, rate in 1..=1_000_000_000_i64) {
        prop_assert!(missing * REFILL_DIVISOR + rate < 1 << 53);
    }
}
