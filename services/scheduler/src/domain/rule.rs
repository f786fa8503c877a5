//! A tenant's own choice of accounts for a model (ROUTE-4): it may pin, forbid and re-weight them.
//!
//! A rule narrows and weighs what the catalogue offers; it never adds a target. Its weight stands in place of the target's, so
//! that it also opens a target of weight 0: one that is kept for the tenants that name it.

use switchboard_common::ids::AccountName;
use switchboard_proto::common::v1::TargetRule;

/// A tenant's rule for a model, or that there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule<'a>(Option<&'a TargetRule>);

/// What a rule says of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may serve.
    Fits,
    /// Others are pinned.
    Elsewhere,
    /// It is forbidden.
    Forbidden,
}

impl<'a> Rule<'a> {
    /// As a request brings it; one that says nothing is none.
    #[must_use]
    pub fn of(rule: Option<&'a TargetRule>) -> Self {
        Self(rule.filter(|rule| {
            !(rule.pin.is_empty() && rule.forbid.is_empty() && rule.weights.is_empty())
        }))
    }

    /// Whether the tenant has a say at all.
    #[must_use]
    pub fn any(self) -> bool {
        self.0.is_some()
    }

    /// Whether an account may serve.
    #[must_use]
    pub fn verdict(self, account: &AccountName) -> Verdict {
        let has = |list: &[String]| list.iter().any(|name| name == account.as_str());
        match self.0 {
            Some(rule) if has(&rule.forbid) => Verdict::Forbidden,
            Some(rule) if !rule.pin.is_empty() && !has(&rule.pin) => Verdict::Elsewhere,
            _ => Verdict::Fits,
        }
    }

    /// Whether an account is pinned by name.
    #[must_use]
    pub fn pins(self, account: &AccountName) -> bool {
        self.0
            .is_some_and(|rule| rule.pin.iter().any(|name| name == account.as_str()))
    }

    /// The weight that stands in place of an account's own.
    #[must_use]
    pub fn weight(self, account: &AccountName) -> Option<u32> {
        self.0?.weights.get(account.as_str()).copied()
    }
}
