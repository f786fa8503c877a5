//! What must hold across the catalogue: names are unique, references lead somewhere, numbers make sense.
//!
//! All mistakes are reported, each at its own place. A mistake of notation at the same place was reported before and is not
//! repeated. Nothing here has effects, and nothing here decides what a request does.

mod accounts;
mod groups;
mod models;
mod tenants;

use std::collections::{HashMap, HashSet};

use crate::accounts::Account;
use crate::amount::Multiplier;
use crate::catalogue::Catalogue;
use crate::decode::{listed, nearest, quoted};
use crate::diagnostic::{Path, Problems};
use crate::groups::Group;
use crate::limits::{Budget, GroupLimits, LimitProfile, Limits, Window};
use crate::names::{NameIndex, is_pattern, matches};
use crate::prices::{Price, PriceList};

/// The catalogue with look-ups by name.
struct Context<'c> {
    catalogue: &'c Catalogue,
    accounts: HashMap<&'c str, (usize, &'c Account)>,
    price_lists: HashMap<&'c str, &'c PriceList>,
    groups: HashMap<&'c str, &'c Group>,
    profiles: HashSet<&'c str>,
    subscriptions: HashSet<&'c str>,
    tenants: HashSet<&'c str>,
    oauth_providers: HashSet<&'c str>,
    models: NameIndex,
}

/// Checks the whole catalogue.
pub(crate) fn check(catalogue: &Catalogue, errors: &mut Problems<'_>, warnings: &mut Problems<'_>) {
    let context = Context {
        catalogue,
        accounts: catalogue
            .accounts
            .iter()
            .enumerate()
            .map(|(index, entry)| (entry.name.as_str(), (index, entry)))
            .collect(),
        price_lists: catalogue
            .price_lists
            .iter()
            .map(|entry| (entry.name.as_str(), entry))
            .collect(),
        groups: catalogue
            .groups
            .iter()
            .map(|entry| (entry.name.as_str(), entry))
            .collect(),
        profiles: catalogue
            .limit_profiles
            .iter()
            .map(|entry| entry.name.as_str())
            .collect(),
        subscriptions: catalogue
            .subscriptions
            .iter()
            .map(|entry| entry.name.as_str())
            .collect(),
        tenants: catalogue
            .tenants
            .iter()
            .map(|entry| entry.name.as_str())
            .collect(),
        oauth_providers: catalogue
            .oauth_providers
            .iter()
            .map(|entry| entry.name.as_str())
            .collect(),
        models: NameIndex::new(&catalogue.models),
    };
    let root = Path::Root;
    if catalogue.version != 1 {
        let message = format!("version {} of the language is not known", catalogue.version);
        errors.report(&root.key("version"), message, "write `version: 1`");
    }
    accounts::check(&context, errors, warnings);
    models::check(&context, errors, warnings);
    groups::check(&context, errors);
    tenants::check(&context, errors);
}

/// Reports entries of a list whose names are taken or not fit to be names.
fn unique<'c>(
    list: &Path<'_>,
    key: &str,
    names: impl IntoIterator<Item = &'c str>,
    seen: &mut HashSet<&'c str>,
    errors: &mut Problems<'_>,
) {
    for (index, name) in names.into_iter().enumerate() {
        let entry = list.index(index);
        let at = entry.key(key);
        fit_name(name, &at, errors);
        if !name.is_empty() && !seen.insert(name) {
            errors.report(
                &at,
                format!("the name {} is taken above", quoted(name)),
                "choose another name, or remove one of the two",
            );
        }
    }
}

/// A name has 1 to 200 characters, none of them a control character, none a space at its ends.
fn fit_name(name: &str, at: &Path<'_>, errors: &mut Problems<'_>) {
    if name.is_empty()
        || name.chars().count() > 200
        || name.trim() != name
        || name.chars().any(char::is_control)
    {
        errors.report(
            at,
            "this is not fit to be a name",
            "write 1 to 200 characters without control characters and without spaces at the ends",
        );
    }
}

