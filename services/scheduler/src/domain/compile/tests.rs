use switchboard_proto::scheduler::v1::{Rates, Sheet};

use super::*;

const TEXT: &str = r#"
version: 1
accounts:
  - {name: a, provider: openai, credential: env:A, proxy: "http://proxy:3128", concurrency: 7, cooldown: {max: 0s}}
  - {name: b, provider: openai_compatible, base_url: "http://127.0.0.1:1/v1", allow_private_address: true, credential: none, proxy: env:PROXY}
  - {name: n, provider: anthropic, credential: env:N}
  - {name: o, provider: gemini, credential: env:O}
  - {name: p, provider: gemini, credential: env:P, credential_header: {name: Api-Key, format: "Key {secret}"}}
models:
  - name: m
    aliases: [m-old]
    price: {input: 1, output: 2}
    queue: none
    targets: [{account: b, model: y, tier: 1}, {account: a, model: x, weight: 80}]
  - {name: "gpt-*", price_list: l, targets: [{account: a}]}
price_lists:
  - {name: l, prices: {gpt-4o: {input: 2, output: 3}}}
groups:
  - {name: g, accounts: [a], scheduling: {policy: power_of_two}}
"#;

fn sheet(version: u64, kind: &str, subject: &str) -> Sheet {
    Sheet {
        version,
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        rates: Some(Rates {
            input: Some(10),
            output: Some(20),
            ..Rates::default()
        }),
    }
}

fn supply() -> Supply {
    let catalogue = switchboard_catalogue::parse(TEXT, "t").unwrap().catalogue;
    let sheets = [
        sheet(1, "price", "m"),
        sheet(2, "price", "gpt-4o"),
        sheet(3, "cost", "a/x"),
        sheet(4, "cost", "a/gpt-4o"),
    ];
    let document = Document::default().apply(catalogue, &sheets).unwrap();
    compile(5, 9_000, &document, &Registry::default())
}

#[test]
fn a_model_beside_the_one_that_was_asked_for_has_its_sheets_by_the_accounts_name() {
    // CASES A24
    let supply = supply();
    let sheets = |account, upstream| {
        let sheets = supply.sheets(account, upstream, "gpt-4o");
        (sheets.cost_version, sheets.price_version)
    };
    assert_eq!(sheets("a", "x"), (3, 1));
    assert_eq!(sheets("a", "gpt-4o"), (4, 0));
    assert_eq!(sheets("b", "y"), (0, 1));
    assert_eq!(sheets("b", "x"), (0, 0));
}

#[test]
fn a_version_has_every_value_that_an_attempt_needs() {
    let supply = supply();
    let model = &supply.models["m"];
    assert_eq!(model.queue, None);
    let first = &model.targets[0];
    assert_eq!(
        (first.account.name.as_str(), first.tier, first.weight),
        ("a", 0, 80)
    );
    assert_eq!(
        first.cost.map(|cost| (cost.version, cost.unit_nanos)),
        Some((3, Some(30)))
    );
    assert_eq!(first.account.concurrency, Some(7));
    assert_eq!(first.account.cooldown_max, Duration::ZERO);
    assert_eq!(
        first.account.urls[&(Dialect::OpenaiChat, Operation::Create)],
        "https://api.openai.com/v1/chat/completions"
    );
    assert_eq!(
        first.account.credential,
        Some(("authorization".to_owned(), "Bearer {secret}".to_owned()))
    );
    let second = &model.targets[1].account;
    assert_eq!(second.credential, None);
    assert_eq!(
        second.urls[&(Dialect::OpenaiChat, Operation::Create)],
        "http://127.0.0.1:1/v1/chat/completions"
    );
    assert_eq!(
        first.account.proxy,
        Some(Place::Url("http://proxy:3128".to_owned()))
    );
    assert_eq!(second.proxy, Some(Place::Credential("b/proxy".to_owned())));
    assert_eq!(supply.groups["g"].policy, Policy::PowerOfTwo);
    assert_eq!(supply.models_of["a"].len(), 2);
}

