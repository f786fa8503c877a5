//! The catalogue language: what is offered, by whom it is served, who may call. Parse, validate, compare; no IO.
//!
//! [`parse`] reads a file's text into a [`Catalogue`] or into all its mistakes, each with line, column and remedy. Fragments of
//! a catalogue travel between services as JSON: every section is `Serialize` and `Deserialize`, without loss, and unknown keys
//! are refused there too. [`diff`] says what a new catalogue changes; [`reference()`] lists every key.
//!
//! Invariants: no input makes it panic; money is integers ([`Amount`] nano-USD, [`Multiplier`] and [`Percent`] millionths);
//! a secret is only ever a reference ([`SecretRef`]), and an error never shows what stands where a secret is expected.
//!
//! It does not resolve secrets, read files, know the stores, or decide where a request goes.

mod accounts;
mod amount;
mod catalogue;
mod decode;
mod diagnostic;
mod dialect;
mod diff;
mod duration;
mod effective;
mod groups;
mod limits;
mod models;
mod names;
mod no_effect;
mod notation;
mod prices;
mod pricing;
mod proxy;
mod reference;
mod scalar;
mod template;
mod tenants;
mod tree;
mod url;
mod validate;

pub use accounts::{
    Account, AccountOauth, AccountStatus, Breaker, BreakerRule, Concurrency, Cooldown,
    CredentialHeader, ErrorMeaning, ErrorRule, FlatCost, Gather, OauthFlow, OauthProvider,
    Parameters, Probe, Provider, Rescale, Transport,
};
pub use amount::{Amount, MAX_AMOUNT, Multiplier, NANOS_PER_USD, Percent};
pub use catalogue::{Catalogue, Parsed, parse};
pub use diagnostic::{Diagnostic, MAX_DIAGNOSTICS};
pub use dialect::{Dialect, Operation};
pub use diff::{Change, ChangeKind, FieldChange, Section, diff};
pub use duration::Duration;
pub use effective::{EffectiveModel, EffectiveTimeouts};
pub use groups::{Billing, Class, Group, Policy, Scheduling, ScoreWeights, Subscription};
pub use limits::{Budget, BudgetWindow, GroupLimits, LimitProfile, Limits, Window};
pub use models::{
    Canary, Capability, CommitAfter, Defaults, Model, ModelStatus, Queue, QueueBound, RollbackRule,
    Target, Timeouts, Unsupported, WarningAction, WarningLine,
};
pub use names::{Match, NameIndex, Resolved, matches, without_date};
pub use prices::{Above, Price, PriceList};
pub use pricing::Priced;
pub use proxy::is_proxy;
pub use reference::{Row, reference};
pub use scalar::{Cidr, Date, Range, SecretRef};
pub use tenants::{Abandoned, App, Hold, Key, Role, Route, Tenant, User, WithoutBilling};
pub use tree::{MAX_BYTES, MAX_DEPTH, MAX_NODES};
pub use url::fill;

/// A small catalogue with comments, to begin with.
pub const SAMPLE: &str = include_str!("../catalogue.sample.yaml");

/// A word that is not in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// The words of the set.
    pub expected: &'static [&'static str],
}

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected one of {}", self.expected.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

/// Text that a value's notation does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableValue {
    /// What should stand there.
    pub expected: &'static str,
}

impl std::fmt::Display for UnreadableValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected {}", self.expected)
    }
}

impl std::error::Error for UnreadableValue {}