/// Reports a name that leads nowhere: not into `section`, whose entries are `what`.
fn refer<'n>(
    name: &str,
    section: &str,
    what: &str,
    known: impl IntoIterator<Item = &'n str>,
    found: bool,
    at: &Path<'_>,
    errors: &mut Problems<'_>,
) {
    // Where the section itself was not understood nobody knows what would have been in it.
    if found || name.is_empty() || errors.is_broken_at(section) {
        return;
    }
    let mut known: Vec<&str> = known
        .into_iter()
        .filter(|known| !known.is_empty())
        .collect();
    known.sort_unstable();
    let fix = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("add it to `{section}`"),
        None if known.len() <= 8 => format!("known: {}; or add it to `{section}`", listed(&known)),
        None => format!("correct the name, or add it to `{section}`"),
    };
    errors.report(at, format!("there is no {what} {}", quoted(name)), fix);
}

impl<'c> Context<'c> {
    fn account(&self, name: &str, at: &Path<'_>, errors: &mut Problems<'_>) {
        let found = self.accounts.contains_key(name);
        refer(
            name,
            "accounts",
            "account",
            self.accounts.keys().copied(),
            found,
            at,
            errors,
        );
    }

    fn price_list(&self, name: &str, at: &Path<'_>, errors: &mut Problems<'_>) {
        let found = self.price_lists.contains_key(name);
        refer(
            name,
            "price_lists",
            "price list",
            self.price_lists.keys().copied(),
            found,
            at,
            errors,
        );
    }

    fn group(&self, name: &str, at: &Path<'_>, errors: &mut Problems<'_>) {
        let found = self.groups.contains_key(name);
        refer(
            name,
            "groups",
            "group",
            self.groups.keys().copied(),
            found,
            at,
            errors,
        );
    }

    /// A model by its name or alias, or one that a pattern stands for; the entry it leads to.
    fn model(&self, name: &str, at: &Path<'_>, errors: &mut Problems<'_>) -> Option<usize> {
        let found = self.models.resolve(name);
        let known = self.catalogue.models.iter().flat_map(|model| {
            std::iter::once(model.name.as_str()).chain(model.aliases.iter().map(String::as_str))
        });
        refer(name, "models", "model", known, found.is_some(), at, errors);
        found.map(|found| found.index)
    }

    /// A model, or a pattern that stands for at least one.
    fn model_or_pattern(&self, name: &str, at: &Path<'_>, errors: &mut Problems<'_>) {
        if !is_pattern(name) {
            self.model(name, at, errors);
            return;
        }
        let some = self
            .catalogue
            .models
            .iter()
            .any(|model| matches(name, &model.name) || matches(&model.name, name));
        if !some && !errors.is_broken_at("models") {
            errors.report(
                at,
                format!("the pattern {} stands for no model", quoted(name)),
                "correct it, or add a model of this kind",
            );
        }
    }
}

/// Numbers that must not be 0: nothing would ever pass.
fn positive(fields: &[(&str, Option<u64>)], at: &Path<'_>, errors: &mut Problems<'_>) {
    for (key, value) in fields {
        if *value == Some(0) {
            errors.report(
                &at.key(key),
                format!("`{key}` is 0: nothing would pass"),
                "write at least 1, or leave the key out",
            );
        }
    }
}

/// A list whose absence means "all" must name something: empty, it would mean the opposite to whoever wrote it.
fn some_or_absent<T>(list: Option<&Vec<T>>, at: &Path<'_>, errors: &mut Problems<'_>) {
    if list.is_some_and(Vec::is_empty) {
        errors.report(
            at,
            "this list is empty: it would allow nothing",
            "name at least one, or leave the key out to allow all",
        );
    }
}

/// A factor on what callers pay: above 0, since what is free has a price of 0, and not a slip of the unit.
fn multiplier(value: Multiplier, at: &Path<'_>, errors: &mut Problems<'_>) {
    if value.millionths() == 0 {
        errors.report(
            at,
            "the multiplier is 0",
            "write a factor above 0; what is to be free has prices of 0",
        );
    } else if value > MAX_MULTIPLIER {
        errors.report(
            at,
            format!("the multiplier is more than {MAX_MULTIPLIER}"),
            format!("write at most {MAX_MULTIPLIER}"),
        );
    }
}

