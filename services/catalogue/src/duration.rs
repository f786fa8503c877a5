//! Durations as people write them: `250ms`, `5s`, `15m`, `5h`, `7d`, a bare `0`.

use std::fmt;

use crate::amount::text_scalar;
use crate::decode::{Scalar, Unreadable};
use crate::notation::{decode_scalar, serde_text};

/// A duration in whole milliseconds, at most 3,650 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(u64);

const DAY: u64 = 86_400_000;
const MAX: u64 = 3650 * DAY;
const UNITS: [(&str, u64); 5] = [
    ("d", DAY),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// That many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// That many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// The duration in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The duration as the standard library has it.
    pub const fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        duration.as_std()
    }
}

impl Scalar for Duration {
    const FALLBACK: Self = Self::ZERO;
    const KIND: &'static str = "a duration such as `30s`, `15m`, `5h` or `7d`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        if text == "0" {
            return Ok(Self::ZERO);
        }
        let end = text
            .bytes()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if number.is_empty() {
            return Err(Unreadable::new("is not a duration"));
        }
        if unit.is_empty() {
            let fix =
                format!("write the unit: `{number}s`, `{number}m`, `{number}h` or `{number}d`");
            return Err(Unreadable::with_fix("has no unit", fix));
        }
        let Some((_, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(Unreadable::new("is not a duration"));
        };
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*millis))
            .filter(|millis| *millis <= MAX)
            .map(Self)
            .ok_or_else(|| Unreadable::with_fix("is too long", "write at most `3650d`"))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        match UNITS
            .iter()
            .find(|(_, millis)| self.0.is_multiple_of(*millis))
        {
            Some((name, millis)) => write!(f, "{}{name}", self.0 / millis),
            None => write!(f, "{}ms", self.0),
        }
    }
}

text_scalar!(Duration);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_units() {
        for (text, millis, back) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("250ms", 250, "250ms"),
            ("5s", 5000, "5s"),
            ("60s", 60_000, "1m"),
            ("15m", 900_000, "15m"),
            ("5h", 18_000_000, "5h"),
            ("7d", 604_800_000, "7d"),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(
                (duration.as_millis(), duration.to_string().as_str()),
                (millis, back)
            );
        }
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5 s",
            "5w",
            "99999999999999999999d",
            "3651d",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }
}
