//! Price and cost sheets of a catalogue (BILL-2).
//!
//! Subjects: a price is that of [`Catalogue::priced`]. A cost is `account/upstream_model`; where that is not the same for every
//! public model, since it follows from the public model's own price or the lists differ, it is
//! `account/upstream_model@public_model`, which counts before the other.

use std::collections::{BTreeMap, HashMap};

use switchboard_catalogue::{
    Account, Amount, Catalogue, Multiplier, Price, Priced, Target, matches,
};
use switchboard_proto::scheduler::v1::{Rates, Sheet};

const MILLION: i128 = 1_000_000;

/// All sheets that the catalogue implies, in a stable order.
pub(super) fn sheets(catalogue: &Catalogue) -> Vec<Sheet> {
    let mut prices = BTreeMap::new();
    let mut costs = BTreeMap::new();
    let named = catalogue.accounts.iter().map(|a| (a.name.as_str(), a));
    let accounts: HashMap<_, _> = named.collect();
    for priced in catalogue.priced() {
        for target in &priced.model.targets {
            let Some(account) = accounts.get(target.account.as_str()).copied() else {
                continue;
            };
            for upstream in upstream_models(catalogue, account, target, &priced) {
                let cost = catalogue.cost(account, upstream, priced.model, priced.entry);
                let Some((cost, factor)) = cost else {
                    continue;
                };
                let (mut subject, cost) =
                    (format!("{}/{upstream}", account.name), rates(cost, factor));
                let known = account.costs.contains_key(upstream) || is_listed(catalogue, upstream);
                if !known || costs.get(&subject).is_some_and(|other| *other != cost) {
                    subject = format!("{subject}@{}", priced.entry);
                }
                costs.entry(subject).or_insert(cost);
            }
        }
        prices.insert(priced.subject, rates(priced.price, Multiplier::ONE));
    }
    let sheet = |kind: &str| {
        let kind = kind.to_owned();
        move |(subject, rates)| Sheet {
            version: 0,
            kind: kind.clone(),
            subject,
            rates: Some(rates),
        }
    };
    prices
        .into_iter()
        .map(sheet("price"))
        .chain(costs.into_iter().map(sheet("cost")))
        .collect()
}

/// What a target may be asked for by callers who pay by this sheet. A pattern that has one price stands for any name: those
/// that the account or a list knows have costs of their own.
fn upstream_models<'c>(
    catalogue: &'c Catalogue,
    account: &'c Account,
    target: &'c Target,
    priced: &Priced<'c>,
) -> Vec<&'c str> {
    let mut upstream = vec![target.model.as_deref().unwrap_or(priced.entry)];
    if target.model.is_none() && priced.entry.contains('*') {
        let listed = catalogue
            .price_lists
            .iter()
            .flat_map(|list| list.prices.keys());
        let known = account.costs.keys().chain(listed).map(String::as_str);
        upstream.extend(known.filter(|name| matches(priced.entry, name)));
    }
    upstream
}

fn is_listed(catalogue: &Catalogue, upstream: &str) -> bool {
    catalogue
        .price_lists
        .iter()
        .any(|list| list.price(upstream).is_some())
}

fn rates(price: &Price, factor: Multiplier) -> Rates {
    let scaled = |amount: Option<Amount>| amount.map(|amount| scale(amount.nanos(), factor));
    Rates {
        input: scaled(price.input),
        cached_input: scaled(price.cached_input),
        cache_write_5m: scaled(price.cache_write_5m),
        cache_write_1h: scaled(price.cache_write_1h),
        output: scaled(price.output),
        reasoning: scaled(price.reasoning),
        per_request: scaled(price.per_request),
        per_image: scaled(price.per_image),
        per_second: scaled(price.per_second),
        audio_input: scaled(price.audio_input),
        audio_output: scaled(price.audio_output),
    }
}

/// Nano-USD times millionths, rounded once, half to even.
fn scale(nanos: i64, factor: Multiplier) -> i64 {
    let product = i128::from(nanos) * i128::from(factor.millionths());
    let (quotient, rest) = (product.div_euclid(MILLION), product.rem_euclid(MILLION));
    let up = rest * 2 > MILLION || (rest * 2 == MILLION && quotient % 2 != 0);
    i64::try_from(quotient + i128::from(up)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, String, Rates)> {
        let catalogue = switchboard_catalogue::parse(text, "t.yaml")
            .unwrap()
            .catalogue;
        sheets(&catalogue)
            .into_iter()
            .map(|sheet| (sheet.kind, sheet.subject, sheet.rates.unwrap()))
            .collect()
    }

    #[test]
    fn a_cost_is_the_accounts_own_else_list_price_else_the_models_price_times_the_factor() {
        let sheets = of("
version: 1
accounts:
  - name: a
    provider: openai
    credential: none
    cost_factor: 0.5
    costs: {own: {input: 7}}
models:
  - name: m
    price: {input: 3, output: 5}
    targets: [{account: a, model: own}, {account: a, model: listed}, {account: a, model: unknown}]
  - name: 'g-*'
    price_list: l
    targets: [{account: a}]
price_lists:
  - {name: l, prices: {listed: {input: 0.000000003}, g-1: {input: 2}, other: {input: 9}}}
");
        let find = |kind: &str, subject: &str| {
            sheets
                .iter()
                .find(|(k, s, _)| k == kind && s == subject)
                .map(|(_, _, rates)| rates.input)
        };
        assert_eq!(find("price", "m"), Some(Some(3_000_000_000)));
        assert_eq!(find("price", "g-1"), Some(Some(2_000_000_000)));
        assert_eq!(find("price", "other"), None);
        assert_eq!(find("cost", "a/own"), Some(Some(7_000_000_000)));
        // 3 nano-USD × 0.5 = 1.5: half to even.
        assert_eq!(find("cost", "a/listed"), Some(Some(2)));
        assert_eq!(find("cost", "a/unknown@m"), Some(Some(1_500_000_000)));
        assert_eq!(find("cost", "a/g-1"), Some(Some(1_000_000_000)));
    }

    #[test]
    fn a_cost_that_differs_by_public_model_is_known_for_each() {
        let sheets = of("
version: 1
accounts: [{name: a, provider: openai, credential: none, costs: {g-own: {input: 7}}}]
models:
  - {name: m, price_list: l, targets: [{account: a, model: x}]}
  - {name: n, price_list: k, targets: [{account: a, model: x}]}
  - {name: 'g-*', price: {input: 5}, targets: [{account: a}]}
  - {name: 'h-*', price_list: k, targets: [{account: a, model: fixed}]}
price_lists:
  - {name: l, prices: {m: {input: 1}, x: {input: 1}}}
  - {name: k, prices: {n: {input: 2}, x: {input: 2}, g-listed: {input: 3}, h-1: {input: 4}}}
");
        let costs: Vec<_> = sheets
            .iter()
            .filter(|(kind, ..)| kind == "cost")
            .map(|(_, subject, rates)| (&**subject, rates.input.unwrap() / 1_000_000_000))
            .collect();
        let expected = [
            ("a/fixed@h-1", 4),
            ("a/g-*@g-*", 5),
            ("a/g-listed", 3),
            ("a/g-own", 7),
            ("a/x", 1),
            ("a/x@n", 2),
        ];
        assert_eq!(costs, expected);
    }
}
