//! Models and price lists.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Context, fit_name, limits, positive, price, refer, unique};
use crate::decode::{listed, quoted};
use crate::diagnostic::{Path, Problems};
use crate::dialect::Dialect;
use crate::models::{Canary, Capability, Model, Queue, Target, WarningAction};
use crate::names::is_pattern;
use crate::prices::Price;

pub(super) fn check(context: &Context<'_>, errors: &mut Problems<'_>, warnings: &mut Problems<'_>) {
    let root = Path::Root;
    let list = root.key("price_lists");
    let lists = &context.catalogue.price_lists;
    unique(
        &list,
        "name",
        lists.iter().map(|entry| entry.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, entry) in lists.iter().enumerate() {
        let entry_at = list.index(index);
        let prices = entry_at.key("prices");
        for (model, sheet) in &entry.prices {
            price(sheet, &prices.key(model), errors, warnings);
        }
    }
    let list = root.key("models");
    names(context, &list, errors);
    for (index, model) in context.catalogue.models.iter().enumerate() {
        let at = list.index(index);
        one(context, model, &at, errors, warnings);
    }
    loops(
        context,
        &list,
        "fallback",
        |model| model.fallback.as_deref(),
        errors,
    );
    loops(
        context,
        &list,
        "long_context",
        |model| model.long_context.as_deref(),
        errors,
    );
}

/// Names and aliases share one space.
fn names(context: &Context<'_>, list: &Path<'_>, errors: &mut Problems<'_>) {
    let models = &context.catalogue.models;
    let mut seen = HashSet::new();
    unique(
        list,
        "name",
        models.iter().map(|model| model.name.as_str()),
        &mut seen,
        errors,
    );
    for (index, model) in models.iter().enumerate() {
        let entry = list.index(index);
        let aliases = entry.key("aliases");
        for (position, alias) in model.aliases.iter().enumerate() {
            let at = aliases.index(position);
            fit_name(alias, &at, errors);
            if is_pattern(alias) {
                errors.report(
                    &at,
                    "an alias cannot be a pattern",
                    "write a name without `*`; patterns are models of their own",
                );
            } else if is_pattern(&model.name) {
                errors.report(
                    &at,
                    "a pattern cannot have aliases",
                    "remove the alias, or make it a model of its own",
                );
            } else if !alias.is_empty() && !seen.insert(alias) {
                errors.report(
                    &at,
                    format!(
                        "the name {} is taken by another model or alias",
                        quoted(alias)
                    ),
                    "choose another alias, or remove it",
                );
            }
        }
    }
}

fn one(
    context: &Context<'_>,
    model: &Model,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
    warnings: &mut Problems<'_>,
) {
    priced(context, model, at, errors, warnings);
    if model.targets.is_empty() {
        errors.report(
            &at.key("targets"),
            "the model has no target",
            "add `targets: [{account: NAME, model: NAME}]`",
        );
    }
    targets(context, &model.targets, &at.key("targets"), errors);
    reachable(context, model, at, errors);
    for (key, other) in [
        ("fallback", &model.fallback),
        ("long_context", &model.long_context),
    ] {
        if let Some(other) = other {
            context.model(other, &at.key(key), errors);
        }
    }
    let positives = [
        ("context_window", model.context_window),
        ("max_output", model.max_output),
        ("max_attempts", model.max_attempts.map(u64::from)),
    ];
    positive(&positives, at, errors);
    if let Some(line) = &model.warning_line
        && line.action == WarningAction::Reroute
        && model.long_context.is_none()
    {
        let line_at = at.key("warning_line");
        errors.report(
            &line_at.key("action"),
            "`reroute` needs a `long_context` model",
            "add `long_context: NAME`, or write `header` or `refuse`",
        );
    }
    if let Some(Queue::Bounded(bound)) = &model.queue {
        positive(
            &[("depth", Some(u64::from(bound.depth)))],
            &at.key("queue"),
            errors,
        );
    }
    if let Some(own) = &model.limits {
        limits(own, &at.key("limits"), errors);
    }
    if let Some(rule) = &model.canary {
        canary(context, rule, &at.key("canary"), errors);
    }
}

fn priced(
    context: &Context<'_>,
    model: &Model,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
    warnings: &mut Problems<'_>,
) {
    match (&model.price, &model.price_list) {
        (None, None) => errors.report(
            &at.key("price"),
            "the model has no price",
            "add `price: {input: …, output: …}` (USD per 1000000 tokens) or `price_list: NAME`; write 0 for what is free",
        ),
        (Some(_), Some(_)) => errors.report(&at.key("price_list"), "the model has a price and a price list", "remove one of the two"),
        (Some(sheet), None) => {
            price(sheet, &at.key("price"), errors, warnings);
            free_output(model, sheet, &at.key("price"), warnings);
        }
        (None, Some(list)) => {
            context.price_list(list, &at.key("price_list"), errors);
            let known = context.price_lists.get(list.as_str());
            if let Some(sheet) = known.and_then(|known| known.price(&model.name)) {
                free_output(model, sheet, &at.key("price_list"), warnings);
            }
            if let Some(known) = context.price_lists.get(list.as_str())
                && !is_pattern(&model.name)
                && known.price(&model.name).is_none()
            {
                errors.report(
                    &at.key("price_list"),
                    format!("the price list {} has no entry for {}", quoted(list), quoted(&model.name)),
                    format!("add {} to its prices, or write `price` here", quoted(&model.name)),
                );
            }
        }
    }
}

/// A model that makes text for which its sheet has no price.
fn free_output(model: &Model, sheet: &Price, at: &Path<'_>, warnings: &mut Problems<'_>) {
    let priced = sheet.output.is_some() || sheet.has_other_output();
    if model.max_output.is_some() && sheet.input.is_some() && !priced {
        warnings.report(
            at,
            "the model has `max_output` and its price no `output`: output tokens are free",
            "add `output: …` (USD per 1000000 tokens); write 0 if they are to be free",
        );
    }
}

fn targets(context: &Context<'_>, targets: &[Target], list: &Path<'_>, errors: &mut Problems<'_>) {
    let mut seen = HashSet::new();
    for (index, target) in targets.iter().enumerate() {
        let at = list.index(index);
        context.account(&target.account, &at.key("account"), errors);
        if target.weight > 1_000_000 {
            errors.report(
                &at.key("weight"),
                "this weight is too large",
                "write 0 to 1000000",
            );
        }
        if !seen.insert((&target.account, &target.model, target.tier)) {
            errors.report(
                &at,
                "the same target stands above in the same tier",
                "remove one of the two and add up their weights",
            );
        }
    }
}

/// What callers may speak, as far as the catalogue says.
fn accepted(model: &Model) -> Option<Vec<Dialect>> {
    if let Some(accepts) = &model.accepts {
        return Some(accepts.clone());
    }
    match model.capabilities.as_deref()? {
        [Capability::Embeddings] => Some(vec![Dialect::OpenaiEmbeddings]),
        [Capability::Images] => Some(vec![Dialect::OpenaiImages]),
        [Capability::Audio] => Some(vec![Dialect::OpenaiAudio]),
        _ => None,
    }
}

/// Every target must be reachable from some caller dialect, and every caller dialect must reach some target (CASES D22).
fn reachable(context: &Context<'_>, model: &Model, at: &Path<'_>, errors: &mut Problems<'_>) {
    let Some(accepts) = accepted(model) else {
        return;
    };
    if accepts.is_empty() {
        errors.report(
            &at.key("accepts"),
            "the model accepts no dialect",
            "name at least one, or leave the key out",
        );
        return;
    }
    if errors.is_broken(&at.key("accepts")) {
        return;
    }
    let list = at.key("targets");
    let mut served: BTreeSet<Dialect> = BTreeSet::new();
    for (index, target) in model.targets.iter().enumerate() {
        let Some((position, account)) = context.accounts.get(target.account.as_str()) else {
            // Reported as a dangling reference; what it speaks is not known.
            return;
        };
        let accounts = Path::Root.key("accounts");
        let entry = accounts.index(*position);
        if errors.is_broken(&entry.key("dialects")) || errors.is_broken(&entry.key("provider")) {
            return;
        }
        let spoken = account.dialects();
        let reached = |dialect: &Dialect| spoken.iter().any(|upstream| dialect.reaches(*upstream));
        if accepts.iter().any(reached) {
            served.extend(account.dialects());
        } else {
            let target_at = list.index(index);
            errors.report(
                &target_at.key("account"),
                no_way(&accepts, spoken),
                "choose an account that speaks what the model accepts, or change `accepts`",
            );
        }
    }
    let Some(written) = model.accepts.as_deref().filter(|_| !served.is_empty()) else {
        return;
    };
    let served: Vec<Dialect> = served.into_iter().collect();
    let list = at.key("accepts");
    for (index, dialect) in written.iter().enumerate() {
        let here = list.index(index);
        if !served.iter().any(|upstream| dialect.reaches(*upstream)) {
            errors.report(
                &here,
                no_way(&[*dialect], &served),
                "remove it from `accepts`, or add a target whose account speaks it",
            );
        }
    }
}

fn no_way(from: &[Dialect], to: &[Dialect]) -> String {
    let names = |dialects: &[Dialect]| {
        let names: Vec<&str> = dialects.iter().map(|dialect| dialect.as_str()).collect();
        listed(&names)
    };
    format!(
        "there is no way from the caller's {} to the upstream's {}",
        names(from),
        names(to)
    )
}

fn canary(context: &Context<'_>, rule: &Canary, at: &Path<'_>, errors: &mut Problems<'_>) {
    if rule.targets.is_empty() {
        errors.report(
            &at.key("targets"),
            "the canary has no target",
            "add `targets: [{account: NAME, model: NAME}]`",
        );
    }
    targets(context, &rule.targets, &at.key("targets"), errors);
    let steps = at.key("steps");
    for (index, pair) in rule.steps.windows(2).enumerate() {
        if let [before, after] = pair
            && before >= after
        {
            errors.report(
                &steps.index(index + 1),
                format!("the steps do not grow: {before}, {after}"),
                "write them in ascending order",
            );
        }
    }
    positive(&[("sample", Some(u64::from(rule.sample)))], at, errors);
    if context.tenants.is_empty() {
        // A catalogue of the supply side alone says nothing about who calls.
        return;
    }
    let tenants = at.key("tenants");
    for (index, tenant) in rule.tenants.iter().enumerate() {
        let found = context.tenants.contains(tenant.as_str());
        refer(
            tenant,
            "tenants",
            "tenant",
            context.tenants.iter().copied(),
            found,
            &tenants.index(index),
            errors,
        );
    }
}

/// Reports each loop once, at the first of its models in the file.
fn loops<'c>(
    context: &Context<'c>,
    list: &Path<'_>,
    key: &str,
    next: impl Fn(&'c Model) -> Option<&'c str>,
    errors: &mut Problems<'_>,
) {
    let models = &context.catalogue.models;
    let edges: HashMap<usize, usize> = models
        .iter()
        .enumerate()
        .filter_map(|(index, model)| Some((index, context.models.resolve(next(model)?)?.index)))
        .collect();
    let mut done = vec![false; models.len()];
    for start in 0..models.len() {
        let mut trail = Vec::new();
        let mut on_trail = HashSet::new();
        let mut current = start;
        let looped = loop {
            if on_trail.contains(&current) {
                break Some(current);
            }
            if done.get(current).copied().unwrap_or(true) {
                break None;
            }
            on_trail.insert(current);
            trail.push(current);
            match edges.get(&current) {
                Some(following) => current = *following,
                None => break None,
            }
        };
        for visited in &trail {
            if let Some(flag) = done.get_mut(*visited) {
                *flag = true;
            }
        }
        if let Some(entry) = looped {
            let circle: Vec<&str> = trail
                .iter()
                .skip_while(|visited| **visited != entry)
                .chain(std::iter::once(&entry))
                .filter_map(|visited| models.get(*visited).map(|model| model.name.as_str()))
                .collect();
            let at = list.index(entry);
            errors.report(
                &at.key(key),
                format!("`{key}` leads in a circle: {}", circle.join(" → ")),
                "remove one of these references",
            );
        }
    }
}