#[test]
fn a_credential_goes_where_its_provider_looks_for_it_or_where_it_is_declared_to() {
    let supply = supply();
    for (account, name, format) in [
        ("a", "authorization", "Bearer {secret}"),
        ("n", "x-api-key", "{secret}"),
        ("o", "x-goog-api-key", "{secret}"),
        ("p", "api-key", "Key {secret}"),
    ] {
        let expected = (name.to_owned(), format.to_owned());
        assert_eq!(supply.accounts[account].credential, Some(expected));
    }
}

#[test]
fn a_pattern_takes_its_costs_and_prices_by_the_callers_name() {
    let supply = supply();
    let target = &supply.models["gpt-*"].targets[0];
    assert_eq!(target.upstream_model("gpt-4o"), "gpt-4o");
    assert_eq!(
        supply
            .cost(target, &"gpt-4o".into())
            .map(|cost| cost.version),
        Some(4)
    );
    // A dated name costs what the name costs.
    let dated = supply.cost(target, &"gpt-4o-2024-08-06".into());
    assert_eq!(dated.map(|cost| cost.version), Some(4));
    assert_eq!(supply.cost(target, &"gpt-5".into()), None);
    let models = &supply.announced.models;
    let by_name = |name| models.iter().find(|model| model.name == name).unwrap();
    assert_eq!(by_name("m").price_version, 1);
    assert_eq!(by_name("m").created, 9);
    assert_eq!(by_name("gpt-*").price_version, 0);
    assert_eq!(by_name("gpt-*").list_prices["gpt-4o"], 2);
}

#[test]
fn a_listed_price_is_not_taken_for_that_of_a_model_of_the_same_name() {
    let text = r#"
version: 1
accounts: [{name: a, provider: openai, credential: env:A}]
models:
  - {name: "gpt-*", price_list: l, targets: [{account: a}]}
  - {name: "gpt-4o-*", price_list: k, targets: [{account: a, model: fixed}]}
  - {name: gpt-4o, price: {input: 9}, targets: [{account: a}]}
  - {name: "gpt-4p-*", price_list: k, targets: [{account: a}]}
price_lists:
  - {name: l, prices: {gpt-4o: {input: 1}, gpt-4p: {input: 1}}}
  - {name: k, prices: {gpt-4p: {input: 2}, gpt-4o-x: {per_second: 3}}}
"#;
    let catalogue = switchboard_catalogue::parse(text, "t").unwrap().catalogue;
    let seconds = Sheet {
        rates: Some(Rates {
            per_second: Some(1),
            ..Rates::default()
        }),
        ..sheet(6, "cost", "a/fixed@gpt-4o-x")
    };
    let sheets = [
        sheet(1, "price", "gpt-4o"),
        sheet(2, "price", "gpt-4p"),
        sheet(3, "price", "gpt-4p@gpt-4p-*"),
        sheet(4, "price", "gpt-4o-x"),
        seconds,
    ];
    let document = Document::default().apply(catalogue, &sheets).unwrap();
    let supply = compile(5, 9_000, &document, &Registry::default());
    let prices: Vec<_> = supply
        .announced
        .models
        .iter()
        .map(|model| (model.price_version, model.list_prices.clone()))
        .collect();
    let listed = |name: &str, version| HashMap::from([(name.to_owned(), version)]);
    let expected = [
        (0, listed("gpt-4p", 2)),
        (0, listed("gpt-4o-x", 4)),
        (1, HashMap::new()),
        (0, listed("gpt-4p", 3)),
    ];
    assert_eq!(prices, expected);
    // A cost that follows from the listed price of a pattern whose target has a name; one of seconds alone is one, too.
    let target = &supply.models["gpt-4o-*"].targets[0];
    let cost = supply.cost(target, &"gpt-4o-x-20250101".into());
    assert_eq!(
        cost.map(|cost| (cost.version, cost.unit_nanos)),
        Some((6, None))
    );
}
