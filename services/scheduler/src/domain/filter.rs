//! Which targets may serve a request (SCHED-2): one named test each, all of them asked, so that every choice can be explained.
//!
//! The model's own state is no filter here: a request for a model that is not active never gets this far.

use switchboard_common::ids::AccountName;
use switchboard_proto::common::v1::{Dialect, Endpoint};

use super::choice::rest;
use super::rule::{Rule, Verdict};
use super::supply::{
    AccountStatus, Capabilities, Group, Model, Target, operation, upstream_dialect,
};

/// A test, in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Filter {
    /// The caller's group may use the account.
    Group = 0,
    /// The caller's tenant has not excluded the account.
    Tenant = 1,
    /// The model has what the request needs.
    Capability = 2,
    /// The account can be asked for the caller's dialect.
    Dialect = 3,
    /// The account takes requests.
    Enabled = 4,
    /// The target is not drained.
    Weight = 5,
    /// Neither account nor target rests.
    Cooldown = 6,
    /// The account keeps the response that is continued or asked for.
    Response = 7,
    /// The account has an address for what is asked.
    Address = 8,
}

impl Filter {
    /// All, in order.
    pub const ALL: [Self; 9] = [
        Self::Group,
        Self::Tenant,
        Self::Capability,
        Self::Dialect,
        Self::Enabled,
        Self::Weight,
        Self::Cooldown,
        Self::Response,
        Self::Address,
    ];

    /// As explanations write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Tenant => "tenant",
            Self::Capability => "capability",
            Self::Dialect => "dialect",
            Self::Enabled => "enabled",
            Self::Weight => "weight",
            Self::Cooldown => "cooldown",
            Self::Response => "response",
            Self::Address => "address",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The supply side of the caller's group.
#[derive(Clone, Copy, Debug)]
pub enum Membership<'a> {
    /// The caller has no group: every account serves.
    All,
    /// The group of this version.
    Of(&'a Group),
    /// The caller's group is not in this version: no account serves it.
    Unknown(&'a str),
}

impl Membership<'_> {
    fn admits(self, account: &AccountName) -> bool {
        match self {
            Self::All => true,
            Self::Of(group) => group
                .accounts
                .as_ref()
                .is_none_or(|accounts| accounts.contains(account)),
            Self::Unknown(_) => false,
        }
    }
}

/// What a request asks of a target.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// What it wants to use.
    pub model: &'a Model,
    /// The caller's group.
    pub group: Membership<'a>,
    /// The tenant's own choice.
    pub rule: Rule<'a>,
    /// The caller's dialect.
    pub dialect: Dialect,
    /// The call of it.
    pub endpoint: Endpoint,
    /// What it needs.
    pub needs: Capabilities,
    /// The account that keeps the response which is continued or asked for: nobody else can serve.
    pub bound: Option<&'a AccountName>,
    /// Unix milliseconds.
    pub now_ms: i64,
}

impl Ask<'_> {
    /// A target's part of the traffic of this request's tenant.
    #[must_use]
    pub fn weight(&self, target: &Target) -> u32 {
        self.rule
            .weight(&target.account.name)
            .unwrap_or(target.weight)
    }
}

/// How a target did in all tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes(u16);

impl Outcomes {
    const ALL: u16 = (1 << Filter::ALL.len()) - 1;

    /// Whether it may serve.
    #[must_use]
    pub fn pass(self) -> bool {
        self.0 == Self::ALL
    }

    /// Whether it passed one test.
    #[must_use]
    pub fn passed(self, filter: Filter) -> bool {
        self.0 & filter.bit() != 0
    }

    /// Whether it would serve, if it did not rest.
    #[must_use]
    pub fn only_rests(self) -> bool {
        self.0 == Self::ALL & !Filter::Cooldown.bit()
    }
}

/// Asks all tests. `rests_until_ms` is the target's own and its account's later end of rest ([`rests_until_ms`]).
#[must_use]
pub fn outcomes(ask: &Ask<'_>, target: &Target, rests_until_ms: i64) -> Outcomes {
    let mut passed = 0;
    for (filter, pass) in [
        (Filter::Group, ask.group.admits(&target.account.name)),
        (Filter::Tenant, chosen(ask, target)),
        (Filter::Capability, capable(ask)),
        (Filter::Dialect, reachable(ask, target)),
        (Filter::Enabled, enabled(ask, target)),
        (Filter::Weight, weighted(ask, target)),
        (Filter::Cooldown, rested(ask.now_ms, rests_until_ms)),
        (Filter::Response, keeps(ask, target)),
        (Filter::Address, addressed(ask, target)),
    ] {
        if pass {
            passed |= filter.bit();
        }
    }
    Outcomes(passed)
}

/// Whether the tenant's own rule lets the account serve.
#[must_use]
pub fn chosen(ask: &Ask<'_>, target: &Target) -> bool {
    ask.rule.verdict(&target.account.name) == Verdict::Fits
}

