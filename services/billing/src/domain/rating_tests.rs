use proptest::prelude::*;

use super::*;

/// USD per million tokens → nano-USD per million tokens.
fn usd(text: &str) -> Option<i64> {
    Some(text.parse::<NanoUsd>().unwrap().0)
}

fn nanos(rates: &Rates, usage: &Usage) -> i64 {
    rate(rates, usage, Factors::ONE).unwrap().0
}

#[test]
fn cache_writes_are_charged_once_cases_a12() {
    let rates = Rates {
        input: usd("3"),
        output: usd("15"),
        cache_write_5m: usd("3.75"),
        ..Rates::default()
    };
    let usage = Usage {
        input_tokens: Some(3),
        cache_write_5m_tokens: Some(12_304),
        cached_input_tokens: Some(0),
        output_tokens: Some(550),
        ..Usage::default()
    };
    assert_eq!(
        rate(&rates, &usage, Factors::ONE).unwrap().to_string(),
        "0.054399"
    );
}

#[test]
fn cached_reads_are_charged_at_their_own_price_cases_a13() {
    let rates = Rates {
        input: usd("0.80"),
        output: usd("4.00"),
        cached_input: usd("0.08"),
        ..Rates::default()
    };
    let usage = Usage {
        input_tokens: Some(4),
        cached_input_tokens: Some(2_455),
        output_tokens: Some(23),
        ..Usage::default()
    };
    // $0.0002916: what the case shows as $0.000292.
    assert_eq!(nanos(&rates, &usage), 291_600);
    assert_eq!(divide_half_even(291_600, 1_000), 292);
}

#[test]
fn what_is_not_priced_apart_is_charged_as_what_it_is_part_of() {
    let rates = Rates {
        input: usd("1"),
        output: usd("10"),
        ..Rates::default()
    };
    let usage = Usage {
        cached_input_tokens: Some(1_000_000),
        cache_write_1h_tokens: Some(1_000_000),
        output_tokens: Some(1_000_000),
        reasoning_tokens: Some(400_000),
        ..Usage::default()
    };
    assert_eq!(nanos(&rates, &usage), 12_000_000_000);
    let apart = Rates {
        cached_input: Some(0),
        reasoning: usd("20"),
        ..rates
    };
    assert_eq!(
        nanos(&apart, &usage),
        1_000_000_000 + 6_000_000_000 + 8_000_000_000
    );
}

#[test]
fn a_cache_write_for_an_hour_costs_at_least_what_one_for_five_minutes_does() {
    let rates = Rates {
        input: usd("1"),
        cache_write_5m: usd("1.25"),
        ..Rates::default()
    };
    let usage = Usage {
        cache_write_1h_tokens: Some(1_000_000),
        ..Usage::default()
    };
    assert_eq!(nanos(&rates, &usage), 1_250_000_000);
    let own = Rates {
        cache_write_1h: usd("2"),
        ..rates
    };
    assert_eq!(nanos(&own, &usage), 2_000_000_000);
}

#[test]
fn an_absent_kind_and_a_zero_price_charge_nothing() {
    let rates = Rates {
        input: Some(0),
        per_request: Some(7),
        ..Rates::default()
    };
    assert_eq!(nanos(&rates, &Usage::default()), 7);
    let usage = Usage {
        input_tokens: Some(u64::MAX),
        output_tokens: Some(5),
        ..Usage::default()
    };
    assert_eq!(nanos(&rates, &usage), 7);
    assert!(!prices_something(&Rates::default()));
    assert!(prices_something(&rates));
}

#[test]
fn a_line_is_rounded_once_half_to_even() {
    let halves = |tokens| {
        let rates = Rates {
            input: Some(500_000),
            ..Rates::default()
        };
        let usage = Usage {
            input_tokens: Some(tokens),
            ..Usage::default()
        };
        nanos(&rates, &usage)
    };
    assert_eq!([1, 2, 3, 5, 7].map(halves), [0, 1, 2, 2, 4]);
    // 1.5 × 1.5 × 1 token at 1 nano is 2.25, not 1.5 rounded to 2 and then 3.
    let rates = Rates {
        input: Some(1_000_000),
        ..Rates::default()
    };
    let usage = Usage {
        input_tokens: Some(1),
        ..Usage::default()
    };
    let factors = Factors::from_wire(1_500_000, 1_500_000);
    assert_eq!(rate(&rates, &usage, factors), Ok(NanoUsd(2)));
}

