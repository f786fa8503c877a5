//! A catalogue cut into what each service owns.

use std::collections::HashMap;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use switchboard_catalogue::{
    Abandoned, Budget, BudgetWindow, Catalogue, Cidr, Group, Hold, Key, Limits, NameIndex,
    SecretRef, Tenant, Unsupported, User, WithoutBilling, is_proxy,
};
use switchboard_proto::{
    auth::v1 as auth, billing::v1 as billing, common::v1 as common, credentials::v1 as credentials,
    scheduler::v1 as scheduler,
};

use super::{Secrets, sheets::sheets};

/// What is said of a reference that leads to something else.
const NO_PROXY: &str = "what is behind this reference is not a proxy's address; write `http://`, `https://`, `socks5://` or `socks5h://`, then USER:PASSWORD@ if it asks for them, and HOST:PORT";

/// What each service gets. Secrets are in `credentials` and `tenants` alone; none of it is ever shown.
#[derive(Clone)]
pub struct Fragments {
    pub(super) credentials: Vec<credentials::AccountCredential>,
    pub(super) sheets: Vec<scheduler::Sheet>,
    pub(super) catalogue_json: Bytes,
    pub(super) groups: Vec<auth::GroupAccess>,
    pub(super) tenants: Vec<auth::Tenant>,
    pub(super) money: Vec<billing::TenantMoney>,
    pub(super) group_budgets: Vec<billing::Budget>,
}

impl std::fmt::Debug for Fragments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fragments(***)")
    }
}

impl Fragments {
    /// Cuts a valid catalogue and resolves its secrets.
    ///
    /// # Errors
    /// Every reference that leads nowhere, with its path in the catalogue.
    pub fn of(catalogue: &Catalogue, secrets: &dyn Secrets) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut resolve = |path: String, reference: Option<&SecretRef>| {
            let resolved = reference.map(|reference| secrets.resolve(reference));
            match resolved {
                None => None,
                Some(Ok(secret)) => secret,
                Some(Err(problem)) => {
                    problems.push(format!("{path}: {problem}"));
                    None
                }
            }
        };
        let mut credentials = Vec::new();
        let mut wrong_proxies = Vec::new();
        for (index, account) in catalogue.accounts.iter().enumerate() {
            let path = format!("accounts[{index}].credential");
            if let Some(secret) = resolve(path, account.credential.as_ref()) {
                credentials.push(credentials::AccountCredential {
                    account: account.name.clone(),
                    secret: expose(&secret),
                });
            }
            let path = format!("accounts[{index}].proxy");
            let secret = resolve(path.clone(), account.proxy_reference().as_ref());
            if let (Some(secret), Some(name)) = (secret, account.proxy_credential()) {
                if !is_proxy(secret.expose_secret()) {
                    wrong_proxies.push(format!("{path}: {NO_PROXY}"));
                }
                credentials.push(credentials::AccountCredential {
                    account: name,
                    secret: expose(&secret),
                });
            }
        }
        let models = NameIndex::new(&catalogue.models);
        let tenants = catalogue
            .tenants
            .iter()
            .enumerate()
            .map(|(at, tenant)| auth::Tenant {
                routes: routes(&models, tenant),
                ..access(catalogue, tenant, at, &mut resolve)
            })
            .collect();
        problems.append(&mut wrong_proxies);
        if !problems.is_empty() {
            return Err(problems);
        }
        // Tenants are auth's and billing's; the scheduler gets the rest, with secrets as references.
        let supply = Catalogue {
            tenants: Vec::new(),
            subscriptions: Vec::new(),
            limit_profiles: Vec::new(),
            ..catalogue.clone()
        };
        let catalogue_json = serde_json::to_vec(&supply)
            .map_err(|error| vec![format!("the catalogue cannot be written as JSON: {error}")])?;
        Ok(Self {
            credentials,
            sheets: sheets(catalogue),
            catalogue_json: catalogue_json.into(),
            groups: catalogue.groups.iter().map(group).collect(),
            tenants,
            money: catalogue.tenants.iter().map(money).collect(),
            group_budgets: catalogue
                .groups
                .iter()
                .flat_map(|group| budgets("group", &group.name, &group.budgets))
                .collect(),
        })
    }
}

fn expose(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}

fn group(group: &Group) -> auth::GroupAccess {
    let (whole, each) = group.limits.as_ref().map_or((None, None), |limits| {
        (Some(limits.whole()), limits.per_user.clone())
    });
    auth::GroupAccess {
        name: group.name.clone(),
        allow_ips: cidrs(group.allow_ips.as_deref()),
        limits: whole.as_ref().map(limits),
        user_limits: each.as_ref().map(limits),
        multiplier: millionths(group.multiplier()),
    }
}

