//! Amounts: integers of nano-USD (BILL-1). Multipliers: integer millionths. No floating point anywhere.

use std::{
    fmt,
    ops::{Add, AddAssign, Neg, Sub, SubAssign},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

const NANOS_PER_USD: u64 = 1_000_000_000;

/// An amount of money, 1e-9 USD. Arithmetic saturates: ±9.2 thousand million USD is beyond every balance, and a wrong sum
/// that wraps would be worse than one that stops.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NanoUsd(pub i64);

impl NanoUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
}

impl Add for NanoUsd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for NanoUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for NanoUsd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for NanoUsd {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for NanoUsd {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl std::iter::Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// USD with exactly as many decimals as are needed.
impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (
            self.0.unsigned_abs() / NANOS_PER_USD,
            self.0.unsigned_abs() % NANOS_PER_USD,
        );
        let sign = if self.0 < 0 { "-" } else { "" };
        if part == 0 {
            return write!(f, "{sign}{whole}");
        }
        let decimals = format!("{part:09}");
        write!(f, "{sign}{whole}.{}", decimals.trim_end_matches('0'))
    }
}

/// Why a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not digits with an optional sign and point.
    #[error("expected an amount in USD such as `12.50`, got `{0}`")]
    Malformed(String),
    /// More than 9 decimals.
    #[error("`{0}` has more than 9 decimals; a nano-USD is the smallest amount")]
    TooFine(String),
    /// Beyond ±9.2 thousand million USD.
    #[error("`{0}` is beyond 9223372036 USD")]
    TooLarge(String),
}

/// Reads USD exactly: optional sign, digits, optional point with up to 9 decimals.
impl FromStr for NanoUsd {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let shown = || text.chars().take(40).collect::<String>();
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1_i128, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty()
            || (digits.contains('.') && part.is_empty())
            || !is_number(whole)
            || !is_number(part)
        {
            return Err(ParseError::Malformed(shown()));
        }
        if part.len() > 9 {
            return Err(ParseError::TooFine(shown()));
        }
        if whole.len() > 12 {
            return Err(ParseError::TooLarge(shown()));
        }
        let nanos = format!("{whole}{part:0<9}")
            .parse::<i128>()
            .map_err(|_| ParseError::Malformed(shown()))?;
        i64::try_from(sign * nanos)
            .map(Self)
            .map_err(|_| ParseError::TooLarge(shown()))
    }
}

/// A factor in millionths: 1_000_000 is ×1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Multiplier(pub u64);

impl Multiplier {
    /// ×1.
    pub const ONE: Self = Self(1_000_000);
}

impl Default for Multiplier {
    fn default() -> Self {
        Self::ONE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_exactly() {
        assert_eq!("0.1".parse(), Ok(NanoUsd(100_000_000)));
        assert_eq!("-2.5".parse(), Ok(NanoUsd(-2_500_000_000)));
        assert_eq!("0.054399".parse(), Ok(NanoUsd(54_399_000)));
        assert_eq!("9223372036.854775807".parse(), Ok(NanoUsd(i64::MAX)));
        assert_eq!(NanoUsd(54_399_000).to_string(), "0.054399");
        for wrong in [
            "",
            ".",
            "1.",
            ".5",
            "1e3",
            "1,5",
            "0x1",
            "1.0000000001",
            "9223372036.9",
        ] {
            assert!(wrong.parse::<NanoUsd>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(nanos: i64) {
            prop_assert_eq!(NanoUsd(nanos).to_string().parse(), Ok(NanoUsd(nanos)));
        }
    }
}
