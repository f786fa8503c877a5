//! Money, factors and percentages: integers read exactly from decimal text (BILL-1).
//!
//! No floating point number is involved anywhere. Text with more digits than the unit holds is an error, never rounded.

use std::fmt;

use crate::decode::{Scalar, Unreadable};
use crate::notation::{decode_scalar, serde_text};

/// Nano-USD in one USD.
pub const NANOS_PER_USD: i64 = 1_000_000_000;
/// The largest amount the language takes: a thousand million USD.
pub const MAX_AMOUNT: Amount = Amount(1_000_000_000 * NANOS_PER_USD);

/// An amount of money in nano-USD (1e-9 USD), 0 to [`MAX_AMOUNT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Amount(i64);

/// A factor in integer millionths, 0 to 1,000,000 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Multiplier(i64);

/// A percentage as a fraction in integer millionths: 5% is 50,000. 0% to 100%.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percent(i64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount of that many nano-USD.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The amount in nano-USD.
    pub const fn nanos(self) -> i64 {
        self.0
    }
}

impl Multiplier {
    /// Times one.
    pub const ONE: Self = Self(1_000_000);

    /// A factor of that many millionths.
    pub const fn from_millionths(millionths: i64) -> Self {
        Self(millionths)
    }

    /// The factor in millionths.
    pub const fn millionths(self) -> i64 {
        self.0
    }
}

impl Percent {
    /// A fraction of that many millionths: 50,000 is 5%.
    pub const fn from_millionths(millionths: i64) -> Self {
        Self(millionths)
    }

    /// The fraction in millionths: 5% is 50,000.
    pub const fn millionths(self) -> i64 {
        self.0
    }
}

/// Reads `12.50` as an integer of units of 10^-places.
fn decimal(text: &str, places: usize) -> Result<i64, Unreadable> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || fraction.is_some_and(|fraction| !digits(fraction)) {
        return Err(Unreadable::new("is not a decimal number"));
    }
    let fraction = fraction.unwrap_or("").trim_end_matches('0');
    if fraction.len() > places {
        return Err(Unreadable::with_fix(
            format!("has {} digits after the point", fraction.len()),
            format!("write at most {places}"),
        ));
    }
    let scaled = format!("{whole}{fraction:0<places$}");
    scaled.parse().map_err(|_| Unreadable::new("is too large"))
}

/// Writes an integer of units of 10^-places with as few digits as it needs.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: i64, places: u32) -> fmt::Result {
    let unit = 10_u64.pow(places);
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    let fraction = format!("{:0width$}", magnitude % unit, width = places as usize);
    match fraction.trim_end_matches('0') {
        "" => write!(f, "{sign}{}", magnitude / unit),
        fraction => write!(f, "{sign}{}.{fraction}", magnitude / unit),
    }
}

impl Scalar for Amount {
    const FALLBACK: Self = Self::ZERO;
    const KIND: &'static str = "an amount in USD such as `2.50`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        let nanos = decimal(text, 9)?;
        if nanos > MAX_AMOUNT.0 {
            return Err(Unreadable::with_fix(
                "is too large",
                "write at most 1000000000",
            ));
        }
        Ok(Self(nanos))
    }
}

impl Scalar for Multiplier {
    const FALLBACK: Self = Self::ONE;
    const KIND: &'static str = "a factor such as `1.2`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        let millionths = decimal(text.strip_suffix('x').unwrap_or(text), 6)?;
        if millionths > 1_000_000_000_000 {
            return Err(Unreadable::with_fix(
                "is too large",
                "write at most 1000000",
            ));
        }
        Ok(Self(millionths))
    }
}

impl Scalar for Percent {
    const FALLBACK: Self = Self(0);
    const KIND: &'static str = "a percentage such as `5%`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        let Some(number) = text.strip_suffix('%') else {
            return Err(Unreadable::new("is not a percentage"));
        };
        let millionths = decimal(number, 4)?;
        if millionths > 1_000_000 {
            return Err(Unreadable::with_fix(
                "is more than everything",
                "write at most `100%`",
            ));
        }
        Ok(Self(millionths))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 9)
    }
}

impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 6)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 4)?;
        f.write_str("%")
    }
}

macro_rules! text_scalar {
    ($($ty:ty),*) => { $(
        decode_scalar!($ty);
        serde_text!($ty);
        impl std::str::FromStr for $ty {
            type Err = crate::UnreadableValue;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <$ty as Scalar>::read(text).map_err(|_| crate::UnreadableValue { expected: <$ty as Scalar>::KIND })
            }
        }
    )* };
}
pub(crate) use text_scalar;

text_scalar!(Amount, Multiplier, Percent);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_round_trip() {
        for (text, nanos, back) in [
            ("2.50", 2_500_000_000, "2.5"),
            ("0.1", 100_000_000, "0.1"),
            ("0.000000001", 1, "0.000000001"),
            ("0", 0, "0"),
            ("1000000000", 1_000_000_000_000_000_000, "1000000000"),
            ("3.1250000000000", 3_125_000_000, "3.125"),
        ] {
            let amount: Amount = text.parse().unwrap();
            assert_eq!((amount.nanos(), amount.to_string().as_str()), (nanos, back));
        }
        for text in [
            "",
            "-1",
            "+1",
            "1e3",
            ".5",
            "5.",
            "1_000",
            "0.0000000001",
            "1000000001",
            "99999999999999999999",
            "$5",
            "1,5",
        ] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }

    #[test]
    fn factors_and_percentages_are_millionths() {
        assert_eq!("1.2".parse::<Multiplier>().unwrap().millionths(), 1_200_000);
        assert_eq!("1.5x".parse::<Multiplier>().unwrap().to_string(), "1.5");
        assert!("1.0000001".parse::<Multiplier>().is_err());
        assert_eq!("5%".parse::<Percent>().unwrap().millionths(), 50_000);
        assert_eq!("0.0001%".parse::<Percent>().unwrap().millionths(), 1);
        assert_eq!("100%".parse::<Percent>().unwrap().to_string(), "100%");
        for text in ["5", "101%", "%", "0.00001%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
