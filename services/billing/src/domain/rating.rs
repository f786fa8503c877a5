//! The one rating function (BILL-1, BILL-2): usage × rates × multipliers = nano-USD.
//!
//! A line is one kind of token, or one other quantity. Each line is quantity × rate × group multiplier × user multiplier,
//! computed whole in 128 bits and rounded once, half to even, to a nano-USD; the charge is the sum of the lines. So the
//! charge of two kinds is the sum of their charges, and a request costs the same whether it streamed or not.
//!
//! What is not priced apart is part of what it is a subset of:
//! - cached input without a `cached_input` rate is charged as input; likewise a cache write without a rate of its own, but that
//!   one for an hour costs at least what one for five minutes does: it is charged as that where only that has a rate;
//! - reasoning tokens are part of the output and charged as such, unless there is a `reasoning` rate: then they are taken out
//!   of the output first; audio tokens likewise, of input and output.
//!
//! An absent rate of a kind that is a subset of nothing (input, output, images, seconds, the request itself) charges nothing
//! for it. A rate of zero is a rate: cached input at 0 is free, not charged as input.

use switchboard_common::money::{Multiplier, NanoUsd};
use switchboard_proto::{common::v1::Usage, scheduler::v1::Rates};

/// The multipliers that were pinned at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factors {
    pub(crate) group: Multiplier,
    pub(crate) user: Multiplier,
}

impl Factors {
    /// ×1: what an upstream charges us.
    pub(crate) const ONE: Self = Self {
        group: Multiplier::ONE,
        user: Multiplier::ONE,
    };

    /// From the wire, where 0 stands for "none given": ×1. Nothing becomes free by an omitted field.
    pub(crate) fn from_wire(group: u64, user: u64) -> Self {
        let or_one = |millionths| match millionths {
            0 => Multiplier::ONE,
            given => Multiplier(given),
        };
        Self {
            group: or_one(group),
            user: or_one(user),
        }
    }
}

/// The amount is beyond ±9.2 thousand million USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the charge is beyond what a balance can hold; check quantities, rates and multipliers")]
pub(crate) struct Overflow;

/// Rates of tokens are per this many.
const PER_MILLION: i128 = 1_000_000;
/// Two multipliers in millionths.
const FACTORS: i128 = 1_000_000_000_000;

/// What `usage` costs at `rates`.
pub(crate) fn rate(rates: &Rates, usage: &Usage, factors: Factors) -> Result<NanoUsd, Overflow> {
    let mut total = 0_i128;
    let mut add = |quantity: u64, rate: Option<i64>, per: i128| -> Result<(), Overflow> {
        if let Some(rate) = rate
            && quantity > 0
        {
            total = total
                .checked_add(line(quantity, rate, per, factors)?)
                .ok_or(Overflow)?;
        }
        Ok(())
    };
    let (input, audio_input) = apart(
        usage.input_tokens,
        usage.audio_input_tokens,
        rates.audio_input,
    );
    let (output, reasoning) = apart(usage.output_tokens, usage.reasoning_tokens, rates.reasoning);
    let (output, audio_output) = apart(Some(output), usage.audio_output_tokens, rates.audio_output);
    let like_input = |own: Option<i64>| own.or(rates.input);

    add(input, rates.input, PER_MILLION)?;
    add(audio_input, rates.audio_input, PER_MILLION)?;
    add(
        given(usage.cached_input_tokens),
        like_input(rates.cached_input),
        PER_MILLION,
    )?;
    add(
        given(usage.cache_write_5m_tokens),
        like_input(rates.cache_write_5m),
        PER_MILLION,
    )?;
    add(
        given(usage.cache_write_1h_tokens),
        like_input(rates.cache_write_1h.or(rates.cache_write_5m)),
        PER_MILLION,
    )?;
    add(output, rates.output, PER_MILLION)?;
    add(reasoning, rates.reasoning, PER_MILLION)?;
    add(audio_output, rates.audio_output, PER_MILLION)?;
    add(1, rates.per_request, 1)?;
    add(given(usage.images), rates.per_image, 1)?;
    add(given(usage.audio_millis), rates.per_second, 1_000)?;
    i64::try_from(total).map(NanoUsd).map_err(|_| Overflow)
}

/// What budgets in tokens count: everything that was read or written, each once.
pub(crate) fn counted_tokens(usage: &Usage) -> u64 {
    [
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.output_tokens,
    ]
    .into_iter()
    .flatten()
    .fold(0, u64::saturating_add)
}

/// Whether a sheet prices anything at all.
pub(crate) fn prices_something(rates: &Rates) -> bool {
    named(rates).iter().any(|(_, rate)| rate.is_some())
}

/// Every rate with its name.
pub(crate) fn named(rates: &Rates) -> [(&'static str, Option<i64>); 11] {
    [
        ("input", rates.input),
        ("cached_input", rates.cached_input),
        ("cache_write_5m", rates.cache_write_5m),
        ("cache_write_1h", rates.cache_write_1h),
        ("output", rates.output),
        ("reasoning", rates.reasoning),
        ("per_request", rates.per_request),
        ("per_image", rates.per_image),
        ("per_second", rates.per_second),
        ("audio_input", rates.audio_input),
        ("audio_output", rates.audio_output),
    ]
}

fn given(tokens: Option<u64>) -> u64 {
    tokens.unwrap_or(0)
}

/// Splits a subset off, if it has a rate of its own. A report whose part exceeds its whole is charged for the whole once.
fn apart(whole: Option<u64>, part: Option<u64>, rate: Option<i64>) -> (u64, u64) {
    let whole = given(whole);
    if rate.is_none() {
        return (whole, 0);
    }
    let part = given(part).min(whole);
    (whole - part, part)
}

fn line(quantity: u64, rate: i64, per: i128, factors: Factors) -> Result<i128, Overflow> {
    let scaled = i128::from(quantity)
        .checked_mul(i128::from(rate))
        .and_then(|amount| amount.checked_mul(i128::from(factors.group.0)))
        .and_then(|amount| amount.checked_mul(i128::from(factors.user.0)))
        .ok_or(Overflow)?;
    Ok(divide_half_even(scaled, per * FACTORS))
}

/// `divisor` is positive.
fn divide_half_even(amount: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (amount.div_euclid(divisor), amount.rem_euclid(divisor));
    let up = match rest.cmp(&(divisor - rest)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => quotient.rem_euclid(2) == 1,
    };
    quotient + i128::from(up)
}

#[cfg(test)]
#[path = "rating_tests.rs"]
mod tests;
