//! Ids as types. Tenants, users, groups, accounts and models are known by their names; requests and keys by UUIDv7.
//!
//! Names are cheap to clone (shared text). Two ids of different kinds never mix in one signature.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use rand::Rng;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a {1}")]
pub struct ParseError(String, &'static str);

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, shared: no copy.
            #[must_use]
            pub fn shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }

            /// Whether nobody is meant: the wire's empty text.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $type {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $type {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// A customer or a team.
    TenantName
}
name! {
    /// A user's e-mail address, within a tenant.
    UserName
}
name! {
    /// A key's id: a UUIDv7 as text.
    KeyId
}
name! {
    /// A key's name, within a tenant.
    KeyName
}
name! {
    /// A product sold to callers.
    GroupName
}
name! {
    /// One upstream identity.
    AccountName
}
name! {
    /// A public model's name, or an upstream's own.
    ModelName
}

/// Switchboard's own id of a request: the only key of lease, hold, settlement and usage row (OBS-4). Its first 48 bits are
/// the arrival in Unix milliseconds, which decides the budget windows and the day of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(Uuid);

impl RequestId {
    /// A new id for a request that arrived at `now_ms` (Unix milliseconds).
    #[must_use]
    pub fn new(now_ms: i64, random: &mut impl Rng) -> Self {
        let mut bytes = [0_u8; 10];
        random.fill_bytes(&mut bytes);
        let millis = u64::try_from(now_ms).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
    }

    /// A new id from the process's random source.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "ids are made here and nowhere else"
    )]
    pub fn generate(now_ms: i64) -> Self {
        Self::new(now_ms, &mut rand::rng())
    }

    /// Arrival, Unix milliseconds; 0 when the id bears none.
    #[must_use]
    pub fn unix_ms(&self) -> i64 {
        self.0.get_timestamp().map_or(0, |stamp| {
            let (secs, nanos) = stamp.to_unix();
            i64::try_from(secs).unwrap_or(0) * 1_000 + i64::from(nanos / 1_000_000)
        })
    }

    /// The id's 16 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The UUID itself.
    #[must_use]
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for RequestId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for RequestId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Uuid::parse_str(text)
            .map(Self)
            .map_err(|_| ParseError(text.chars().take(64).collect(), "request id (UUID)"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl KeyId {
    /// A new key's id.
    #[must_use]
    pub fn generate(now_ms: i64) -> Self {
        Self::from(RequestId::generate(now_ms).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_a_uuid_v7_that_tells_its_arrival() {
        let id = RequestId::generate(1_796_000_000_123);
        assert_eq!(id.unix_ms(), 1_796_000_000_123);
        assert_eq!(id.as_uuid().get_version_num(), 7);
        assert_eq!(id.to_string().parse::<RequestId>(), Ok(id));
        assert_ne!(RequestId::generate(1), RequestId::generate(1));
    }

    #[test]
    fn a_text_that_is_no_uuid_is_refused() {
        assert!("' OR 1=1--".parse::<RequestId>().is_err());
    }
}
