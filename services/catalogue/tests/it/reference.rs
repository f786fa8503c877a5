//! The reference and the language are one.

use std::collections::BTreeSet;

use switchboard_catalogue::{parse, reference};

use crate::whole::FULL;

/// Alternatives that the full example shows in words only, or leaves out.
const NOT_IN_THE_EXAMPLE: &[&str] = &[
    "accounts[].url_template",
    "accounts[].credential_header",
    "accounts[].credential_header.name",
    "accounts[].credential_header.format",
    "accounts[].cost_factor",
    "accounts[].proxy",
    "accounts[].limits.concurrency",
    "accounts[].errors[].matches",
    "models[].timeouts",
    "models[].commit_after",
    "groups[].share",
    "groups[].price_list",
    "tenants[].users[].budgets",
    "tenants[].keys[].profile",
];

/// Keys whose values are maps by a name that one chooses.
const MAPS: &[&str] = &[
    "costs",
    "prices",
    "names",
    "rename",
    "rescale",
    "roles",
    "fallbacks",
    "routes",
    "tags",
];

/// Sections of one shape that the example uses in some places only.
const SHAPES: &[&str] = &[
    ".limits.",
    ".per_user.",
    "limit_profiles[].",
    ".costs.NAME.",
    ".price.",
    ".prices.NAME.",
    ".windows[].",
    ".budgets[].",
    ".timeouts.",
    ".canary.targets[].",
    ".routes.NAME.",
];

#[test]
fn the_reference_has_every_key_of_the_example() {
    let known: BTreeSet<String> = reference().iter().map(|row| row.path()).collect();
    let used = keys(FULL);
    let missing: Vec<_> = used.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_example_has_every_key_of_the_reference_but_the_named_ones() {
    let used = keys(FULL);
    let extra: Vec<String> = reference()
        .iter()
        .map(|row| row.path())
        .filter(|path| !used.contains(path) && !NOT_IN_THE_EXAMPLE.contains(&path.as_str()))
        .filter(|path| {
            !SHAPES
                .iter()
                .any(|shape| path.contains(shape) || path.starts_with(shape))
        })
        .collect();
    assert!(extra.is_empty(), "{extra:#?}");
}

#[test]
fn every_row_has_a_meaning_and_a_type_and_the_defaults_are_the_parsers() {
    let rows = reference();
    for row in &rows {
        assert!(
            row.meaning.ends_with('.') || row.meaning.contains("; `"),
            "{row:?}"
        );
        assert!(!row.kind.is_empty(), "{row:?}");
    }
    let default = |path: &str| {
        rows.iter()
            .find(|row| row.path() == path)
            .unwrap()
            .default
            .clone()
    };
    for (path, expected) in [
        ("accounts[].name", "required"),
        ("accounts[].transport", "http"),
        ("accounts[].cooldown.max", "10m"),
        ("defaults.timeouts.total", "15m"),
        ("defaults.unsupported", "drop"),
        ("models[].queue.depth", "2000"),
        ("models[].queue.wait", "30s"),
        ("models[].targets[].weight", "1"),
        ("groups[].scheduling.weights.queue", "0.7"),
        ("tenants[].time_zone", "UTC"),
        ("tenants[].keys[].group", "required"),
    ] {
        assert_eq!(default(path), expected, "{path}");
    }
    let canary = rows
        .iter()
        .find(|row| row.path() == "models[].canary.share")
        .unwrap();
    assert!(canary.no_effect.is_some());
    assert!(
        rows.iter()
            .find(|row| row.path() == "models[].targets")
            .unwrap()
            .no_effect
            .is_none()
    );
}

/// A remark of the reference and a warning of the parser are the same thing said twice.
#[test]
fn what_the_parser_warns_of_is_what_the_reference_marks() {
    let rows = reference();
    let marked = |path: &str| {
        let row = rows.iter().find(|row| row.path() == path);
        row.and_then(|row| row.no_effect.clone())
    };
    let mut warned = BTreeSet::new();
    for warning in parse(FULL, "f").unwrap().warnings {
        let Some((_, instead)) = warning
            .message
            .split_once(" has no effect in this version: ")
        else {
            continue;
        };
        let path = generic(&warning.path);
        let remark = marked(&path).unwrap_or_else(|| panic!("{path} is not marked"));
        assert!(remark.ends_with(&format!("{instead}.")), "{path}: {remark}");
        warned.insert(path);
    }
    for path in keys(FULL) {
        let always = marked(&path).is_some_and(|remark| remark.starts_with("No effect yet:"));
        let within = |known: &String| path.strip_prefix(known.as_str()).is_some();
        assert!(!always || warned.iter().any(within), "{path} is no warning");
    }
}

/// A place in a document as the reference has it: positions in lists taken out, names of maps replaced.
fn generic(path: &str) -> String {
    let mut steps: Vec<String> = Vec::new();
    for step in path.split('.') {
        let in_map = steps
            .last()
            .is_some_and(|step| MAPS.contains(&step.as_str()));
        steps.push(match step.split_once('[') {
            _ if in_map => "NAME".to_owned(),
            Some((list, _)) => format!("{list}[]"),
            None => step.to_owned(),
        });
    }
    steps.join(".")
}

/// Each row's key is known to the parser exactly where the row says: another key there is refused, this one is not.
#[test]
fn the_parser_knows_each_key_of_the_reference_where_it_stands() {
    for row in reference() {
        let mut text = format!("{{{}: null, nonsense_key: 1}}", row.key);
        for step in row.section.rsplit('.').filter(|step| !step.is_empty()) {
            text = match step.strip_suffix("[]") {
                Some(name) => format!("{{{name}: [{text}]}}"),
                None => format!("{{{step}: {text}}}"),
            };
        }
        let errors = parse(&text, "f").unwrap_err();
        let unknown: Vec<&str> = errors
            .iter()
            .filter(|error| error.message.starts_with("unknown key"))
            .map(|error| error.message.as_str())
            .collect();
        assert_eq!(
            unknown,
            ["unknown key `nonsense_key`"],
            "{text}\n{errors:#?}"
        );
    }
}

/// Every key that a document uses, list positions and names taken out.
fn keys(text: &str) -> BTreeSet<String> {
    let catalogue = parse(text, "f").unwrap().catalogue;
    let written: BTreeSet<&str> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let mut paths = BTreeSet::new();
    walk(&serde_json::to_value(catalogue).unwrap(), "", &mut paths);
    paths.retain(|path| {
        path.rsplit('.')
            .next()
            .is_some_and(|key| written.contains(key))
    });
    paths
}

fn walk(value: &serde_json::Value, at: &str, paths: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            let in_map = at.rsplit('.').next().is_some_and(|key| MAPS.contains(&key));
            for (key, value) in entries {
                let key = if in_map { "NAME" } else { key };
                let path = if at.is_empty() {
                    key.to_owned()
                } else {
                    format!("{at}.{key}")
                };
                if !in_map {
                    paths.insert(path.clone());
                }
                walk(value, &path, paths);
            }
        }
        serde_json::Value::Array(items) => items
            .iter()
            .for_each(|item| walk(item, &format!("{at}[]"), paths)),
        _ => {}
    }
}
