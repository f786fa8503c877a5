//! `apply`: a catalogue file becomes true (ROUTE-7). What it says and does stands in [`crate::apply`]; here is how it looks.

use std::path::Path;

use serde::Serialize;
use switchboard_catalogue::{Diagnostic, Parsed};
use switchboard_proto::{auth::v1::IssuedKey, common::v1::PlannedChange};

use super::{
    actor,
    args::{Apply, Place},
    exit::{Error, Exit},
    json::{Json, Protos},
    screen::Screen,
    table::plain,
};
use crate::apply::{self, AdminClients, Fragments, Outcome, SystemSecrets};

/// Reads a catalogue file and resolves its secrets. Each mistake and each warning is a line for the person.
pub(super) fn read(path: &Path, screen: &mut Screen<'_>) -> Result<Fragments, Error> {
    let parsed = parse(path, screen)?.map_err(|mistakes| {
        Error::Wrong(format!(
            "{}: {}; nothing was applied",
            path.display(),
            count(mistakes.len())
        ))
    })?;
    Fragments::of(&parsed.catalogue, &SystemSecrets).map_err(|problems| {
        for problem in &problems {
            screen.note(format_args!("{}: {problem}", path.display()));
        }
        let count = count(problems.len());
        Error::Wrong(format!(
            "{}: {count} in references to secrets; nothing was applied",
            path.display()
        ))
    })
}

/// Reads a catalogue file. Each mistake and each warning is a line for the person.
pub(super) fn parse(
    path: &Path,
    screen: &mut Screen<'_>,
) -> Result<Result<Parsed, Vec<Diagnostic>>, Error> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Wrong(format!("{name} cannot be read: {error}")))?;
    let parsed = switchboard_catalogue::parse(&text, &name);
    match &parsed {
        Ok(parsed) => {
            for warning in &parsed.warnings {
                screen.note(format_args!("warning: {}", plain(&warning.to_string())));
            }
        }
        Err(mistakes) => {
            for mistake in mistakes {
                screen.note(plain(&mistake.to_string()));
            }
        }
    }
    Ok(parsed)
}

fn count(mistakes: usize) -> String {
    match mistakes {
        1 => "1 mistake".to_owned(),
        more => format!("{more} mistakes"),
    }
}

/// The JSON form of an outcome.
#[derive(Serialize)]
struct Shown {
    dry_run: bool,
    changes: Vec<Json>,
    issued: Vec<Json>,
    catalogue_version: String,
}

/// Plans, or plans and commits, and shows what changes.
pub(super) async fn apply(
    clients: &AdminClients,
    flags: &Apply,
    fragments: &Fragments,
    place: &Place,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let actor = actor(&format!("file:{}", flags.file.display()), place);
    let outcome = if flags.dry_run {
        apply::plan(clients, fragments, &actor).await?
    } else {
        apply::apply(clients, fragments, &actor)
            .await
            .inspect_err(|error| {
                // Their only copy: the key exists, and no later run makes it again.
                for key in error.issued() {
                    screen.note(issued(key));
                }
            })?
    };
    show(&outcome, flags.dry_run, screen)?;
    Ok(Exit::Ok)
}

fn show(outcome: &Outcome, dry_run: bool, screen: &mut Screen<'_>) -> Result<(), Error> {
    if screen.is_json() {
        let protos = Protos::load()?;
        return screen.json(&Shown {
            dry_run,
            changes: protos.messages(&outcome.changes)?,
            issued: protos.messages(&outcome.issued)?,
            catalogue_version: outcome.catalogue_version.to_string(),
        });
    }
    for planned in &outcome.changes {
        screen.line(change(planned))?;
    }
    let version = outcome.catalogue_version;
    match (outcome.changes.len(), dry_run) {
        (0, _) => screen.line(format_args!(
            "nothing to change; catalogue version {version}"
        ))?,
        (many, true) => screen.line(format_args!(
            "{many} to change; nothing was written; catalogue version is {version}"
        ))?,
        (many, false) => {
            screen.line(format_args!("{many} changed; catalogue version {version}"))?
        }
    }
    for key in &outcome.issued {
        screen.line(issued(key))?;
    }
    Ok(())
}

fn change(change: &PlannedChange) -> String {
    let sign = match change.kind.as_str() {
        "add" => '+',
        "disable" => '-',
        _ => '~',
    };
    let text = format!(
        "{sign} {} {}  {}",
        change.section, change.name, change.detail
    );
    plain(text.trim_end())
}

/// A secret, shown this once.
fn issued(key: &IssuedKey) -> String {
    format!(
        "key {}/{}: {}   (shown once)",
        key.tenant, key.name, key.secret
    )
}
