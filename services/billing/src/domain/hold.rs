//! How much to set aside before a request runs (BILL-3), and what output a short hold pays for.

use switchboard_common::money::NanoUsd;
use switchboard_proto::{common::v1::Usage, scheduler::v1::Rates};

use super::rating::{Factors, rate};

/// Holds stay below this: the state store counts exactly up to 9·10¹⁵.
const MOST_HELD: i64 = 8_999_999_999_999_999;
/// A token has at least one byte; most have about four. No tokenizer on the hot path.
const BYTES_PER_TOKEN: u64 = 3;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) input_bytes: u64,
    pub(crate) requested_output: Option<u64>,
    pub(crate) model_max_output: Option<u64>,
    /// At least 1.
    pub(crate) choices: u64,
    pub(crate) strict: bool,
    pub(crate) no_output: bool,
    pub(crate) images: u64,
    pub(crate) audio_millis: u64,
    /// All that is wanted is held, or nothing: no cap makes the answer cheaper.
    pub(crate) uncapped: bool,
    /// What answers of the model hardly exceed.
    pub(crate) expected_output: u64,
}

/// Bounds that are settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Output that a strict hold covers where neither request nor model names a maximum.
    pub(crate) undeclared_output: u64,
    /// The least output that a strict hold may pay for.
    pub(crate) least_output: u64,
}

/// What to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) want_nanos: i64,
    pub(crate) min_nanos: i64,
    pub(crate) want_tokens: i64,
    pub(crate) min_tokens: i64,
    pub(crate) input_tokens: u64,
    /// Of each choice.
    pub(crate) output_tokens: u64,
}

/// The hold's size and the least that admits the request.
pub(crate) fn size(ask: &Ask, bounds: Bounds, rates: &Rates, factors: Factors) -> Size {
    let input = ask.input_bytes.div_ceil(BYTES_PER_TOKEN);
    let declared = match (ask.requested_output, ask.model_max_output) {
        (Some(requested), Some(most)) => Some(requested.min(most)),
        (one, other) => one.or(other),
    };
    let output = if ask.no_output {
        0
    } else if ask.strict {
        declared.unwrap_or(bounds.undeclared_output)
    } else {
        declared.map_or(ask.expected_output, |most| most.min(ask.expected_output))
    };
    let want_nanos = price(ask, rates, factors, input, output);
    let want_tokens = tokens(input, output, ask.choices);
    let (min_nanos, min_tokens) = if ask.strict && ask.uncapped {
        (want_nanos, want_tokens)
    } else if ask.strict {
        let least = output.min(bounds.least_output);
        (
            price(ask, rates, factors, input, least),
            tokens(input, least, ask.choices),
        )
    } else {
        // Anything that is left admits; nothing is asked where nothing is held.
        (want_nanos.min(1), want_tokens.min(1))
    };
    Size {
        want_nanos,
        min_nanos,
        want_tokens,
        min_tokens,
        input_tokens: input,
        output_tokens: output,
    }
}

/// The output of each choice that a hold smaller than wanted pays for; absent when it pays for all.
pub(crate) fn output_cap(
    ask: &Ask,
    size: &Size,
    held_nanos: Option<i64>,
    held_tokens: Option<i64>,
    rates: &Rates,
    factors: Factors,
) -> Option<u64> {
    let fits = |output: u64| {
        held_nanos.is_none_or(|held| price(ask, rates, factors, size.input_tokens, output) <= held)
            && held_tokens.is_none_or(|held| tokens(size.input_tokens, output, ask.choices) <= held)
    };
    if fits(size.output_tokens) {
        return None;
    }
    // More output never costs less, so that the largest that fits is found by halving.
    let (mut low, mut high) = (0, size.output_tokens);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(low)
}

/// At the dearest of output, reasoning and speech: how much of the answer will be what is not known. Strict, also at the dearest of
/// input and of its being written to a cache, which the caller may ask for.
fn price(ask: &Ask, rates: &Rates, factors: Factors, input: u64, output: u64) -> i64 {
    let output = output.saturating_mul(ask.choices);
    let dearest = rates.output.max(rates.reasoning).max(rates.audio_output);
    let read = if ask.strict {
        rates
            .input
            .max(rates.cache_write_5m)
            .max(rates.cache_write_1h)
    } else {
        rates.input
    };
    let hears = ask.audio_millis > 0;
    let usage = Usage {
        input_tokens: Some(input),
        // Nearly all that is heard are tokens of audio.
        audio_input_tokens: (hears && rates.audio_input > read).then_some(input),
        output_tokens: Some(output),
        images: Some(ask.images),
        audio_millis: Some(ask.audio_millis),
        ..Usage::default()
    };
    let rates = Rates {
        input: read,
        output: dearest,
        ..*rates
    };
    rate(&rates, &usage, factors).map_or(MOST_HELD, |NanoUsd(nanos)| nanos.clamp(0, MOST_HELD))
}

