//! The whole language, the sample, and the JSON form.

use switchboard_catalogue::{
    Catalogue, Concurrency, Dialect, Queue, SAMPLE, SecretRef, Tenant, Transport, parse,
};

pub(crate) const FULL: &str = include_str!("../fixtures/full.yaml");

#[test]
fn the_whole_language_is_read_without_errors() {
    let catalogue = parse(FULL, "full.yaml")
        .unwrap_or_else(|errors| panic!("{errors:#?}"))
        .catalogue;
    let main = &catalogue.accounts[0];
    assert_eq!(
        main.credential,
        Some(SecretRef::Env("OPENAI_API_KEY".to_owned()))
    );
    assert_eq!(main.concurrency, Some(Concurrency::Slots(50)));
    assert_eq!(
        main.costs["gpt-4o"].cached_input.unwrap().nanos(),
        1_250_000_000
    );
    assert_eq!(catalogue.accounts[1].transport, Transport::Websocket);
    assert_eq!(catalogue.accounts[2].concurrency, Some(Concurrency::Auto));
    let model = &catalogue.models[0];
    assert_eq!(model.accepts.as_deref().unwrap()[0], Dialect::OpenaiChat);
    assert_eq!(
        model
            .targets
            .iter()
            .map(|target| (target.weight, target.tier))
            .collect::<Vec<_>>(),
        [(80, 0), (20, 0), (1, 1)]
    );
    let Some(Queue::Bounded(queue)) = &model.queue else {
        panic!("a queue")
    };
    assert_eq!((queue.depth, queue.wait.as_millis()), (2000, 30_000));
    assert_eq!(
        model
            .price
            .as_ref()
            .unwrap()
            .cache_write_5m
            .unwrap()
            .nanos(),
        3_125_000_000
    );
    let list = &catalogue.price_lists[0];
    assert_eq!(
        list.price("whisper").unwrap().per_second.unwrap().nanos(),
        100_000
    );
    let group = &catalogue.groups[0];
    assert_eq!(group.multiplier().millionths(), 1_200_000);
    assert_eq!(group.minimum_margin.unwrap().millionths(), 50_000);
    assert_eq!(
        group
            .limits
            .as_ref()
            .unwrap()
            .per_user
            .as_ref()
            .unwrap()
            .concurrency,
        Some(10)
    );
    let tenant = &catalogue.tenants[0];
    assert_eq!(tenant.balance.unwrap().nanos(), 100_000_000_000);
    assert_eq!(tenant.keys[0].expires.unwrap().to_string(), "2027-12-31");
}

#[test]
fn constructs_without_effect_are_warnings_with_their_line() {
    let parsed = parse(FULL, "full.yaml").unwrap();
    let lines: Vec<&str> = FULL.lines().collect();
    for warning in &parsed.warnings {
        // Where the warning points, the construct or its value stands.
        let line = lines[warning.line as usize - 1];
        let key = warning
            .path
            .rsplit('.')
            .next()
            .unwrap()
            .split('[')
            .next()
            .unwrap();
        let above = lines[warning.line as usize - 2];
        assert!(
            line.contains(key) || above.contains(key),
            "{warning}\n{line}"
        );
    }
    let paths: Vec<&str> = parsed
        .warnings
        .iter()
        .map(|warning| warning.path.as_str())
        .collect();
    for expected in [
        "accounts[0].breaker",
        "accounts[1].transport",
        "accounts[1].oauth",
        "accounts[1].gather",
        "accounts[1].windows",
        "accounts[1].flat_cost",
        "accounts[2].concurrency",
        "accounts[2].probe",
        "oauth_providers",
        "models[0].warning_line",
        "models[0].long_context",
        "models[0].fallback",
        "models[0].canary",
        "models[1].price.above",
        "models[1].price.from",
        "groups[0].minimum_margin",
        "subscriptions",
        "tenants[0].subscription",
        "tenants[0].time_zone",
        "tenants[0].fallbacks",
        "tenants[0].apps",
    ] {
        assert!(paths.contains(&expected), "{expected} in {paths:#?}");
    }
    for effective in [
        "models[0].accepts[2]",
        "tenants[0].budgets[0].window",
        "tenants[0].routes",
        "groups[0].class",
        "tenants[0].log_content",
        "accounts[0].concurrency",
    ] {
        assert!(!paths.contains(&effective), "{effective}");
    }
}

#[test]
fn the_sample_is_read_without_errors_and_without_warnings() {
    let parsed =
        parse(SAMPLE, "catalogue.sample.yaml").unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert_eq!(parsed.warnings, []);
    assert_eq!(parsed.catalogue.models.len(), 2);
}

#[test]
fn json_carries_a_catalogue_without_loss() {
    for text in [FULL, SAMPLE, "version: 1"] {
        let catalogue = parse(text, "f").unwrap().catalogue;
        let json = serde_json::to_string(&catalogue).unwrap();
        assert_eq!(serde_json::from_str::<Catalogue>(&json).unwrap(), catalogue);
    }
}

#[test]
fn json_refuses_unknown_keys_and_says_which_was_meant() {
    let error = serde_json::from_str::<Tenant>(r#"{"name": "a", "balanse": "1"}"#)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("unknown key `balanse`; did you mean `balance`?"),
        "{error}"
    );
}

#[test]
fn absent_and_empty_lists_differ_where_absence_means_all() {
    let absent = parse("groups: [{name: all}]", "f").unwrap().catalogue;
    assert_eq!(absent.groups[0].models, None);
    let errors = parse("groups: [{name: none, models: []}]", "f").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(errors[0].path, "groups[0].models");
}

#[test]
fn the_supply_side_stands_alone_and_knows_no_credentials() {
    let catalogue = parse(FULL, "f").unwrap().catalogue;
    let supply = catalogue.supply();
    assert_eq!(supply.tenants, []);
    assert_eq!(supply.check(), Ok(()));
    assert_eq!(catalogue.check(), Ok(()));
    let json = serde_json::to_string(&supply).unwrap();
    assert!(
        !json.contains("OPENAI_API_KEY") && json.contains("gpt-4o"),
        "{json}"
    );
    let mut broken = supply;
    broken.accounts.remove(0);
    let errors = broken.check().unwrap_err();
    assert_eq!(
        (errors[0].line, errors[0].path.as_str()),
        (0, "models[0].targets[0].account")
    );
}
