//! Constructs of the language that this version reads and checks, but does not act on. Each use is a warning with its line.
//!
//! A version that gives one of them its effect deletes its line here, and nothing else.

use crate::diagnostic::{Path, Problems};
use crate::tree::{Node, Value};

/// When a construct is without effect.
enum When {
    /// Whenever it is written.
    Always,
    /// Only with one of these values.
    Is(&'static [&'static str]),
    /// With any value but these.
    Not(&'static [&'static str]),
}

struct NoEffect {
    /// Keys from the root; `[]` steps into each entry of a list, `NAME` into each value of a map.
    path: &'static str,
    when: When,
    /// What happens instead.
    instead: &'static str,
}

const fn always(path: &'static str, instead: &'static str) -> NoEffect {
    NoEffect {
        path,
        when: When::Always,
        instead,
    }
}

const fn is(
    path: &'static str,
    values: &'static [&'static str],
    instead: &'static str,
) -> NoEffect {
    NoEffect {
        path,
        when: When::Is(values),
        instead,
    }
}

const fn not(
    path: &'static str,
    values: &'static [&'static str],
    instead: &'static str,
) -> NoEffect {
    NoEffect {
        path,
        when: When::Not(values),
        instead,
    }
}

const NOT_COUNTED: &str = "the budget is not counted; only those by hour, day and month are";
const NOT_ROLLED: &str = "the budget is not counted; only those that follow the calendar are";

#[rustfmt::skip]
const TABLE: &[NoEffect] = &[
    always("accounts[].oauth", "the account has no credential and serves nothing"),
    not("accounts[].transport", &["http"], "the account is reached over HTTP"),
    is("accounts[].concurrency", &["auto"], "its concurrency is not limited"),
    always("accounts[].flat_cost", "cost is booked by tokens"),
    not("accounts[].breaker", &["off"], "there is no breaker"),
    always("accounts[].probe", "there are no active checks"),
    always("accounts[].windows", "the upstream's windows are not counted"),
    always("accounts[].gather", "events are passed on at once"),
    always("oauth_providers", "accounts cannot sign in"),
    is("models[].status", &["draft"], "it serves nobody, as if it were disabled"),
    not("models[].tokenizer", &["o200k_base"], "tokens are counted with o200k_base"),
    always("models[].warning_line", "no context budget is kept"),
    always("models[].long_context", "no context budget is kept"),
    always("models[].fallback", "there is no fallback"),
    always("models[].canary", "all traffic goes to the stable targets"),
    always("models[].price.above", "the sheet holds whatever the length"),
    always("models[].price.from", "the sheet holds at once"),
    always("price_lists[].prices.NAME.above", "the sheet holds whatever the length"),
    always("price_lists[].prices.NAME.from", "the sheet holds at once"),
    always("accounts[].costs.NAME.above", "the sheet holds whatever the length"),
    always("accounts[].costs.NAME.from", "the sheet holds at once"),
    not("groups[].class", &["standard"], "the group is served as standard"),
    always("groups[].share", "nothing is kept for the group"),
    not("groups[].billing", &["tokens"], "the group is billed by all that its models' price sheets name"),
    always("groups[].price_list", "the models' own prices hold"),
    always("groups[].minimum_margin", "no target is left out for its margin"),
    always("groups[].scheduling.weights.reset", "every target gets the same for it"),
    always("groups[].scheduling.weights.headroom", "every target gets the same for it"),
    is("groups[].budgets[].window", &["week", "total"], NOT_COUNTED),
    is("groups[].budgets[].rolling", &["true"], NOT_ROLLED),
    always("subscriptions", "nothing is sold in windows"),
    is("tenants[].request_id_is_idempotency_key", &["true"], "requests are not repeated from a kept answer"),
    is("tenants[].conversation_store", &["true"], "conversations are not kept"),
    is("tenants[].log_content", &["true"], "content is not logged"),
    always("tenants[].subscription", "the tenant pays by balance or on account"),
    not("tenants[].time_zone", &["UTC", "Etc/UTC"], "days and months begin in UTC"),
    always("tenants[].fallbacks", "there is no fallback"),
    is("tenants[].budgets[].window", &["week", "total"], NOT_COUNTED),
    is("tenants[].budgets[].rolling", &["true"], NOT_ROLLED),
    not("tenants[].users[].role", &["member"], "people cannot sign in, and keys do not ask for it"),
    is("tenants[].users[].budgets[].window", &["week", "total"], NOT_COUNTED),
    is("tenants[].users[].budgets[].rolling", &["true"], NOT_ROLLED),
    always("tenants[].apps", "apps cannot sign in"),
    is("tenants[].keys[].budgets[].window", &["week", "total"], NOT_COUNTED),
    is("tenants[].keys[].budgets[].rolling", &["true"], NOT_ROLLED),
];