fn tokens(input: u64, output: u64, choices: u64) -> i64 {
    let total = input.saturating_add(output.saturating_mul(choices));
    i64::try_from(total).map_or(MOST_HELD, |total| total.min(MOST_HELD))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        undeclared_output: 16_384,
        least_output: 256,
    };

    fn ask(strict: bool) -> Ask {
        Ask {
            input_bytes: 300,
            requested_output: Some(1_000),
            model_max_output: None,
            choices: 1,
            strict,
            no_output: false,
            images: 0,
            audio_millis: 0,
            uncapped: false,
            expected_output: 400,
        }
    }

    fn rates(input: i64, output: i64) -> Rates {
        Rates {
            input: Some(input),
            output: Some(output),
            ..Rates::default()
        }
    }

    #[test]
    fn a_strict_hold_covers_what_was_requested_and_nothing_else_when_input_is_free_cases_a1() {
        let size = size(&ask(true), BOUNDS, &rates(0, 100_000_000), Factors::ONE);
        assert_eq!((size.want_nanos, size.min_nanos), (100_000, 25_600));
    }

    #[test]
    fn a_hold_that_is_not_strict_expects_what_the_model_usually_answers() {
        let size = size(
            &ask(false),
            BOUNDS,
            &rates(3_000_000, 1_000_000),
            Factors::ONE,
        );
        assert_eq!((size.want_nanos, size.min_nanos), (100 * 3 + 400, 1));
        assert_eq!((size.want_tokens, size.min_tokens), (500, 1));
    }

    #[test]
    fn where_no_maximum_is_declared_strict_holds_cover_the_setting_and_each_choice() {
        let ask = Ask {
            requested_output: None,
            choices: 2,
            ..ask(true)
        };
        let size = size(&ask, BOUNDS, &rates(0, 1_000_000), Factors::ONE);
        assert_eq!((size.want_nanos, size.min_nanos), (32_768, 512));
    }

    #[test]
    fn embeddings_hold_their_input() {
        let ask = Ask {
            no_output: true,
            ..ask(true)
        };
        let size = size(&ask, BOUNDS, &rates(1_000_000, 1_000_000), Factors::ONE);
        assert_eq!((size.want_nanos, size.min_nanos), (100, 100));
    }

    #[test]
    fn images_and_seconds_are_held_to_the_nano_and_all_or_nothing_where_no_cap_helps() {
        let ask = Ask {
            input_bytes: 30,
            requested_output: None,
            images: 3,
            audio_millis: 1_501,
            uncapped: true,
            choices: 3,
            ..ask(true)
        };
        let rates = Rates {
            per_image: Some(40_000_001),
            per_second: Some(100_001),
            audio_input: Some(6_000_000),
            ..rates(2_000_000, 1_000_000)
        };
        // Ten tokens of audio, 16,384 of output for each answer, three images, 150,101.501 of seconds.
        let expected = 60 + 3 * 16_384 + 3 * 40_000_001 + 150_102;
        let held = size(&ask, BOUNDS, &rates, Factors::ONE);
        assert_eq!((held.want_nanos, held.min_nanos), (expected, expected));
        assert_eq!(held.min_tokens, 10 + 3 * 16_384);
        // Who is not strict is let in with anything that is left.
        let ask = Ask {
            strict: false,
            ..ask
        };
        assert_eq!(size(&ask, BOUNDS, &rates, Factors::ONE).min_nanos, 1);
    }

    #[test]
    fn a_strict_hold_covers_input_that_is_written_to_a_cache() {
        let rates = Rates {
            cache_write_5m: Some(3_750_000),
            cache_write_1h: Some(6_000_000),
            ..rates(3_000_000, 0)
        };
        let held = |strict| size(&ask(strict), BOUNDS, &rates, Factors::ONE).want_nanos;
        assert_eq!(held(true), 600);
        assert_eq!(held(false), 300);
    }

    #[test]
    fn reasoning_or_speech_that_costs_more_than_output_sizes_the_hold() {
        let held = |reasoning, audio_output| {
            let rates = Rates {
                reasoning,
                audio_output,
                ..rates(0, 2_000_000)
            };
            size(&ask(true), BOUNDS, &rates, Factors::ONE).want_nanos
        };
        assert_eq!(held(Some(3_000_000), None), 3_000);
        assert_eq!(held(Some(3_000_000), Some(64_000_000)), 64_000);
        assert_eq!(held(Some(1_000_000), Some(0)), 2_000);
    }

    #[test]
    fn what_is_beyond_all_balances_is_held_as_the_most_there_is() {
        let size = size(
            &ask(true),
            BOUNDS,
            &rates(i64::MAX, i64::MAX),
            Factors::from_wire(u64::MAX, 1),
        );
        assert_eq!(size.want_nanos, MOST_HELD);
    }

    #[test]
    fn a_free_model_is_held_at_nothing() {
        let size = size(&ask(false), BOUNDS, &rates(0, 0), Factors::ONE);
        assert_eq!((size.want_nanos, size.min_nanos), (0, 0));
    }

    proptest! {
        #[test]
        fn the_cap_is_the_largest_output_that_the_hold_pays(
            held in 0_i64..200_000, price_in in 0_i64..10_000_000, price_out in 1_i64..100_000_000, choices in 1_u64..5,
        ) {
            let ask = Ask { choices, ..ask(true) };
            let rates = rates(price_in, price_out);
            let size = size(&ask, BOUNDS, &rates, Factors::ONE);
            let pays = |output| price(&ask, &rates, Factors::ONE, size.input_tokens, output) <= held;
            match output_cap(&ask, &size, Some(held), None, &rates, Factors::ONE) {
                None => prop_assert!(pays(size.output_tokens)),
                Some(cap) => {
                    prop_assert!(cap == 0 || pays(cap));
                    prop_assert!(!pays(cap + 1));
                    prop_assert!(held < size.min_nanos || cap >= 256);
                }
            }
        }
    }
}
