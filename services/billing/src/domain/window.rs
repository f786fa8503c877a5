//! Calendar windows in UTC: which one an instant belongs to, and when it ends.

use time::{Date, Month, OffsetDateTime};

pub(crate) const HOUR_MS: i64 = 3_600_000;
pub(crate) const DAY_MS: i64 = 86_400_000;

/// How long a budget's window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Span {
    Hour,
    Day,
    Month,
}

/// One window, half open: `starts_ms` belongs to it, `ends_ms` to the next. Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Window {
    pub(crate) starts_ms: i64,
    pub(crate) ends_ms: i64,
}

impl Span {
    pub(crate) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    /// As the catalogue writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The span of that name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.name() == text)
    }

    /// The window in which `at_ms` lies.
    pub(crate) fn window(self, at_ms: i64) -> Window {
        match self {
            Self::Hour => fixed(at_ms, HOUR_MS),
            Self::Day => fixed(at_ms, DAY_MS),
            Self::Month => month(at_ms),
        }
    }
}

/// Days since the Unix epoch.
pub(crate) fn day(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

fn fixed(at_ms: i64, length: i64) -> Window {
    let starts_ms = at_ms.div_euclid(length) * length;
    Window {
        starts_ms,
        ends_ms: starts_ms + length,
    }
}

/// An instant that the calendar does not reach (a forged id) is in a window of its own day.
fn month(at_ms: i64) -> Window {
    let bounds = OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1_000))
        .ok()
        .and_then(|at| {
            let (year, month) = (at.year(), at.month());
            let next_year = if month == Month::December {
                year + 1
            } else {
                year
            };
            Some((first_of(year, month)?, first_of(next_year, month.next())?))
        });
    bounds.map_or_else(
        || fixed(at_ms, DAY_MS),
        |(starts_ms, ends_ms)| Window { starts_ms, ends_ms },
    )
}

fn first_of(year: i32, month: Month) -> Option<i64> {
    let date = Date::from_calendar_date(year, month, 1).ok()?;
    Some(date.midnight().assume_utc().unix_timestamp() * 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    fn ms(at: OffsetDateTime) -> i64 {
        at.unix_timestamp() * 1_000
    }

    #[test]
    fn windows_are_calendar_hours_days_and_months() {
        let at = ms(datetime!(2028-02-29 13:37 UTC)) + 5;
        assert_eq!(
            Span::ALL.map(|span| span.window(at)),
            [
                (
                    datetime!(2028-02-29 13:00 UTC),
                    datetime!(2028-02-29 14:00 UTC)
                ),
                (
                    datetime!(2028-02-29 0:00 UTC),
                    datetime!(2028-03-01 0:00 UTC)
                ),
                (
                    datetime!(2028-02-01 0:00 UTC),
                    datetime!(2028-03-01 0:00 UTC)
                ),
            ]
            .map(|(starts, ends)| Window {
                starts_ms: ms(starts),
                ends_ms: ms(ends)
            })
        );
        let december = Span::Month.window(ms(datetime!(2026-12-31 23:59:59 UTC)));
        assert_eq!(december.ends_ms, ms(datetime!(2027-01-01 0:00 UTC)));
        assert_eq!(Span::parse("month"), Some(Span::Month));
        assert_eq!(Span::parse("week"), None);
    }

    proptest! {
        #[test]
        fn every_instant_lies_in_one_window_and_windows_touch(at in 0_i64..250_000_000_000_000, which in 0_usize..3) {
            let span = Span::ALL[which];
            let window = span.window(at);
            prop_assert!(window.starts_ms <= at && at < window.ends_ms);
            prop_assert_eq!(span.window(window.starts_ms), window);
            prop_assert_eq!(span.window(window.ends_ms).starts_ms, window.ends_ms);
        }

        #[test]
        fn no_instant_panics(at: i64) {
            // Ids carry 48 bits of milliseconds.
            let at = at & 0xFFFF_FFFF_FFFF;
            for span in Span::ALL {
                span.window(at);
            }
        }
    }
}
