//! Groups, limit profiles and subscriptions.

use std::collections::{BTreeMap, HashSet};

use super::{
    Context, budgets, fit_name, group_limits, multiplier, profile, some_or_absent, unique, windows,
};
use crate::decode::quoted;
use crate::diagnostic::{Path, Problems};
use crate::groups::{Class, Group};
use crate::names::is_pattern;

pub(super) fn check(context: &Context<'_>, errors: &mut Problems<'_>) {
    let root = Path::Root;
    let list = root.key("groups");
    let groups = &context.catalogue.groups;
    unique(
        &list,
        "name",
        groups.iter().map(|group| group.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, group) in groups.iter().enumerate() {
        one(context, group, &list.index(index), errors);
    }
    shares(context, &list, errors);

    let list = root.key("limit_profiles");
    let profiles = &context.catalogue.limit_profiles;
    unique(
        &list,
        "name",
        profiles.iter().map(|entry| entry.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, entry) in profiles.iter().enumerate() {
        profile(entry, &list.index(index), errors);
    }

    let list = root.key("subscriptions");
    let subscriptions = &context.catalogue.subscriptions;
    unique(
        &list,
        "name",
        subscriptions.iter().map(|entry| entry.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, entry) in subscriptions.iter().enumerate() {
        let at = list.index(index);
        windows(&entry.windows, &at.key("windows"), errors);
        if entry.windows.is_empty() {
            errors.report(
                &at.key("windows"),
                "the subscription has no window",
                "add `windows: [{length: 5h, amount: 5.00}]`",
            );
        }
    }
}

fn one(context: &Context<'_>, group: &Group, at: &Path<'_>, errors: &mut Problems<'_>) {
    some_or_absent(group.models.as_ref(), &at.key("models"), errors);
    some_or_absent(group.accounts.as_ref(), &at.key("accounts"), errors);
    some_or_absent(group.allow_ips.as_ref(), &at.key("allow_ips"), errors);
    if let Some(own) = group.multiplier {
        multiplier(own, &at.key("multiplier"), errors);
    }
    if let Some(models) = &group.models {
        let list = at.key("models");
        for (index, model) in models.iter().enumerate() {
            context.model_or_pattern(model, &list.index(index), errors);
        }
    }
    let names = at.key("names");
    for (own, model) in &group.names {
        let here = names.key(own);
        fit_name(own, &here, errors);
        if is_pattern(own) {
            errors.report(
                &here,
                "a group's own name cannot be a pattern",
                "write a name without `*`",
            );
        }
        if is_pattern(model) {
            errors.report(
                &here,
                format!("{} is a pattern, which no upstream knows", quoted(model)),
                "write a name that the pattern stands for",
            );
        } else if context.model(model, &here, errors).is_some()
            && context
                .models
                .resolve(model)
                .is_some_and(|found| !context.models.offered(group, found.name))
        {
            errors.report(
                &here,
                format!("the group does not offer {}", quoted(model)),
                "add it to the group's `models`",
            );
        }
    }
    if let Some(accounts) = &group.accounts {
        let list = at.key("accounts");
        for (index, account) in accounts.iter().enumerate() {
            context.account(account, &list.index(index), errors);
        }
    }
    if let Some(list) = &group.price_list {
        context.price_list(list, &at.key("price_list"), errors);
        if group.multiplier.is_some() {
            errors.report(
                &at.key("price_list"),
                "the group has a multiplier and prices of its own",
                "remove one of the two",
            );
        }
    }
    match (group.class, group.share) {
        (Class::Reserved, None) => errors.report(
            &at.key("class"),
            "`reserved` needs a share",
            "add `share: 20%`",
        ),
        (Class::Standard | Class::Idle, Some(_)) => {
            errors.report(
                &at.key("share"),
                "only a reserved group has a share",
                "write `class: reserved`, or remove `share`",
            );
        }
        _ => {}
    }
    if let Some(all) = &group.limits {
        group_limits(all, &at.key("limits"), errors);
    }
    budgets(&group.budgets, &at.key("budgets"), errors);
    weights(group, at, errors);
}

fn weights(group: &Group, at: &Path<'_>, errors: &mut Problems<'_>) {
    let Some(weights) = group
        .scheduling
        .as_ref()
        .and_then(|scheduling| scheduling.weights.as_ref())
    else {
        return;
    };
    let scheduling = at.key("scheduling");
    let list = scheduling.key("weights");
    let all = [
        ("priority", weights.priority),
        ("load", weights.load),
        ("queue", weights.queue),
        ("error", weights.error),
        ("ttft", weights.ttft),
        ("reset", weights.reset),
        ("headroom", weights.headroom),
        ("cost", weights.cost),
    ];
    for (key, weight) in all {
        if !(0.0..=1_000_000.0).contains(&weight) {
            errors.report(
                &list.key(key),
                format!("the weight {weight} is out of range"),
                "write 0 to 1000000",
            );
        }
    }
    if all.iter().all(|(_, weight)| *weight <= 0.0) {
        errors.report(
            &list,
            "all weights are 0",
            "give at least one factor a weight, or leave the key out",
        );
    }
}

/// The reserved shares of an account are at most the whole.
fn shares(context: &Context<'_>, list: &Path<'_>, errors: &mut Problems<'_>) {
    let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
    for (index, group) in context.catalogue.groups.iter().enumerate() {
        let Some(share) = group.share else { continue };
        let at = list.index(index);
        let accounts = context
            .catalogue
            .accounts
            .iter()
            .filter(|account| group.served_by(&account.name));
        for account in accounts {
            let total = totals.entry(&account.name).or_default();
            *total = total.saturating_add(share.millionths());
            if *total > 1_000_000 {
                errors.report(
                    &at.key("share"),
                    format!(
                        "more than 100% of account {} is reserved",
                        quoted(&account.name)
                    ),
                    "lower the shares of its groups",
                );
            }
        }
    }
}
