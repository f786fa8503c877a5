//! Every sample that the repository shows is one that works.

use std::path::{Path, PathBuf};

use switchboard::settings::Settings;

use crate::architecture::repository;

/// Files of the repository with one of these endings, without what is built or installed.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![repository()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.')
                    && name != "target"
                    && !name.starts_with("switchboard-data")
                {
                    open.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_catalogue_is_read_without_a_mistake() {
    let catalogues: Vec<_> = files(&[".yaml", ".yml"])
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.contains("catalogue") || text(path).lines().any(|line| line == "version: 1")
        })
        .collect();
    assert!(!catalogues.is_empty());
    for path in catalogues {
        let name = path.display().to_string();
        if let Err(mistakes) = switchboard_catalogue::parse(&text(&path), &name) {
            panic!(
                "{}",
                mistakes
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\n")
            );
        }
    }
    switchboard_catalogue::parse(switchboard_catalogue::SAMPLE, "sample").unwrap();
}

#[test]
fn every_settings_file_is_read_without_a_mistake() {
    let samples = files(&["settings.sample.yaml", "settings.yaml"]);
    for path in samples {
        let name = path.display().to_string();
        let read: Result<Settings, _> =
            switchboard_common::settings::load(Some((&name, &text(&path))), &[]);
        read.unwrap_or_else(|error| panic!("{error}"));
    }
}