/// Counters are signed and count millionths.
const MAX_LIMIT: u64 = 1_000_000_000_000;
/// Ten thousand times the price is surely a slip of the unit.
const MAX_MULTIPLIER: Multiplier = Multiplier::from_millionths(10_000_000_000);

fn limits(limits: &Limits, at: &Path<'_>, errors: &mut Problems<'_>) {
    let fields = [
        ("requests_per_second", limits.requests_per_second),
        ("requests_per_minute", limits.requests_per_minute),
        ("tokens_per_minute", limits.tokens_per_minute),
        ("concurrency", limits.concurrency.map(u64::from)),
        ("burst", limits.burst),
    ];
    positive(&fields, at, errors);
    for (key, value) in fields {
        if value.is_some_and(|value| value > MAX_LIMIT) {
            errors.report(
                &at.key(key),
                format!("`{key}` is more than can be counted"),
                format!("write at most {MAX_LIMIT}, or leave the key out for no limit"),
            );
        }
    }
    if limits.burst.is_some()
        && limits.requests_per_second.is_none()
        && limits.requests_per_minute.is_none()
    {
        errors.report(
            &at.key("burst"),
            "`burst` belongs to a limit on requests, and there is none",
            "add `requests_per_second` or `requests_per_minute`, or remove it",
        );
    }
}

fn group_limits(all: &GroupLimits, at: &Path<'_>, errors: &mut Problems<'_>) {
    limits(&all.whole(), at, errors);
    if let Some(per_user) = &all.per_user {
        limits(per_user, &at.key("per_user"), errors);
    }
}

fn profile(profile: &LimitProfile, at: &Path<'_>, errors: &mut Problems<'_>) {
    limits(&profile.limits(), at, errors);
}

fn budgets(budgets: &[Budget], list: &Path<'_>, errors: &mut Problems<'_>) {
    let mut seen = HashSet::new();
    for (index, budget) in budgets.iter().enumerate() {
        let at = list.index(index);
        match (budget.amount, budget.tokens) {
            (Some(_), Some(_)) => errors.report(
                &at.key("tokens"),
                "a budget is of money or of tokens, not both",
                "remove `amount` or `tokens`; write two budgets to have both",
            ),
            (None, None) => errors.report(
                &at,
                "this budget says how long, but not how much",
                "add `amount: …` (USD) or `tokens: …`",
            ),
            _ => {}
        }
        if !seen.insert((budget.window, budget.rolling, budget.amount.is_some())) {
            errors.report(
                &at.key("window"),
                format!("there are two budgets of this kind per {}", budget.window),
                "remove one of the two",
            );
        }
    }
}

fn windows(windows: &[Window], list: &Path<'_>, errors: &mut Problems<'_>) {
    for (index, window) in windows.iter().enumerate() {
        let at = list.index(index);
        if window.requests.is_none() && window.tokens.is_none() && window.amount.is_none() {
            errors.report(
                &at,
                "this window says how long, but not how much",
                "add `requests: …`, `tokens: …` or `amount: …`",
            );
        }
        if window.length == crate::Duration::ZERO {
            errors.report(
                &at.key("length"),
                "a window needs a length",
                "write a duration such as `5h` or `7d`",
            );
        }
    }
}

fn price(price: &Price, at: &Path<'_>, errors: &mut Problems<'_>, warnings: &mut Problems<'_>) {
    if price.is_empty() {
        errors.report(
            at,
            "this sheet names no price",
            "add `input: …` and `output: …` (USD per 1000000 tokens); write 0 for what is free",
        );
    } else if price.output.is_some() && price.input.is_none() && !price.has_other_input() {
        warnings.report(
            at,
            "this sheet has `output` and no `input`: input tokens are free by it",
            "add `input: …` (USD per 1000000 tokens); write 0 if they are to be free",
        );
    }
}
