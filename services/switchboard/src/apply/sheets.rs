//! Price and cost sheets of a catalogue (BILL-2).
//!
//! Subjects: a price is the public model's (of a pattern priced by a list: each entry's name). A cost is
//! `account/upstream_model`; where it follows from the public model's own price, because neither the account nor a list
//! knows the upstream model, it is `account/upstream_model@public_model`.

use std::collections::BTreeMap;

use switchboard_catalogue::{Amount, Catalogue, Model, Multiplier, Price, matches};
use switchboard_proto::scheduler::v1::{Rates, Sheet};

const MILLION: i128 = 1_000_000;

/// All sheets that the catalogue implies, in a stable order.
pub(super) fn sheets(catalogue: &Catalogue) -> Vec<Sheet> {
    let mut prices = BTreeMap::new();
    let mut costs = BTreeMap::new();
    for model in &catalogue.models {
        for public_name in public_names(catalogue, model) {
            let Some(price) = catalogue.price(model, &public_name) else {
                continue;
            };
            prices
                .entry(public_name.clone())
                .or_insert_with(|| rates(price, Multiplier::ONE));
            for target in &model.targets {
                let Some(account) = catalogue.accounts.iter().find(|a| a.name == target.account)
                else {
                    continue;
                };
                let upstream = target.upstream_model(&public_name);
                let Some((cost, factor)) = catalogue.cost(account, upstream, model, &public_name)
                else {
                    continue;
                };
                let subject = if std::ptr::eq(cost, price) && !is_listed(catalogue, upstream) {
                    format!("{}/{upstream}@{public_name}", account.name)
                } else {
                    format!("{}/{upstream}", account.name)
                };
                costs.entry(subject).or_insert_with(|| rates(cost, factor));
            }
        }
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

/// The names under which a model is sold: its own, or of a pattern those that its price list knows.
fn public_names(catalogue: &Catalogue, model: &Model) -> Vec<String> {
    if !model.name.contains('*') {
        return vec![model.name.clone()];
    }
    if model.price.is_some() {
        return vec![model.name.clone()];
    }
    catalogue
        .price_lists
        .iter()
        .filter(|list| model.price_list.as_deref() == Some(&list.name))
        .flat_map(|list| list.prices.keys())
        .filter(|entry| matches(&model.name, entry))
        .cloned()
        .collect()
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
}