/// Whether the model declares all that the request needs; one that declares nothing is not checked.
#[must_use]
pub fn capable(ask: &Ask<'_>) -> bool {
    ask.model
        .capabilities
        .is_none_or(|has| has.cover(ask.needs))
}

/// Whether the account can be asked for the caller's dialect. What continues a response is not translated: its account speaks
/// the dialect, or nobody does.
#[must_use]
pub fn reachable(ask: &Ask<'_>, target: &Target) -> bool {
    let spoken = target.account.dialects;
    match upstream_dialect(ask.dialect, ask.endpoint, spoken) {
        Some(dialect) => dialect == ask.dialect || ask.bound.is_none(),
        None => false,
    }
}

/// Whether the account has an address for what is asked; one that does not speak the dialect is told of by that.
#[must_use]
pub fn addressed(ask: &Ask<'_>, target: &Target) -> bool {
    let account = &target.account;
    upstream_dialect(ask.dialect, ask.endpoint, account.dialects).is_none_or(|dialect| {
        let asked = operation(ask.endpoint, false);
        account.address(dialect, asked).is_some()
    })
}

/// Whether the account takes requests; one that is drained goes on with what it keeps.
#[must_use]
pub fn enabled(ask: &Ask<'_>, target: &Target) -> bool {
    match target.account.status {
        AccountStatus::Active => true,
        AccountStatus::Draining => ask.bound.is_some(),
        AccountStatus::Disabled => false,
    }
}

/// Whether the target is not drained, or nobody else can serve.
#[must_use]
pub fn weighted(ask: &Ask<'_>, target: &Target) -> bool {
    ask.bound.is_some() || ask.weight(target) > 0
}

/// Whether the account keeps the response in question, if there is one.
#[must_use]
pub fn keeps(ask: &Ask<'_>, target: &Target) -> bool {
    ask.bound
        .is_none_or(|account| *account == target.account.name)
}

/// Whether a rest is over.
#[must_use]
pub fn rested(now_ms: i64, rests_until_ms: i64) -> bool {
    rests_until_ms <= now_ms
}

/// What the tenant's rule says of a target that it lets pass, for people.
#[must_use]
pub fn remark(ask: &Ask<'_>, target: &Target) -> Option<String> {
    let account = &target.account.name;
    let weight = ask
        .rule
        .weight(account)
        .map(|weight| format!("weight {weight} in place of {}", target.weight));
    match (ask.rule.pins(account), weight) {
        (true, Some(weight)) => Some(format!("pinned, {weight}")),
        (true, None) => Some("pinned".to_owned()),
        (false, weight) => weight,
    }
}

