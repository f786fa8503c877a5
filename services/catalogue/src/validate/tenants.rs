//! Tenants, their users, apps and keys.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Context, budgets, fit_name, limits, multiplier, refer, some_or_absent, unique};
use crate::decode::quoted;
use crate::diagnostic::{Path, Problems};
use crate::models::Model;
use crate::scalar::SecretRef;
use crate::tenants::{Key, Route, Tenant, WithoutBilling};

pub(super) fn check(context: &Context<'_>, errors: &mut Problems<'_>) {
    let root = Path::Root;
    let list = root.key("tenants");
    let tenants = &context.catalogue.tenants;
    unique(
        &list,
        "name",
        tenants.iter().map(|tenant| tenant.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    let mut apps = HashSet::new();
    let mut secrets = HashMap::new();
    for (index, tenant) in tenants.iter().enumerate() {
        let at = list.index(index);
        if tenant.name.contains('/') {
            errors.report(
                &at.key("name"),
                "the name holds `/`: keys are named tenant/key",
                "write a name without `/`",
            );
        }
        money(context, tenant, &at, errors);
        choices(context, tenant, &at, errors);
        people(tenant, &at, errors);
        unique(
            &at.key("apps"),
            "app_id",
            tenant.apps.iter().map(|app| app.app_id.as_str()),
            &mut apps,
            errors,
        );
        let list = at.key("apps");
        for (position, app) in tenant.apps.iter().enumerate() {
            let app_at = list.index(position);
            context.group(&app.group, &app_at.key("group"), errors);
            secret(
                &app.secret,
                &app_at.key("secret"),
                &mut secrets,
                &app.app_id,
                errors,
            );
        }
        let list = at.key("keys");
        unique(
            &list,
            "name",
            tenant.keys.iter().map(|key| key.name.as_str()),
            &mut HashSet::new(),
            errors,
        );
        let emails: HashSet<&str> = tenant
            .users
            .iter()
            .map(|user| user.email.as_str())
            .collect();
        for (position, entry) in tenant.keys.iter().enumerate() {
            let key_at = list.index(position);
            key(context, entry, &emails, &key_at, errors);
            if let Some(own) = &entry.secret {
                secret(
                    own,
                    &key_at.key("secret"),
                    &mut secrets,
                    &entry.name,
                    errors,
                );
            }
        }
    }
}

fn money(context: &Context<'_>, tenant: &Tenant, at: &Path<'_>, errors: &mut Problems<'_>) {
    if tenant.is_prepaid() && tenant.without_billing == WithoutBilling::Serve {
        errors.report(
            &at.key("without_billing"),
            "a prepaid tenant cannot be served without billing",
            "write `refuse`, or remove `balance` to make it postpaid",
        );
    }
    if let Some(name) = &tenant.subscription {
        let known = &context.subscriptions;
        let found = known.contains(name.as_str());
        refer(
            name,
            "subscriptions",
            "subscription",
            known.iter().copied(),
            found,
            &at.key("subscription"),
            errors,
        );
    }
    budgets(&tenant.budgets, &at.key("budgets"), errors);
    let zone = &tenant.time_zone;
    let plausible = zone.split('/').all(|part| {
        part.starts_with(|c: char| c.is_ascii_uppercase())
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
    });
    if !plausible {
        errors.report(
            &at.key("time_zone"),
            format!("{} is not the name of a time zone", quoted(zone)),
            "write e.g. `UTC` or `Europe/Berlin`",
        );
    }
}

fn choices(context: &Context<'_>, tenant: &Tenant, at: &Path<'_>, errors: &mut Problems<'_>) {
    let fallbacks = at.key("fallbacks");
    for (from, to) in &tenant.fallbacks {
        let here = fallbacks.key(from);
        if context.model(from, &here, errors).is_some()
            && context.model(to, &here, errors).is_some()
        {
            // One loop is reported once, not at each of its references.
            if fallback_loop(context, tenant, from, &here, errors) {
                break;
            }
        }
    }
    routes(context, tenant, at, errors);
}

/// The tenant's own choice of accounts: what it names exists, each model has one rule, and a rule leaves someone to serve.
fn routes(context: &Context<'_>, tenant: &Tenant, at: &Path<'_>, errors: &mut Problems<'_>) {
    let routes = at.key("routes");
    let mut seen = HashMap::new();
    for (model, route) in &tenant.routes {
        let here = routes.key(model);
        let index = context.model(model, &here, errors);
        if let Some(found) = context.models.resolve(model)
            && let Some(first) = seen.insert(found.name, model)
        {
            errors.report(
                &here,
                format!("{} and {} are one model", quoted(first), quoted(model)),
                "put both into one rule",
            );
        }
        if let Some(entry) = index.and_then(|index| context.catalogue.models.get(index))
            && !entry.targets.is_empty()
            && !entry
                .targets
                .iter()
                .any(|target| leaves(route, &target.account))
        {
            errors.report(
                &here,
                format!("this leaves no account that serves {}", quoted(model)),
                format!("leave one of {}", accounts(entry)),
            );
        }
        for (key, accounts) in [("pin", &route.pin), ("forbid", &route.forbid)] {
            let list = here.key(key);
            for (index, account) in accounts.iter().enumerate() {
                context.account(account, &list.index(index), errors);
            }
        }
        let weights = here.key("weights");
        for account in route.weights.keys() {
            context.account(account, &weights.key(account), errors);
        }
    }
}

fn leaves(route: &Route, account: &String) -> bool {
    (route.pin.is_empty() || route.pin.contains(account))
        && !route.forbid.contains(account)
        && route.weights.get(account) != Some(&0)
}

/// The accounts that serve a model, each once, as many as fit a line.
fn accounts(model: &Model) -> String {
    let names: BTreeSet<&str> = model
        .targets
        .iter()
        .map(|target| target.account.as_str())
        .collect();
    let shown: Vec<String> = names.into_iter().take(10).map(quoted).collect();
    shown.join(", ")
}

/// The tenant's own choice over the models' fallbacks must not lead in a circle.
fn fallback_loop(
    context: &Context<'_>,
    tenant: &Tenant,
    start: &str,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
) -> bool {
    let mut circle = Vec::new();
    let mut seen = HashSet::new();
    let mut current = context.models.resolve(start);
    while let Some(found) = current {
        circle.push(found.name);
        if !seen.insert(found.index) {
            let message = format!("these fallbacks lead in a circle: {}", circle.join(" → "));
            errors.report(at, message, "remove one of these references");
            return true;
        }
        let model = context.catalogue.models.get(found.index);
        let next = tenant
            .fallbacks
            .get(found.name)
            .or_else(|| model.and_then(|model| model.fallback.as_ref()));
        current = next.and_then(|next| context.models.resolve(next));
    }
    false
}

fn people(tenant: &Tenant, at: &Path<'_>, errors: &mut Problems<'_>) {
    let list = at.key("users");
    unique(
        &list,
        "email",
        tenant.users.iter().map(|user| user.email.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, user) in tenant.users.iter().enumerate() {
        let user_at = list.index(index);
        let valid = user.email.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && !host.is_empty() && !host.contains('@')
        });
        if !valid || user.email.contains(char::is_whitespace) {
            errors.report(
                &user_at.key("email"),
                "this is not an e-mail address",
                "write e.g. `ana@acme.example`",
            );
        }
        multiplier(user.multiplier, &user_at.key("multiplier"), errors);
        if let Some(own) = &user.limits {
            limits(own, &user_at.key("limits"), errors);
        }
        budgets(&user.budgets, &user_at.key("budgets"), errors);
    }
}

fn key(
    context: &Context<'_>,
    key: &Key,
    emails: &HashSet<&str>,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
) {
    context.group(&key.group, &at.key("group"), errors);
    if let Some(user) = &key.user {
        refer(
            user,
            "users",
            "user",
            emails.iter().copied(),
            emails.contains(user.as_str()),
            &at.key("user"),
            errors,
        );
    }
    if let Some(profile) = &key.profile {
        let known = &context.profiles;
        let found = known.contains(profile.as_str());
        refer(
            profile,
            "limit_profiles",
            "limit profile",
            known.iter().copied(),
            found,
            &at.key("profile"),
            errors,
        );
        if key.limits.is_some() {
            errors.report(
                &at.key("profile"),
                "the key has limits and a profile",
                "remove one of the two",
            );
        }
    }
    if let Some(own) = &key.limits {
        limits(own, &at.key("limits"), errors);
    }
    some_or_absent(key.models.as_ref(), &at.key("models"), errors);
    some_or_absent(key.allow_ips.as_ref(), &at.key("allow_ips"), errors);
    if let Some(models) = &key.models {
        let group = context.groups.get(key.group.as_str()).copied();
        let list = at.key("models");
        for (index, model) in models.iter().enumerate() {
            let here = list.index(index);
            // A key may use the names of its group.
            if !group.is_some_and(|group| group.names.contains_key(model)) {
                context.model_or_pattern(model, &here, errors);
            }
            let outside = group.is_some_and(|group| {
                !crate::names::is_pattern(model)
                    && !group.names.contains_key(model)
                    && context
                        .models
                        .resolve(model)
                        .is_some_and(|found| !context.models.offered(group, found.name))
            });
            if outside {
                errors.report(
                    &here,
                    format!("the key's group does not offer {}", quoted(model)),
                    "add it to the group's `models`, or remove it here",
                );
            }
        }
    }
    budgets(&key.budgets, &at.key("budgets"), errors);
    let tags = at.key("tags");
    for tag in key.tags.keys() {
        fit_name(tag, &tags.key(tag), errors);
    }
}

/// A caller's secret is a reference to something, and to something that is nobody else's.
fn secret<'c>(
    secret: &'c SecretRef,
    at: &Path<'_>,
    seen: &mut HashMap<&'c SecretRef, &'c str>,
    owner: &'c str,
    errors: &mut Problems<'_>,
) {
    if *secret == SecretRef::None {
        errors.report(
            at,
            "a caller cannot do without a secret",
            "write `env:NAME` or `file:PATH`",
        );
    } else if let Some(other) = seen.insert(secret, owner) {
        errors.report(
            at,
            format!("{} has this secret too", quoted(other)),
            "give each its own",
        );
    }
}