#[test]
fn too_much_is_an_error() {
    let rates = Rates {
        input: Some(i64::MAX),
        ..Rates::default()
    };
    let usage = Usage {
        input_tokens: Some(u64::MAX),
        ..Usage::default()
    };
    assert_eq!(rate(&rates, &usage, Factors::ONE), Err(Overflow));
    let factors = Factors::from_wire(u64::MAX, u64::MAX);
    assert_eq!(rate(&rates, &usage, factors), Err(Overflow));
}

#[test]
fn images_and_seconds_are_lines_too() {
    let rates = Rates {
        per_image: usd("0.04"),
        per_second: usd("0.0001"),
        ..Rates::default()
    };
    let usage = Usage {
        images: Some(2),
        audio_millis: Some(1_500),
        ..Usage::default()
    };
    assert_eq!(nanos(&rates, &usage), 80_000_000 + 150_000);
}

fn tokens() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(0_u64..100_000_000)
}

prop_compose! {
    fn usage()(input_tokens in tokens(), cached_input_tokens in tokens(), cache_write_5m_tokens in tokens(),
        cache_write_1h_tokens in tokens(), output_tokens in tokens(), reasoning_tokens in tokens()) -> Usage {
        Usage { input_tokens, cached_input_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens,
            reasoning_tokens, ..Usage::default() }
    }
}

fn price() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(0_i64..1_000_000_000_000)
}

prop_compose! {
    fn rates()(input in price(), cached_input in price(), cache_write_5m in price(), cache_write_1h in price(),
        output in price(), reasoning in price(), per_request in price()) -> Rates {
        Rates { input, cached_input, cache_write_5m, cache_write_1h, output, reasoning, per_request, ..Rates::default() }
    }
}

proptest! {
    #[test]
    fn more_usage_never_costs_less(rates in rates(), usage in usage(), more in 0_u64..1_000_000) {
        let larger = Usage { input_tokens: Some(given(usage.input_tokens) + more), ..usage };
        prop_assert!(nanos(&rates, &larger) >= nanos(&rates, &usage));
    }

    #[test]
    fn kinds_add_up(rates in rates(), usage in usage()) {
        let rates = Rates { per_request: None, ..rates };
        let input = Usage { output_tokens: None, reasoning_tokens: None, ..usage };
        let output = Usage { output_tokens: usage.output_tokens, reasoning_tokens: usage.reasoning_tokens, ..Usage::default() };
        prop_assert_eq!(nanos(&rates, &usage), nanos(&rates, &input) + nanos(&rates, &output));
    }

    #[test]
    fn reasoning_at_the_price_of_output_changes_less_than_a_rounding(usage in usage(), price in 0_i64..1_000_000_000) {
        let plain = Rates { output: Some(price), ..Rates::default() };
        let apart = Rates { reasoning: Some(price), ..plain };
        prop_assert!((nanos(&plain, &usage) - nanos(&apart, &usage)).abs() <= 1);
    }

    #[test]
    fn rounding_is_never_off_by_more_than_half(amount in -1_000_000_000_i128..1_000_000_000, divisor in 1_i128..1_000_000) {
        let rounded = divide_half_even(amount, divisor);
        prop_assert!(((rounded * divisor - amount) * 2).abs() <= divisor);
    }

    #[test]
    fn nothing_panics(a: u64, b: u64, c: u64, price: i64, group: u64, user: u64) {
        let rates = Rates { input: Some(price), reasoning: Some(price), per_image: Some(price), per_second: Some(price), ..Rates::default() };
        let usage = Usage { input_tokens: Some(a), output_tokens: Some(b), reasoning_tokens: Some(c), images: Some(a), audio_millis: Some(b), ..Usage::default() };
        let _ = rate(&rates, &usage, Factors::from_wire(group, user));
    }
}