fn access(
    catalogue: &Catalogue,
    tenant: &Tenant,
    at: usize,
    resolve: &mut dyn FnMut(String, Option<&SecretRef>) -> Option<SecretString>,
) -> auth::Tenant {
    auth::Tenant {
        name: tenant.name.clone(),
        status: auth::Status::Active.into(),
        prepaid: tenant.is_prepaid(),
        strict_hold: tenant.hold() == Hold::Strict,
        serve_without_billing: tenant.without_billing == WithoutBilling::Serve,
        abandoned_free: tenant.abandoned == Abandoned::Free,
        log_content: tenant.log_content,
        limits: None,
        users: tenant.users.iter().map(user).collect(),
        keys: tenant
            .keys
            .iter()
            .enumerate()
            .map(|(index, key)| {
                let path = format!("tenants[{at}].keys[{index}].secret");
                let secret = resolve(path, key.secret.as_ref());
                access_key(catalogue, key, secret.as_ref())
            })
            .collect(),
        routes: HashMap::new(),
    }
}

/// The tenant's choice of accounts, aliases replaced by the names that requests are known by.
fn routes(models: &NameIndex, tenant: &Tenant) -> HashMap<String, common::TargetRule> {
    let canonical = |name: &String| {
        let found = models.resolve(name);
        found.map_or_else(|| name.clone(), |found| found.name.to_owned())
    };
    tenant
        .routes
        .iter()
        .map(|(model, route)| {
            let rule = common::TargetRule {
                pin: route.pin.clone(),
                forbid: route.forbid.clone(),
                weights: route.weights.clone().into_iter().collect(),
            };
            (canonical(model), rule)
        })
        .collect()
}

fn user(user: &User) -> auth::User {
    auth::User {
        email: user.email.clone(),
        role: user.role.to_string(),
        multiplier: millionths(user.multiplier),
        limits: user.limits.as_ref().map(limits),
        status: auth::Status::Active.into(),
    }
}

