//! What identities are made of.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::key::KeyHash;

/// Millionths that mean ×1.
pub const TIMES_ONE: u64 = 1_000_000;

/// A text that none of an enum's values has: a row that another version wrote.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a known value")]
pub struct UnknownValue(String);

macro_rules! text_enum {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$variant_doc])* $variant),+
        }

        impl $type {
            /// As it is stored and shown.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = UnknownValue;

            fn from_str(text: &str) -> Result<Self, UnknownValue> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(UnknownValue(text.to_owned())),
                }
            }
        }
    };
}

text_enum! {
    /// Whether something may be used.
    Status {
        /// It may.
        Active = "active",
        /// It may not; nothing is deleted.
        Disabled = "disabled",
    }
}
text_enum! {
    /// Where something came from; a file's own are disabled when they leave it (ROUTE-7).
    Origin {
        /// A catalogue.
        File = "file",
        /// A single admin action.
        Admin = "admin",
    }
}
text_enum! {
    /// What a user may do in its tenant.
    UserRole {
        /// Everything.
        Owner = "owner",
        /// Manages users and keys.
        Admin = "admin",
        /// Uses keys.
        Member = "member",
        /// Looks.
        Viewer = "viewer",
    }
}

/// Ceilings; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Requests a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u64>,
    /// Requests a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// Tokens a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// Requests at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Requests that may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
}

impl fmt::Display for Limits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut any = false;
        for (name, value) in [
            ("requests/s", self.requests_per_second),
            ("requests/min", self.requests_per_minute),
            ("tokens/min", self.tokens_per_minute),
            ("at once", self.concurrency),
            ("burst", self.burst),
        ] {
            if let Some(value) = value {
                write!(formatter, "{}{value} {name}", if any { ", " } else { "" })?;
                any = true;
            }
        }
        if any {
            Ok(())
        } else {
            formatter.write_str("none")
        }
    }
}

/// A tenant's choice of accounts for one model (ROUTE-4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// Only these accounts; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pin: Vec<String>,
    /// Not these accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<String>,
    /// Weights in place of those of the accounts' targets; 0 drains.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (verb, accounts) in [("pin", &self.pin), ("forbid", &self.forbid)] {
            if !accounts.is_empty() {
                parts.push(format!("{verb} {}", accounts.join(" ")));
            }
        }
        for (account, weight) in &self.weights {
            parts.push(format!("weight {account} {weight}"));
        }
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        formatter.write_str(&parts.join(", "))
    }
}

/// A customer or a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its id.
    pub name: String,
    /// Whether its callers may call.
    pub status: Status,
    /// It pays ahead.
    pub prepaid: bool,
    /// Holds cover the most that a request may cost.
    pub strict_hold: bool,
    /// Postpaid only: go on when billing cannot be reached.
    pub serve_without_billing: bool,
    /// A caller that left before the first token pays nothing.
    pub abandoned_free: bool,
    /// Content may be logged.
    pub log_content: bool,
    /// Of all its callers together.
    pub limits: Limits,
    /// Its choice of accounts, by model.
    pub routes: BTreeMap<String, Route>,
}

/// A person of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Whose person.
    pub tenant: String,
    /// Its id within the tenant.
    pub email: String,
    /// What it may do there.
    pub role: UserRole,
    /// Price factor, millionths.
    pub multiplier: u64,
    /// Over all of its keys.
    pub limits: Limits,
    /// Whether its keys may call.
    pub status: Status,
}

/// The access side of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub name: String,
    /// Whether its keys may call.
    pub status: Status,
    /// CIDR blocks; empty: any address.
    pub allow_ips: Vec<String>,
    /// Of all its callers together.
    pub limits: Limits,
    /// Of each of its users.
    pub user_limits: Limits,
    /// Price factor, millionths.
    pub multiplier: u64,
}

/// What a key allows; everything but its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTerms {
    /// Whose key.
    pub tenant: String,
    /// Unique in the tenant.
    pub name: String,
    /// Which product it opens.
    pub group: String,
    /// The user that it acts for; empty: none.
    pub user: String,
    /// Canonical names or patterns; empty: all of the group's.
    pub models: Vec<String>,
    /// Unix milliseconds; `None`: never.
    pub expires_at_ms: Option<i64>,
    /// Of this key alone.
    pub limits: Limits,
    /// CIDR blocks; empty: any address.
    pub allow_ips: Vec<String>,
    /// Refuse parameters that an upstream does not know, instead of dropping them.
    pub reject_unsupported: bool,
    /// For reports.
    pub cost_center: String,
    /// For reports.
    pub tags: BTreeMap<String, String>,
    /// Whether it may be used.
    pub status: Status,
}

/// The hashed side of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySecret {
    /// What is looked up.
    pub hash: KeyHash,
    /// First characters, for people.
    pub prefix: String,
}

/// A key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// UUIDv7.
    pub id: String,
    /// What it allows.
    pub terms: KeyTerms,
    /// Its hash.
    pub secret: KeySecret,
    /// The hash that a rotation replaced, and until when it is good (Unix milliseconds).
    pub previous: Option<(KeyHash, i64)>,
    /// Where it came from.
    pub origin: Origin,
    /// Who disabled it: a file cannot re-enable what an admin disabled. `None`: it is active.
    pub disabled_by: Option<Origin>,
    /// Unix milliseconds.
    pub created_at_ms: i64,
}

/// A caller as one reading found it: the key that was presented, and all that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The key's id.
    pub key_id: String,
    /// The stored hash that matched.
    pub hash: KeyHash,
    /// What the key allows. `expires_at_ms` is already the earlier of its own and of a replaced secret's end.
    pub terms: KeyTerms,
    /// Whose key.
    pub tenant: Tenant,
    /// `None`: the key belongs to no user.
    pub user: Option<User>,
    /// Which product.
    pub group: Group,
}
