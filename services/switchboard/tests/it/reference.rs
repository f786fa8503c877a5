//! `deploy/reference` is true: every key of catalogue and settings, with its default. `UPDATE_REFERENCE=1` rewrites it;
//! what a setting means stays as it was written there.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use serde_json::Value;
use switchboard::settings::Settings;
use switchboard_common::grpc::Role;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/reference")
        .join(name)
}

fn compare(name: &str, expected: &str) {
    let path = file(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "deploy/reference/{name} is not what the code says; run `make reference` and read the difference"
    );
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn every_key_of_the_catalogue_is_in_its_reference() {
    let mut text = String::from(
        "# The catalogue's keys\n\nGenerated from the code. `[]` is a list, `NAME` a name that you choose. What is \
         marked *no effect yet* is read and checked, and each use of it is a warning with its line.\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n",
    );
    for row in switchboard_catalogue::reference() {
        let note = row
            .no_effect
            .as_ref()
            .map(|remark| format!(" *{remark}*"))
            .unwrap_or_default();
        writeln!(
            text,
            "| `{}` | {} | {} | {}{} |",
            row.path(),
            cell(&row.kind),
            cell(&row.default),
            cell(&row.meaning),
            cell(&note)
        )
        .unwrap();
    }
    compare("catalogue.md", &text);
}

#[test]
fn every_setting_is_in_its_reference_with_its_default_and_a_meaning() {
    let known: BTreeMap<String, String> = std::fs::read_to_string(file("settings.md"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.splitn(2, '`');
            let (key, rest) = (cells.next()?, cells.next()?);
            let meaning = rest.rsplit(" | ").next()?.trim_end_matches(" |");
            Some((key.to_owned(), meaning.to_owned()))
        })
        .collect();
    let mut text = String::from(
        "# The settings\n\nThree places may say a setting; a later one wins: a YAML file (`--settings`), where the dots are \
         nested keys; the environment; for some, flags. In the environment a setting is `SWITCHBOARD_` and its path in \
         capitals, with two underscores for each dot and one for each `-`: `database.url` is `SWITCHBOARD_DATABASE__URL`, \
         `peers.token-refresh` is `SWITCHBOARD_PEERS__TOKEN_REFRESH`. One that stands in no section has its two underscores \
         in front: `master_key_file` is `SWITCHBOARD__MASTER_KEY_FILE`. Lists are written `a,b` or as JSON; other names that \
         begin with `SWITCHBOARD_` are no settings.\n\nNumbers such as BILL-5 are [requirements](requirements.md). Generated \
         from the code but for the meanings, which are kept.\n\n| setting | default | meaning |\n| --- | --- | --- |\n",
    );
    let mut without = Vec::new();
    let defaults = Settings::default().effective(&Role::ALL);
    let defaults = serde_json::to_value(defaults).unwrap();
    leaves("", &defaults, &mut |key, default| {
        let meaning = known.get(key).cloned().unwrap_or_default();
        if meaning.is_empty() {
            without.push(key.to_owned());
        }
        writeln!(text, "| `{key}` | {default} | {meaning} |").unwrap();
    });
    compare("settings.md", &text);
    assert!(
        without.is_empty(),
        "settings without a meaning: {without:?}"
    );
}

fn leaves(prefix: &str, value: &Value, found: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() {
                    key.clone()
                } else {
                    format!("{prefix}.{key}")
                };
                leaves(&path, value, found);
            }
        }
        Value::Null => found(prefix, "–"),
        Value::String(text) if text.is_empty() => found(prefix, "–"),
        Value::String(text) => found(prefix, &format!("`{text}`")),
        other => found(prefix, &format!("`{other}`")),
    }
}