fn access_key(catalogue: &Catalogue, key: &Key, secret: Option<&SecretString>) -> auth::Key {
    auth::Key {
        name: key.name.clone(),
        secret: secret.map(expose).unwrap_or_default(),
        group: key.group.clone(),
        user: key.user.clone().unwrap_or_default(),
        models: key.models.clone().unwrap_or_default(),
        expires_at_ms: key.expires.map(|last_day| {
            i64::try_from(last_day.end().unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
        }),
        limits: catalogue.key_limits(key).as_ref().map(limits),
        allow_ips: cidrs(key.allow_ips.as_deref()),
        reject_unsupported: key.unsupported == Some(Unsupported::Reject),
        cost_center: key.cost_center.clone().unwrap_or_default(),
        tags: key.tags.clone().into_iter().collect(),
        status: auth::Status::Active.into(),
    }
}

fn money(tenant: &Tenant) -> billing::TenantMoney {
    let own = budgets("tenant", "", &tenant.budgets);
    let users = tenant
        .users
        .iter()
        .flat_map(|user| budgets("user", &user.email, &user.budgets));
    let keys = tenant
        .keys
        .iter()
        .flat_map(|key| budgets("key", &key.name, &key.budgets));
    billing::TenantMoney {
        name: tenant.name.clone(),
        opening_balance_nanos: tenant.balance.map(|balance| balance.nanos()),
        budgets: own.into_iter().chain(users).chain(keys).collect(),
    }
}

/// Budgets whose windows count today; the others were warned about when the file was read.
/// A budget of money and one of tokens for the same window are one to billing.
fn budgets(kind: &str, subject: &str, budgets: &[Budget]) -> Vec<billing::Budget> {
    let counted = budgets.iter().filter(|budget| {
        !budget.rolling
            && matches!(
                budget.window,
                BudgetWindow::Hour | BudgetWindow::Day | BudgetWindow::Month
            )
    });
    let mut of_window: Vec<billing::Budget> = Vec::new();
    for budget in counted {
        let window = budget.window.to_string();
        let amount_nanos = budget.amount.map(|amount| amount.nanos());
        match of_window.iter_mut().find(|known| known.window == window) {
            Some(known) => {
                known.amount_nanos = known.amount_nanos.or(amount_nanos);
                known.tokens = known.tokens.or(budget.tokens);
            }
            None => of_window.push(billing::Budget {
                subject_kind: kind.to_owned(),
                subject: subject.to_owned(),
                window,
                amount_nanos,
                tokens: budget.tokens,
            }),
        }
    }
    of_window
}

fn limits(limits: &Limits) -> common::Limits {
    common::Limits {
        requests_per_second: limits.requests_per_second,
        requests_per_minute: limits.requests_per_minute,
        tokens_per_minute: limits.tokens_per_minute,
        concurrency: limits.concurrency.map(u64::from),
        burst: limits.burst,
    }
}

fn cidrs(cidrs: Option<&[Cidr]>) -> Vec<String> {
    cidrs
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn millionths(multiplier: switchboard_catalogue::Multiplier) -> u64 {
    u64::try_from(multiplier.millionths()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct None;

    impl Secrets for None {
        fn resolve(&self, _: &SecretRef) -> Result<Option<SecretString>, String> {
            Ok(Option::None)
        }
    }

    struct One(&'static str);

    impl Secrets for One {
        fn resolve(&self, _: &SecretRef) -> Result<Option<SecretString>, String> {
            Ok(Some(SecretString::from(self.0)))
        }
    }

    #[test]
    fn a_proxys_password_goes_to_the_vault_and_nowhere_else() {
        let text = "
version: 1
accounts:
  - {name: a, provider: openai, credential: env:KEY, proxy: env:PROXY}
";
        let catalogue = switchboard_catalogue::parse(text, "f").unwrap().catalogue;
        let secret = "socks5h://user:hush-hush@proxy:1080";
        let fragments = Fragments::of(&catalogue, &One(secret)).unwrap();
        let kept: Vec<_> = fragments
            .credentials
            .iter()
            .map(|kept| kept.account.as_str())
            .collect();
        assert_eq!(kept, ["a", "a/proxy"]);
        assert_eq!(fragments.credentials[1].secret, secret);
        let told = String::from_utf8(fragments.catalogue_json.to_vec()).unwrap();
        assert!(told.contains("env:PROXY") && !told.contains("hush-hush"));
        let wrong = Fragments::of(&catalogue, &One("proxy of ours")).unwrap_err();
        assert_eq!(wrong, [format!("accounts[0].proxy: {NO_PROXY}")]);
    }

    #[test]
    fn a_budget_of_money_and_one_of_tokens_for_the_same_window_are_one() {
        let text = "
version: 1
tenants:
  - name: t
    budgets: [{window: day, amount: 2}, {window: month, amount: 3}, {window: day, tokens: 5}, {window: week, amount: 1}]
    users: [{email: a@x, budgets: [{window: day, tokens: 7}]}]
";
        let catalogue = switchboard_catalogue::parse(text, "f").unwrap().catalogue;
        let fragments = Fragments::of(&catalogue, &None).unwrap();
        let budget =
            |kind: &str, subject: &str, window: &str, amount_nanos, tokens| billing::Budget {
                subject_kind: kind.to_owned(),
                subject: subject.to_owned(),
                window: window.to_owned(),
                amount_nanos,
                tokens,
            };
        let expected = [
            budget("tenant", "", "day", Some(2_000_000_000), Some(5)),
            budget("tenant", "", "month", Some(3_000_000_000), Option::None),
            budget("user", "a@x", "day", Option::None, Some(7)),
        ];
        assert_eq!(fragments.money[0].budgets, expected);
    }

    #[test]
    fn a_tenants_routes_bear_the_names_of_the_catalogue() {
        let text = "
version: 1
accounts:
  - {name: a, provider: openai, credential: none}
  - {name: b, provider: openai, credential: none}
models:
  - {name: chat, aliases: [talk], price: {input: 1, output: 2}, targets: [{account: a}, {account: b}]}
  - {name: \"gpt-*\", price: {input: 1, output: 2}, targets: [{account: a}, {account: b}]}
groups: [{name: g}]
tenants:
  - name: t
    routes: {talk: {pin: [b], weights: {b: 3}}, gpt-4o: {forbid: [a]}, \"gpt-*\": {weights: {a: 0}}}
";
        let catalogue = switchboard_catalogue::parse(text, "f").unwrap().catalogue;
        let fragments = Fragments::of(&catalogue, &None).unwrap();
        let routes = &fragments.tenants[0].routes;
        let mut names: Vec<_> = routes.keys().collect();
        names.sort_unstable();
        assert_eq!(names, ["chat", "gpt-*", "gpt-4o"]);
        assert_eq!(
            routes["chat"],
            common::TargetRule {
                pin: vec!["b".to_owned()],
                forbid: Vec::new(),
                weights: [("b".to_owned(), 3)].into(),
            }
        );
        assert_eq!(routes["gpt-4o"].forbid, ["a"]);
        assert_eq!(routes["gpt-*"].weights["a"], 0);
    }
}
