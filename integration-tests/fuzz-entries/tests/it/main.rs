//! A bounded run of every target on stable: the committed corpus, and seeded mutations of it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod mutation;

use std::{
    collections::BTreeSet,
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use fuzz_entries::TARGETS;
use mutation::Mutator;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The committed inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = fuzz().join("corpus").join(target);
    let entries = fs::read_dir(&directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", directory.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn smoke(target: &str, mutations: usize) {
    let corpus = corpus(target);
    for input in &corpus {
        fuzz_entries::run(target, input);
    }
    let mut mutator = Mutator::new(target);
    for _ in 0..mutations {
        let input = mutator.mutate(&corpus);
        let held = catch_unwind(|| fuzz_entries::run(target, &input));
        assert!(
            held.is_ok(),
            "{target} does not hold for {:?}",
            String::from_utf8_lossy(&input)
        );
    }
}

/// One test a target, so that they run at the same time.
macro_rules! targets {
    ($($name:ident: $mutations:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name), $mutations);
        })*

        const SMOKED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    sse: 15000,
    objects: 15000,
    event_stream: 15000,
    http1: 15000,
    chat: 6000,
    whole: 9000,
    anthropic: 6000,
    gemini: 6000,
    media: 5000,
    responses: 5000,
    translate: 5000,
    errors: 12000,
    parameters: 15000,
    catalogue: 2500,
    keys: 15000,
}

#[test]
fn every_target_is_smoked_has_a_corpus_and_a_file_for_the_fuzzer() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let targets: BTreeSet<String> = names(&targets);
    assert_eq!(targets, names(SMOKED));
    let files = |directory: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz().join(directory)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(files("fuzz_targets"), targets);
    assert_eq!(files("corpus"), targets);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in &targets {
        let file = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&file), "{file} is missing");
    }
}