/// Why a target failed a test, for people.
#[must_use]
pub fn detail(filter: Filter, ask: &Ask<'_>, target: &Target, rests_until_ms: i64) -> String {
    match filter {
        Filter::Group => match ask.group {
            Membership::Unknown(name) => format!("group {name} is not in the catalogue"),
            Membership::Of(group) => format!("not an account of group {}", group.name),
            Membership::All => String::new(),
        },
        Filter::Tenant => match ask.rule.verdict(&target.account.name) {
            Verdict::Elsewhere => "the tenant is pinned to other accounts".to_owned(),
            Verdict::Forbidden => "the tenant forbids this account".to_owned(),
            Verdict::Fits => String::new(),
        },
        Filter::Capability => "the model lacks what the request needs".to_owned(),
        Filter::Dialect => format!("does not speak {}", ask.dialect.as_str_name()),
        Filter::Enabled => match target.account.status {
            AccountStatus::Draining => "draining".to_owned(),
            _ => "disabled".to_owned(),
        },
        Filter::Response => "another account keeps the response".to_owned(),
        Filter::Address => format!(
            "has no address for {} of {}: its `url_template` is that of another call",
            ask.endpoint.as_str_name(),
            ask.dialect.as_str_name()
        ),
        Filter::Weight if ask.rule.weight(&target.account.name).is_some() => {
            "weight 0 for this tenant".to_owned()
        }
        Filter::Weight => "weight 0".to_owned(),
        Filter::Cooldown => {
            let why = rest(target, None).why();
            let left = u64::try_from(rests_until_ms - ask.now_ms).unwrap_or(0);
            format!(
                "{} for {} s more",
                why.map_or("cooling down", |why| why.text()),
                left.div_ceil(1_000)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        choice::rests_until_ms,
        fixture::{self, ask},
        known::Why,
    };
    use switchboard_proto::common::v1::TargetRule;

    fn failed(ask: &Ask<'_>, target: &Target) -> Vec<&'static str> {
        let outcomes = outcomes(ask, target, rests_until_ms(target, None));
        Filter::ALL
            .into_iter()
            .filter(|filter| !outcomes.passed(*filter))
            .map(Filter::name)
            .collect()
    }

    #[test]
    fn a_good_target_passes_all() {
        let model = fixture::model(vec![fixture::target("a", 0, 1)]);
        assert!(failed(&ask(&model), &model.targets[0]).is_empty());
    }

    #[test]
    fn each_test_fails_for_its_own_reason() {
        let mut account = fixture::account("a");
        account.status = AccountStatus::Draining;
        let mut model = fixture::model(vec![fixture::target_of(account, 0, 0)]);
        model.capabilities = Some(Capabilities(0b01));
        model.targets[0]
            .account
            .known
            .rest
            .hold(5_000, Why::Overloaded, 0);
        let group = fixture::group(Some(&["b"]));
        let rule = TargetRule {
            forbid: vec!["a".to_owned()],
            ..TargetRule::default()
        };
        let ask = Ask {
            group: Membership::Of(&group),
            rule: Rule::of(Some(&rule)),
            dialect: Dialect::OpenaiEmbeddings,
            needs: Capabilities(0b10),
            now_ms: 2_500,
            ..ask(&model)
        };
        let target = &model.targets[0];
        assert_eq!(
            failed(&ask, target),
            [
                "group",
                "tenant",
                "capability",
                "dialect",
                "enabled",
                "weight",
                "cooldown"
            ]
        );
        assert_eq!(detail(Filter::Enabled, &ask, target, 5_000), "draining");
        assert_eq!(
            detail(Filter::Cooldown, &ask, target, 5_000),
            "overloaded for 3 s more"
        );
    }

    #[test]
    fn a_tenant_pins_forbids_and_weighs() {
        let model = fixture::model(vec![
            fixture::target("a", 0, 1),
            fixture::target("b", 0, 0),
            fixture::target("c", 0, 7),
        ]);
        let rule = TargetRule {
            pin: vec!["a".to_owned(), "b".to_owned()],
            forbid: vec!["a".to_owned()],
            weights: [("b".to_owned(), 5), ("c".to_owned(), 0)].into(),
        };
        let ask = Ask {
            rule: Rule::of(Some(&rule)),
            ..ask(&model)
        };
        let [a, b, c] = &model.targets[..] else {
            panic!("three targets")
        };
        assert_eq!(failed(&ask, a), ["tenant"]);
        assert_eq!(failed(&ask, b), [""; 0]);
        assert_eq!(failed(&ask, c), ["tenant", "weight"]);
        assert_eq!((ask.weight(a), ask.weight(b), ask.weight(c)), (1, 5, 0));
        assert_eq!(
            detail(Filter::Tenant, &ask, a, 0),
            "the tenant forbids this account"
        );
        assert_eq!(
            detail(Filter::Tenant, &ask, c, 0),
            "the tenant is pinned to other accounts"
        );
        assert_eq!(
            detail(Filter::Weight, &ask, c, 0),
            "weight 0 for this tenant"
        );
        assert_eq!(
            remark(&ask, b).as_deref(),
            Some("pinned, weight 5 in place of 0")
        );
    }

    #[test]
    fn nobody_but_the_keeper_serves_and_it_does_so_though_it_is_drained() {
        let mut keeper = fixture::account("a");
        keeper.status = AccountStatus::Draining;
        let model = fixture::model(vec![
            fixture::target_of(keeper, 0, 0),
            fixture::target("b", 0, 1),
        ]);
        let account = "a".into();
        let ask = Ask {
            bound: Some(&account),
            ..ask(&model)
        };
        assert_eq!(failed(&ask, &model.targets[0]), [""; 0]);
        assert_eq!(failed(&ask, &model.targets[1]), ["response"]);
        assert_eq!(
            detail(Filter::Response, &ask, &model.targets[1], 0),
            "another account keeps the response"
        );
    }

    #[test]
    fn a_rule_that_says_nothing_is_none() {
        assert!(!Rule::of(Some(&TargetRule::default())).any());
        assert!(!Rule::of(None).any());
    }

    #[test]
    fn a_rest_is_over_at_its_end() {
        let model = fixture::model(vec![fixture::target("a", 0, 1)]);
        let target = &model.targets[0];
        target
            .known
            .as_ref()
            .unwrap()
            .rest
            .hold(5_000, Why::RateLimited, 0);
        let at = |now_ms| {
            outcomes(
                &Ask {
                    now_ms,
                    ..ask(&model)
                },
                target,
                rests_until_ms(target, None),
            )
        };
        assert!(at(4_999).only_rests());
        assert!(at(5_000).pass());
    }

    #[test]
    fn a_group_that_the_version_does_not_have_is_served_by_nobody() {
        let model = fixture::model(vec![fixture::target("a", 0, 1)]);
        let ask = Ask {
            group: Membership::Unknown("gone"),
            ..ask(&model)
        };
        assert_eq!(failed(&ask, &model.targets[0]), ["group"]);
    }
}
