//! Small values with a notation of their own: references to secrets, address ranges, dates, ranges of numbers.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use time::{Date as CalendarDate, Month, OffsetDateTime, Time};

use crate::amount::text_scalar;
use crate::decode::{Decode, Scalar, Unreadable};
use crate::diagnostic::{Path, Problems};
use crate::notation::{decode_scalar, deserialize, serde_text};
use crate::tree::Node;

/// Where a secret is found. The catalogue never holds one itself (ROUTE-7).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SecretRef {
    /// `env:NAME`: an environment variable of the process that reads the catalogue file.
    Env(String),
    /// `file:PATH`: a file's content, its trailing line end taken off.
    File(String),
    /// `none`: no secret is needed.
    None,
}

impl Scalar for SecretRef {
    const FALLBACK: Self = Self::None;
    const KIND: &'static str = "`env:NAME`, `file:PATH` or `none`";
    const SECRET: bool = true;
    fn read(text: &str) -> Result<Self, Unreadable> {
        if text == "none" {
            return Ok(Self::None);
        }
        if let Some(name) = text.strip_prefix("env:") {
            let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            return if valid {
                Ok(Self::Env(name.to_owned()))
            } else {
                Err(Unreadable::with_fix(
                    "what follows `env:` is not the name of an environment variable",
                    "write `env:NAME` with letters, digits and `_`",
                ))
            };
        }
        if let Some(path) = text.strip_prefix("file:") {
            return if path.is_empty() || path.contains('\0') {
                Err(Unreadable::with_fix(
                    "no path follows `file:`",
                    "write `file:PATH`",
                ))
            } else {
                Ok(Self::File(path.to_owned()))
            };
        }
        Err(Unreadable::with_fix(
            "a secret stands here only by reference",
            "put it into an environment variable or a file and write `env:NAME` or `file:PATH` (or `none`)",
        ))
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
            Self::None => f.write_str("none"),
        }
    }
}

text_scalar!(SecretRef);

/// A range of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr(IpNet);

impl Cidr {
    /// Whether the address lies in the range; an IPv4 address written as IPv6 (`::ffff:…`) counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// The range as the ipnet crate has it.
    pub const fn net(&self) -> IpNet {
        self.0
    }
}

impl Scalar for Cidr {
    const FALLBACK: Self = Self(IpNet::V4(ipnet::Ipv4Net::new_assert(
        std::net::Ipv4Addr::UNSPECIFIED,
        0,
    )));
    const KIND: &'static str = "an address range such as `10.0.0.0/8`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(IpNet::from(address)));
        }
        let net: IpNet = text
            .parse()
            .map_err(|_| Unreadable::new("is not an address range"))?;
        if net != net.trunc() {
            return Err(Unreadable::with_fix(
                "has bits set behind its prefix",
                format!("did you mean `{}`?", net.trunc()),
            ));
        }
        Ok(Self(net))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_scalar!(Cidr);

/// A calendar day, `2027-12-31`, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(CalendarDate);

impl Date {
    /// The first moment of the day: what is valid `from` it begins then.
    pub const fn start(self) -> OffsetDateTime {
        OffsetDateTime::new_utc(self.0, Time::MIDNIGHT)
    }

    /// The first moment after the day: what `expires` on it is valid until then, the day included.
    pub fn end(self) -> OffsetDateTime {
        self.start().saturating_add(time::Duration::DAY)
    }
}

impl Scalar for Date {
    const FALLBACK: Self = Self(CalendarDate::MIN);
    const KIND: &'static str = "a date such as `2027-12-31`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        let wrong = || Unreadable::new("is not a date");
        let shape = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| {
                if at == 4 || at == 7 {
                    byte == b'-'
                } else {
                    byte.is_ascii_digit()
                }
            });
        if !shape {
            return Err(wrong());
        }
        let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or("");
        let year: i32 = part(0..4).parse().map_err(|_| wrong())?;
        let month: u8 = part(5..7).parse().map_err(|_| wrong())?;
        let day: u8 = part(8..10).parse().map_err(|_| wrong())?;
        Month::try_from(month)
            .and_then(|month| CalendarDate::from_calendar_date(year, month, day))
            .map(Self)
            .map_err(|_| Unreadable::new("is no day of the calendar"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02}",
            self.0.year(),
            u8::from(self.0.month()),
            self.0.day()
        )
    }
}

text_scalar!(Date);

/// A range of numbers, `[0, 2]`: what a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(into = "[f64; 2]")]
pub struct Range {
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

impl From<Range> for [f64; 2] {
    fn from(range: Range) -> Self {
        [range.low, range.high]
    }
}

impl Decode for Range {
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self {
        match Vec::<f64>::decode(node, at, problems).as_slice() {
            &[low, high] if low < high => Self { low, high },
            _ => {
                problems.report_at(
                    node.mark,
                    at,
                    "expected a range of two numbers, the lower first",
                    "write `[0, 2]`",
                );
                Self::fallback()
            }
        }
    }
    fn fallback() -> Self {
        Self {
            low: 0.0,
            high: 1.0,
        }
    }
    fn kind() -> String {
        "range such as `[0, 2]`".to_owned()
    }
}

deserialize!(Range);
