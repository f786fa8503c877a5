//! `deploy/reference/requirements.md` says what each number means that the repository names, and names no number that is not
//! used, but for what is not there yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Folders of others' making, and inputs of tests.
const PASSED_OVER: &[&str] = &["target", "corpus", "fixtures", "switchboard-data"];
const ENDINGS: &[&str] = &["md", "rs", "proto", "yaml", "toml", "sql"];

#[test]
fn every_number_is_explained_and_every_explanation_is_used() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = root.join("deploy/reference/requirements.md");
    let entries: BTreeMap<String, bool> = std::fs::read_to_string(&list)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("- **")?.split_once("** "))
        .map(|(number, text)| (number.to_owned(), text.starts_with("*Not yet.*")))
        .collect();
    let families: BTreeSet<&str> = entries.keys().map(|number| family(number)).collect();
    let mut used = BTreeMap::new();
    walk(&root, &mut |path, text| {
        if path.ends_with("deploy/reference/requirements.md") {
            return;
        }
        for line in text.lines() {
            let cases = line.contains("CASES");
            for word in line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
                let family = family(word);
                if is_number(word) && families.contains(family) && (cases || family.len() > 1) {
                    used.entry(word.to_owned())
                        .or_insert_with(|| path.to_owned());
                }
            }
        }
    });
    let unexplained: Vec<_> = used
        .iter()
        .filter(|(number, _)| !entries.contains_key(*number))
        .collect();
    assert!(
        unexplained.is_empty(),
        "not in deploy/reference/requirements.md: {unexplained:#?}"
    );
    let unused: Vec<_> = entries
        .iter()
        .filter(|(number, not_yet)| !**not_yet && !used.contains_key(*number))
        .collect();
    assert!(
        unused.is_empty(),
        "explained, and named nowhere: {unused:?}"
    );
}

/// `FWD` of `FWD-3`, `A` of `A25`.
fn family(number: &str) -> &str {
    number
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .trim_end_matches('-')
}

/// Capitals, then digits; a hyphen between them unless it is a case's.
fn is_number(word: &str) -> bool {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let capitals = name.strip_suffix('-').unwrap_or(name);
    let hyphen = capitals.len() < name.len();
    name.len() < word.len()
        && !capitals.is_empty()
        && capitals.bytes().all(|b| b.is_ascii_uppercase())
        && hyphen == (capitals.len() > 1)
}

fn walk(folder: &Path, found: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !PASSED_OVER.contains(&name.as_str()) {
                walk(&path, found);
            }
            continue;
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        if name == "Makefile" || ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            found(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
