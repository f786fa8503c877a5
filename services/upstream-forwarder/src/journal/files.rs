//! The files of a journal's directory: numbered, of two kinds.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// What the files of a kind end in.
pub(super) type Kind = &'static str;

/// Lines of requests.
pub(super) const SEGMENTS: Kind = ".journal";

/// Digits of a number in a name: more than a directory ever has files.
const DIGITS: usize = 12;

/// Sealed prompts.
pub(super) const PROMPTS: Kind = ".prompts";

pub(super) fn path(directory: &Path, number: u64, kind: Kind) -> PathBuf {
    directory.join(format!("{number:0DIGITS$}{kind}"))
}

/// Makes a file that is written at its end, for its owner alone.
pub(super) fn create(directory: &Path, number: u64, kind: Kind) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).append(true).mode(0o600);
    options.open(path(directory, number, kind))
}

/// Removes a file; one that is gone already is removed.
pub(super) fn remove(directory: &Path, number: u64, kind: Kind) -> io::Result<()> {
    match fs::remove_file(path(directory, number, kind)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The numbers of what is there of a kind, in order.
pub(super) fn numbers(directory: &Path, kind: Kind) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(kind));
        // Only names that we give: a copy of one under another name is none of ours.
        let number = number.filter(|number| {
            number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}
