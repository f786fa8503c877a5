//! Accounts and OAuth providers.

use std::collections::{HashMap, HashSet};

use super::{Context, limits, positive, price, refer, some_or_absent, unique, windows};
use crate::accounts::{Account, Concurrency, OauthFlow, OauthProvider, Parameters};
use crate::diagnostic::{Path, Problems};
use crate::proxy;
use crate::template;
use crate::url::BaseUrl;

pub(super) fn check(context: &Context<'_>, errors: &mut Problems<'_>, warnings: &mut Problems<'_>) {
    let root = Path::Root;
    let list = root.key("accounts");
    let accounts = &context.catalogue.accounts;
    unique(
        &list,
        "name",
        accounts.iter().map(|account| account.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, account) in accounts.iter().enumerate() {
        let at = list.index(index);
        if account.name.contains('/') {
            errors.report(
                &at.key("name"),
                "the name holds `/`: costs are named account/model",
                "write a name without `/`",
            );
        }
        address(account, &at, errors, warnings);
        credential(context, account, &at, errors);
        numbers(account, &at, errors, warnings);
        language(account, &at, errors, warnings);
        some_or_absent(account.dialects.as_ref(), &at.key("dialects"), errors);
    }
    let list = root.key("oauth_providers");
    let providers = &context.catalogue.oauth_providers;
    unique(
        &list,
        "name",
        providers.iter().map(|provider| provider.name.as_str()),
        &mut HashSet::new(),
        errors,
    );
    for (index, provider) in providers.iter().enumerate() {
        oauth_provider(provider, &list.index(index), errors);
    }
}

fn address(
    account: &Account,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
    warnings: &mut Problems<'_>,
) {
    match account.base_url() {
        None => errors.report(
            &at.key("base_url"),
            format!(
                "`base_url` is missing: {} has no public address",
                account.provider
            ),
            "add `base_url: https://…`",
        ),
        Some(url) => match BaseUrl::read(url) {
            Err((message, fix)) => errors.report(&at.key("base_url"), message, fix),
            Ok(base) if base.is_private() && !account.allow_private_address => warnings.report(
                &at.key("base_url"),
                "this address is private, and private addresses are refused",
                "add `allow_private_address: true` if it is meant",
            ),
            Ok(_) => {}
        },
    }
    if let Some(template) = &account.url_template {
        let base = account.base_url().unwrap_or("https://host");
        if let Err((message, fix)) = template::check(template, base) {
            errors.report(&at.key("url_template"), message, fix);
        } else if account.dialects().len() > 1 {
            warnings.report(
                &at.key("url_template"),
                "all dialects of this account are called at this one address",
                "name one in `dialects`, and make an account for each other one",
            );
        }
    }
    if let Some(proxy) = &account.proxy
        && let Err((message, fix)) = proxy::check(proxy)
    {
        errors.report(&at.key("proxy"), message, fix);
    }
}

fn credential(context: &Context<'_>, account: &Account, at: &Path<'_>, errors: &mut Problems<'_>) {
    match (&account.credential, &account.oauth) {
        (None, None) => errors.report(
            &at.key("credential"),
            "the account has no credential",
            "add `credential: env:NAME`, or `credential: none` if the upstream asks for none",
        ),
        (Some(_), Some(_)) => {
            errors.report(
                &at.key("oauth"),
                "the account has a credential and signs in too",
                "remove `credential` or `oauth`",
            );
        }
        _ => {}
    }
    if let Some(oauth) = &account.oauth {
        let known = &context.oauth_providers;
        let oauth_at = at.key("oauth");
        let found = known.contains(oauth.provider.as_str());
        refer(
            &oauth.provider,
            "oauth_providers",
            "OAuth provider",
            known.iter().copied(),
            found,
            &oauth_at.key("provider"),
            errors,
        );
    }
    if let Some(header) = &account.credential_header {
        let header_at = at.key("credential_header");
        if header.name.parse::<http::HeaderName>().is_err() {
            errors.report(
                &header_at.key("name"),
                "this is not the name of a header",
                "write a name such as `api-key`",
            );
        }
        let valid = http::HeaderValue::from_str(&header.format).is_ok();
        if !valid || header.format.matches("{secret}").count() != 1 {
            errors.report(
                &header_at.key("format"),
                "the place of the secret is missing, or there is more than one",
                "write `{secret}` once, e.g. \"Bearer {secret}\"",
            );
        }
    }
}

fn numbers(
    account: &Account,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
    warnings: &mut Problems<'_>,
) {
    if let Some(Concurrency::Slots(slots)) = account.concurrency {
        positive(&[("concurrency", Some(u64::from(slots)))], at, errors);
    }
    if let Some(own) = &account.limits {
        limits(own, &at.key("limits"), errors);
    }
    let costs = at.key("costs");
    for (model, sheet) in &account.costs {
        price(sheet, &costs.key(model), errors, warnings);
    }
    windows(&account.windows, &at.key("windows"), errors);
    if let Some(flat) = &account.flat_cost
        && flat.every == crate::Duration::ZERO
    {
        let flat_at = at.key("flat_cost");
        errors.report(
            &flat_at.key("every"),
            "a fee needs a window",
            "write a duration such as `30d`",
        );
    }
    if let Some(crate::Breaker::On(rule)) = &account.breaker {
        positive(
            &[
                ("of", Some(u64::from(rule.of))),
                ("probes", Some(u64::from(rule.probes))),
            ],
            &at.key("breaker"),
            errors,
        );
    }
    if let Some(probe) = &account.probe {
        let probe_at = at.key("probe");
        let counts = [
            ("eject_after", Some(u64::from(probe.eject_after))),
            ("return_after", Some(u64::from(probe.return_after))),
            ("every", Some(probe.every.as_millis())),
        ];
        positive(&counts, &probe_at, errors);
        if !probe.path.starts_with('/') {
            errors.report(
                &probe_at.key("path"),
                "a path begins with `/`",
                "write e.g. `/health`",
            );
        }
    }
    if let Some(gather) = &account.gather {
        positive(
            &[("events", Some(u64::from(gather.events)))],
            &at.key("gather"),
            errors,
        );
    }
}

fn language(
    account: &Account,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
    warnings: &mut Problems<'_>,
) {
    if let Some(dialects) = &account.dialects {
        let list = at.key("dialects");
        if dialects.is_empty() {
            errors.report(
                &list,
                "the account speaks no dialect",
                "name at least one, or leave the key out",
            );
        }
        let mut seen = HashSet::new();
        for (index, dialect) in dialects.iter().enumerate() {
            if !seen.insert(dialect) {
                errors.report(
                    &list.index(index),
                    format!("`{dialect}` stands here twice"),
                    "remove one of the two",
                );
            }
        }
    }
    let rules = at.key("errors");
    for (index, rule) in account.errors.iter().enumerate() {
        let rule_at = rules.index(index);
        if rule.equals.is_some() == rule.matches.is_some() {
            errors.report(
                &rule_at,
                "a rule needs one of `equals` and `matches`",
                "add `equals: VALUE`, or remove one of the two",
            );
        }
        if let Some(pattern) = rule.matches.as_deref().filter(|it| is_regex(it)) {
            warnings.report(
                &rule_at.key("matches"),
                format!("`{pattern}` looks like a regular expression, and is none"),
                "write all of the value, with `*` for any text, e.g. `*quota*`",
            );
        }
        if !is_json_path(&rule.path) {
            errors.report(
                &rule_at.key("path"),
                format!("`{}` is no path into JSON", rule.path),
                "write e.g. `$.error.code`, `$.errors[0].type` or `$['odd.name']`",
            );
        }
    }
    if let Some(parameters) = &account.parameters {
        renamed(parameters, &at.key("parameters"), errors);
    }
}

/// Two parameters must not end under one name.
fn renamed(parameters: &Parameters, at: &Path<'_>, errors: &mut Problems<'_>) {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (from, to) in &parameters.rename {
        if let Some(other) = taken.insert(to, from) {
            errors.report(
                &at.key("rename").key(from),
                format!("`{from}` and `{other}` both become `{to}`"),
                "give each a name of its own",
            );
        }
    }
}

/// Whether a pattern, in which `*` alone has a meaning, was meant as a regular expression.
fn is_regex(pattern: &str) -> bool {
    ["(?", ".*", "\\"].iter().any(|sign| pattern.contains(sign))
        || pattern.starts_with('^')
        || pattern.ends_with('$')
}

/// `$`, then `.name`, `['name']` or `[0]` any number of times.
fn is_json_path(path: &str) -> bool {
    let Some(mut rest) = path.strip_prefix('$') else {
        return false;
    };
    while !rest.is_empty() {
        let after = if let Some(after) = rest.strip_prefix("['") {
            after.split_once("']").map(|(_, after)| after)
        } else if let Some(after) = rest.strip_prefix('[') {
            after
                .split_once(']')
                .filter(|(index, _)| index.parse::<u64>().is_ok())
                .map(|(_, after)| after)
        } else {
            rest.strip_prefix('.').and_then(|after| {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                after
                    .split_at_checked(end)
                    .filter(|(name, _)| !name.is_empty())
                    .map(|(_, after)| after)
            })
        };
        let Some(after) = after else {
            return false;
        };
        rest = after;
    }
    true
}

fn oauth_provider(provider: &OauthProvider, at: &Path<'_>, errors: &mut Problems<'_>) {
    const FORM: &str = "write `https://…`";
    let valid = |url: &str| BaseUrl::read(url).is_ok();
    if !valid(&provider.token_url) {
        errors.report(&at.key("token_url"), "this is not an address", FORM);
    }
    match (&provider.authorize_url, provider.flow) {
        (Some(url), _) if !valid(url) => {
            errors.report(&at.key("authorize_url"), "this is not an address", FORM)
        }
        (None, OauthFlow::AuthorizationCode | OauthFlow::DeviceCode) => errors.report(
            &at.key("authorize_url"),
            format!("`authorize_url` is missing: {} needs it", provider.flow),
            "add `authorize_url: https://…`",
        ),
        _ => {}
    }
}