/// What the reference says of the key at this path, if it, or what it stands in, is without effect: for some values or all.
pub(crate) fn remark(path: &str) -> Option<String> {
    let beneath = |entry: &&NoEffect| {
        path.strip_prefix(entry.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let entry = TABLE.iter().find(beneath)?;
    let listed = |values: &[&str]| format!("`{}`", values.join("`, `"));
    let when = match entry.when {
        When::Is(values) if path == entry.path => format!(" for {}", listed(values)),
        When::Not(values) if path == entry.path => format!(" but for {}", listed(values)),
        _ => String::new(),
    };
    Some(format!("No effect yet{when}: {}.", entry.instead))
}

/// Reports every use in the document.
pub(crate) fn warn(warnings: &mut Problems<'_>) {
    let root = warnings.root();
    for entry in TABLE {
        walk(root, &Path::Root, entry.path, entry, warnings);
    }
}

fn walk(node: &Node<'_>, at: &Path<'_>, rest: &str, entry: &NoEffect, warnings: &mut Problems<'_>) {
    if let Some(rest) = rest.strip_prefix("[]") {
        if let Value::List(items) = &node.value {
            for (index, item) in items.iter().enumerate() {
                walk(item, &at.index(index), rest, entry, warnings);
            }
        }
        return;
    }
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    if rest.is_empty() {
        return used(node, at, entry, warnings);
    }
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (step, rest) = rest.split_at(end);
    if let Value::Map(entries) = &node.value {
        for child in entries
            .iter()
            .filter(|child| step == "NAME" || child.key == step)
        {
            if !matches!(child.node.value, Value::Null) {
                walk(&child.node, &at.key(&child.key), rest, entry, warnings);
            }
        }
    }
}

fn used(node: &Node<'_>, at: &Path<'_>, entry: &NoEffect, warnings: &mut Problems<'_>) {
    let text = match &node.value {
        Value::Text(text) => Some(&**text),
        _ => None,
    };
    let applies = match &entry.when {
        When::Always => true,
        When::Is(values) => text.is_some_and(|text| values.contains(&text)),
        When::Not(values) => text.is_none_or(|text| !values.contains(&text)),
    };
    if applies {
        let what = match (&entry.when, text) {
            (When::Always, _) | (_, None) => entry
                .path
                .rsplit('.')
                .next()
                .unwrap_or(entry.path)
                .to_owned(),
            (_, Some(text)) => text.to_owned(),
        };
        warnings.report_at(
            node.mark,
            at,
            format!(
                "`{}` has no effect in this version: {}",
                what.escape_debug(),
                entry.instead
            ),
            "remove it, or leave it for a version that has it",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_in_the_reference_with_its_values_and_what_happens_instead() {
        let rows = crate::reference();
        for entry in TABLE {
            let row = rows.iter().find(|row| row.path() == entry.path);
            let remark = row.and_then(|row| row.no_effect.as_deref());
            let remark = remark.unwrap_or_else(|| panic!("{}: {row:?}", entry.path));
            assert!(remark.contains(entry.instead), "{}: {remark}", entry.path);
            if let When::Is(values) | When::Not(values) = entry.when {
                for value in values {
                    let value = format!("`{value}`");
                    assert!(remark.contains(&value), "{}: {remark}", entry.path);
                }
            }
        }
        assert_eq!(
            [
                remark("accounts[].breaker"),
                remark("accounts[].breaker.of"),
                remark("accounts[].concurrency"),
                remark("accounts[].probe"),
                remark("accounts[].name"),
            ],
            [
                Some("No effect yet but for `off`: there is no breaker.".to_owned()),
                Some("No effect yet: there is no breaker.".to_owned()),
                Some("No effect yet for `auto`: its concurrency is not limited.".to_owned()),
                Some("No effect yet: there are no active checks.".to_owned()),
                None,
            ]
        );
    }

    #[test]
    fn a_groups_own_prices_and_its_billing_by_requests_are_warnings_while_models_prices_hold() {
        let text = "
price_lists: [{name: l, prices: {m: {input: 1}}}]
groups: [{name: g, price_list: l, billing: requests}]
";
        let warnings = crate::parse(text, "f").unwrap().warnings;
        let paths: Vec<&str> = warnings
            .iter()
            .map(|warning| warning.path.as_str())
            .collect();
        assert_eq!(paths, ["groups[0].price_list", "groups[0].billing"]);
    }

    #[test]
    fn a_value_that_has_its_effect_is_no_warning() {
        let text = "
accounts:
  - {name: a, provider: openai, credential: none, concurrency: 5, transport: http, breaker: off, dialects: [openai.chat]}
groups: [{name: g, class: standard, billing: tokens, budgets: [{window: hour, amount: 1, rolling: false}]}]
tenants: [{name: t, time_zone: UTC, log_content: false, users: [{email: u@t, role: member}]}]
";
        assert_eq!(crate::parse(text, "f").unwrap().warnings, []);
    }

    #[test]
    fn a_warning_names_the_construct_its_place_and_what_happens_instead() {
        let text = "
accounts:
  - name: a
    provider: openai
    credential: none
    concurrency: auto
tenants:
  - name: t
    budgets:
      - {window: week, amount: 1}
";
        let warnings = crate::parse(text, "f").unwrap().warnings;
        let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "f:6:18: accounts[0].concurrency: `auto` has no effect in this version: its concurrency is not limited; \
                 remove it, or leave it for a version that has it",
                "f:10:18: tenants[0].budgets[0].window: `week` has no effect in this version: the budget is not counted; \
                 only those by hour, day and month are; remove it, or leave it for a version that has it",
            ]
        );
    }
}
