//! Budgets: a ceiling in money or tokens for calendar windows, on a tenant, a user, a key or a group.

use std::collections::HashMap;

use switchboard_proto::billing::v1::Party;

use super::window::Span;

/// Whose spending a budget bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SubjectKind {
    Tenant,
    User,
    Key,
    Group,
}

impl SubjectKind {
    pub(crate) const ALL: [Self; 4] = [Self::Tenant, Self::User, Self::Key, Self::Group];

    /// As protos and tables write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Key => "key",
            Self::Group => "group",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Who owns budgets: a tenant those of itself, its users and its keys; a group its own, over all tenants.
pub(crate) fn tenant_owner(tenant: &str) -> String {
    format!("tenant:{tenant}")
}

pub(crate) fn group_owner(group: &str) -> String {
    format!("group:{group}")
}

/// One active budget. At least one of the ceilings is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) kind: SubjectKind,
    /// Empty for the tenant itself.
    pub(crate) subject: String,
    pub(crate) span: Span,
    pub(crate) amount_nanos: Option<i64>,
    pub(crate) tokens: Option<i64>,
    /// Windows that start earlier were not counted whole and are left alone.
    pub(crate) since_ms: i64,
}

/// All active budgets of one owner, found by subject: the cost of a request does not grow with their number (PERF-4).
#[derive(Clone, Debug, Default)]
pub(crate) struct Budgets {
    by_subject: HashMap<SubjectKind, HashMap<String, Vec<Budget>>>,
}

impl Budgets {
    pub(crate) fn new(budgets: impl IntoIterator<Item = Budget>) -> Self {
        let mut by_subject: HashMap<SubjectKind, HashMap<String, Vec<Budget>>> = HashMap::new();
        for budget in budgets {
            by_subject
                .entry(budget.kind)
                .or_default()
                .entry(budget.subject.clone())
                .or_default()
                .push(budget);
        }
        Self { by_subject }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_subject.is_empty()
    }

    /// The budgets that bound a request of this party.
    pub(crate) fn of<'a>(&'a self, party: &'a Party) -> impl Iterator<Item = &'a Budget> {
        SubjectKind::ALL.into_iter().flat_map(move |kind| {
            let subject = match kind {
                SubjectKind::Tenant => "",
                SubjectKind::User => &party.user,
                SubjectKind::Key => &party.key_name,
                SubjectKind::Group => &party.group,
            };
            self.by_subject
                .get(&kind)
                .and_then(|subjects| subjects.get(subject))
                .into_iter()
                .flatten()
        })
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Budget> {
        self.by_subject.values().flat_map(HashMap::values).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_meets_the_budgets_of_its_own_subjects() {
        let budget = |kind, subject: &str| Budget {
            kind,
            subject: subject.to_owned(),
            span: Span::Day,
            amount_nanos: Some(1),
            tokens: None,
            since_ms: 0,
        };
        let budgets = Budgets::new([
            budget(SubjectKind::Tenant, ""),
            budget(SubjectKind::User, "a@x"),
            budget(SubjectKind::User, "b@x"),
            budget(SubjectKind::Key, "ci"),
            budget(SubjectKind::Group, "default"),
        ]);
        let party = Party {
            user: "b@x".to_owned(),
            key_name: "ci".to_owned(),
            group: "other".to_owned(),
            ..Party::default()
        };
        let met: Vec<_> = budgets
            .of(&party)
            .map(|budget| (budget.kind.name(), budget.subject.as_str()))
            .collect();
        assert_eq!(met, [("tenant", ""), ("user", "b@x"), ("key", "ci")]);
    }
}
