//! One line for people on what an `apply` does. Never a secret.

use std::{
    collections::BTreeSet,
    fmt::{Display, Write as _},
};

use crate::domain::identity::{Group, KeyTerms, Route, Tenant, User};

/// One planned or committed difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `group`, `tenant`, `user`, `key`.
    pub section: &'static str,
    /// The thing's name; a tenant's things as tenant/name.
    pub name: String,
    /// What happens to it.
    pub kind: Kind,
}

/// What happens to a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is new.
    Add,
    /// It differs: changed fields, old → new.
    Change(String),
    /// It left the file.
    Disable,
}

impl Difference {
    /// Something happens to `name`.
    #[must_use]
    pub fn new(section: &'static str, name: &str, kind: Kind) -> Self {
        Self {
            section,
            name: name.to_owned(),
            kind,
        }
    }

    /// `add`, `change`, `disable`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self.kind {
            Kind::Add => "add",
            Kind::Change(_) => "change",
            Kind::Disable => "disable",
        }
    }

    /// The changed fields.
    #[must_use]
    pub fn detail(&self) -> &str {
        match &self.kind {
            Kind::Add => "",
            Kind::Change(fields) => fields,
            Kind::Disable => "it left the file",
        }
    }
}

/// Gathers changed fields into one line.
#[derive(Debug, Default)]
pub(super) struct Fields(String);

impl Fields {
    pub(super) fn compare<T: PartialEq + Display>(
        &mut self,
        name: &str,
        old: &T,
        new: &T,
    ) -> &mut Self {
        if old != new {
            self.say(format_args!("{name}: {old} → {new}"));
        }
        self
    }

    fn texts(&mut self, name: &str, old: &str, new: &str) -> &mut Self {
        let shown = |text: &str| {
            if text.is_empty() {
                "none".to_owned()
            } else {
                format!("`{text}`")
            }
        };
        self.compare(name, &shown(old), &shown(new))
    }

    fn lists(&mut self, name: &str, old: &[String], new: &[String]) -> &mut Self {
        let shown = |list: &[String]| {
            if list.is_empty() {
                "any".to_owned()
            } else {
                list.join(" ")
            }
        };
        self.compare(name, &shown(old), &shown(new))
    }

    pub(super) fn say(&mut self, what: impl Display) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push_str("; ");
        }
        // Writing into a `String` cannot fail.
        let _ = write!(self.0, "{what}");
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

pub(super) fn group(old: &Group, new: &Group) -> String {
    let mut fields = Fields::default();
    fields
        .compare("status", &old.status, &new.status)
        .lists("allow_ips", &old.allow_ips, &new.allow_ips)
        .compare("limits", &old.limits, &new.limits)
        .compare("limits.per_user", &old.user_limits, &new.user_limits)
        .compare("multiplier", &Times(old.multiplier), &Times(new.multiplier));
    fields.finish()
}

pub(super) fn tenant(old: &Tenant, new: &Tenant) -> String {
    let mut fields = Fields::default();
    fields
        .compare("status", &old.status, &new.status)
        .compare("prepaid", &old.prepaid, &new.prepaid)
        .compare("strict hold", &old.strict_hold, &new.strict_hold)
        .compare(
            "serve without billing",
            &old.serve_without_billing,
            &new.serve_without_billing,
        )
        .compare("abandoned free", &old.abandoned_free, &new.abandoned_free)
        .compare("log_content", &old.log_content, &new.log_content)
        .compare("limits", &old.limits, &new.limits);
    let models: BTreeSet<&String> = old.routes.keys().chain(new.routes.keys()).collect();
    let none = Route::default();
    for model in models {
        let of = |tenant: &Tenant| tenant.routes.get(model).unwrap_or(&none).to_string();
        fields.compare(&format!("routes.{model}"), &of(old), &of(new));
    }
    fields.finish()
}

pub(super) fn user(old: &User, new: &User) -> String {
    let mut fields = Fields::default();
    fields
        .compare("status", &old.status, &new.status)
        .compare("role", &old.role, &new.role)
        .compare("multiplier", &Times(old.multiplier), &Times(new.multiplier))
        .compare("limits", &old.limits, &new.limits);
    fields.finish()
}

pub(super) fn key(fields: &mut Fields, old: &KeyTerms, new: &KeyTerms) {
    let expiry = |at: Option<i64>| at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    fields
        .compare("status", &old.status, &new.status)
        .texts("group", &old.group, &new.group)
        .texts("user", &old.user, &new.user)
        .lists("models", &old.models, &new.models)
        .compare(
            "expires_at_ms",
            &expiry(old.expires_at_ms),
            &expiry(new.expires_at_ms),
        )
        .compare("limits", &old.limits, &new.limits)
        .lists("allow_ips", &old.allow_ips, &new.allow_ips)
        .compare(
            "reject unsupported",
            &old.reject_unsupported,
            &new.reject_unsupported,
        )
        .texts("cost_center", &old.cost_center, &new.cost_center);
    if old.tags != new.tags {
        fields.say("tags");
    }
}

/// Millionths as people write them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Times(u64);

impl Display for Times {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fraction = format!("{:06}", self.0 % 1_000_000);
        let fraction = fraction.trim_end_matches('0');
        write!(formatter, "×{}", self.0 / 1_000_000)?;
        if fraction.is_empty() {
            Ok(())
        } else {
            write!(formatter, ".{fraction}")
        }
    }
}
