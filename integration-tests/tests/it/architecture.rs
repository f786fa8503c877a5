//! Which crate may see which, and that the documents say so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .current_dir(repository())
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .unwrap();
    let members = metadata.workspace_packages();
    members.into_iter().cloned().collect()
}

/// Our crates that a crate depends on, of these kinds.
fn ours(package: &Package, names: &BTreeSet<String>, kinds: &[DependencyKind]) -> BTreeSet<String> {
    let ours = package
        .dependencies
        .iter()
        .filter(|dependency| kinds.contains(&dependency.kind) && names.contains(&dependency.name));
    ours.map(|dependency| dependency.name.clone()).collect()
}

const SERVICES: [&str; 5] = [
    "switchboard-auth",
    "switchboard-scheduler",
    "switchboard-forwarder",
    "switchboard-token-refresh",
    "switchboard-billing",
];

/// Crates that see everything: the program, and what tests and measures it whole.
const WHOLE: [&str; 3] = [
    "switchboard",
    "switchboard-integration-tests",
    "switchboard-bench",
];

/// What a crate may depend on in what it ships.
fn allowed(name: &str) -> Option<BTreeSet<&'static str>> {
    let base = ["switchboard-proto", "switchboard-common"];
    let with = |more: &[&'static str]| Some(base.iter().chain(more).copied().collect());
    match name {
        "switchboard-proto" | "switchboard-catalogue" | "fake-upstream" => Some(BTreeSet::new()),
        "switchboard-dialects" => Some(BTreeSet::from(["switchboard-proto"])),
        "switchboard-common" => Some(BTreeSet::from(["switchboard-proto"])),
        "switchboard-state" => with(&[]),
        "switchboard-migrations" => Some(BTreeSet::new()),
        "switchboard-edge" => with(&["switchboard-dialects"]),
        "switchboard-auth" | "switchboard-token-refresh" | "switchboard-billing" => {
            with(&["switchboard-state"])
        }
        "switchboard-scheduler" => with(&["switchboard-state", "switchboard-catalogue"]),
        "switchboard-forwarder" => with(&["switchboard-state", "switchboard-dialects"]),
        "sample-adapter" => Some(BTreeSet::from([
            "switchboard-dialects",
            "switchboard-forwarder",
        ])),
        "fuzz-entries" => Some(BTreeSet::from([
            "switchboard-catalogue",
            "switchboard-dialects",
        ])),
        _ => None,
    }
}

#[test]
fn crates_depend_in_one_direction() {
    let packages = packages();
    let names: BTreeSet<String> = packages
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    for package in &packages {
        let name = package.name.as_str();
        let shipped = ours(
            package,
            &names,
            &[DependencyKind::Normal, DependencyKind::Build],
        );
        if WHOLE.contains(&name) {
            continue;
        }
        let allowed = allowed(name).unwrap_or_else(|| {
            panic!("crate `{name}` has no place in the architecture; give it one here")
        });
        for dependency in &shipped {
            assert!(
                allowed.contains(dependency.as_str()),
                "`{name}` must not depend on `{dependency}`"
            );
        }
        // In tests a store may be migrated; a neighbour is still met through its proto alone.
        for dependency in ours(package, &names, &[DependencyKind::Development]) {
            let service = SERVICES.contains(&dependency.as_str()) && dependency != name;
            assert!(
                !service && !WHOLE.contains(&dependency.as_str()),
                "`{name}` must not test with `{dependency}`"
            );
        }
    }
}

#[test]
fn the_crate_table_of_the_architecture_page_is_true() {
    let root = repository();
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let header = "| crate | directory | depends on (ours) |";
    let table = text
        .split(header)
        .nth(1)
        .unwrap_or_else(|| panic!("ARCHITECTURE.md has no table `{header}`"));
    let mut written = BTreeMap::new();
    for line in table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
    {
        let cells: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        let names = cells[2].split(',').map(|name| name.trim().to_owned());
        let names: BTreeSet<String> = names
            .filter(|name| name.starts_with("switchboard") || name == "fake-upstream")
            .collect();
        written.insert(
            cells[0].clone(),
            (cells[1].trim_end_matches('/').to_owned(), names),
        );
    }
    let packages = packages();
    let names: BTreeSet<String> = packages
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    let mut real = BTreeMap::new();
    for package in &packages {
        let directory = package.manifest_path.parent().unwrap().as_std_path();
        let directory = directory.strip_prefix(&root).unwrap().display().to_string();
        let dependencies = ours(
            package,
            &names,
            &[DependencyKind::Normal, DependencyKind::Build],
        );
        real.insert(package.name.to_string(), (directory, dependencies));
    }
    assert_eq!(written, real);
}

/// Rust sources of a directory, without what is generated.
pub(crate) fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn no_crate_exports_by_glob() {
    for package in packages() {
        for target in &package.targets {
            let path = target.src_path.as_std_path();
            if !path.ends_with("src/lib.rs") {
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let glob = text
                .lines()
                .find(|line| line.trim_start().starts_with("pub use") && line.contains('*'));
            assert!(glob.is_none(), "{}: {glob:?}", path.display());
        }
    }
}

#[test]
fn billing_knows_no_floating_point() {
    for path in sources(&repository().join("services/billing/src")) {
        // Seconds of a histogram are no money.
        if path.ends_with("observation.rs") {
            continue;
        }
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let floats = code
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| {
                    ["f32", "f64"].contains(&word)
                        || word.ends_with("_f64")
                        || word.ends_with("_f32")
                });
            let observed = code.contains("as_secs_f64") && code.contains("observe");
            assert!(
                !floats || observed,
                "{}:{}: {line}",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn no_source_file_is_longer_than_a_reader_bears() {
    for package in packages() {
        let directory = package.manifest_path.parent().unwrap().join("src");
        for path in sources(directory.as_std_path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.contains("tests") {
                continue;
            }
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(
                lines <= 700,
                "{} has {lines} lines; aim at 300, 500 at most",
                path.display()
            );
        }
    }
}
