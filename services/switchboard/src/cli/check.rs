//! `config check` (OPS-1): settings as they count, a catalogue's mistakes and warnings, and the final address of each
//! account. Nothing is reached for and no secret is resolved or shown.

use serde::Serialize;
use serde_json::Value;
use switchboard_catalogue::{Catalogue, Diagnostic, Operation};
use switchboard_common::{grpc::Role, settings::Override};

use super::{
    apply::parse,
    args::{Check, Place},
    exit::{Error, Exit},
    screen::Screen,
    table::Table,
};
use crate::{serve::read_settings, settings::Settings};

/// Stands for a model's name in an address.
const MODEL: &str = "{model}";
const MODEL_IN_PATH: &str = "%7Bmodel%7D";

/// The JSON form of what was found.
#[derive(Serialize)]
struct Shown {
    settings: Option<Value>,
    settings_error: Option<String>,
    errors: Vec<Found>,
    warnings: Vec<Found>,
    upstreams: Vec<Upstream>,
}

/// A diagnostic.
#[derive(Serialize)]
struct Found {
    file: String,
    line: u32,
    column: u32,
    path: String,
    message: String,
    fix: String,
}

impl From<Diagnostic> for Found {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            file: diagnostic.file,
            line: diagnostic.line,
            column: diagnostic.column,
            path: diagnostic.path,
            message: diagnostic.message,
            fix: diagnostic.fix,
        }
    }
}

/// Where an account is reached in one wire format.
#[derive(Serialize)]
struct Upstream {
    account: String,
    dialect: String,
    url: String,
}

/// Checks both files; wrong ones are exit 1.
pub(super) fn check(place: &Place, flags: &Check, screen: &mut Screen<'_>) -> Result<Exit, Error> {
    let (settings, settings_error) = match settings(place, flags) {
        Ok(settings) => (Some(settings), None),
        Err(error) => {
            screen.note(format_args!("error: {error}"));
            (None, Some(error))
        }
    };
    let mut shown = Shown {
        settings,
        settings_error,
        errors: Vec::new(),
        warnings: Vec::new(),
        upstreams: Vec::new(),
    };
    if let Some(path) = &flags.file {
        match parse(path, screen)? {
            Ok(parsed) => {
                shown.upstreams = upstreams(&parsed.catalogue);
                shown.warnings = parsed.warnings.into_iter().map(Into::into).collect();
            }
            Err(mistakes) => shown.errors = mistakes.into_iter().map(Into::into).collect(),
        }
    }
    let is_wrong = shown.settings_error.is_some() || !shown.errors.is_empty();
    if screen.is_json() {
        screen.json(&shown)?;
    } else {
        tables(&shown, flags, screen)?;
    }
    Ok(if is_wrong { Exit::Wrong } else { Exit::Ok })
}

/// The settings as they count, without secrets and without what is not set and has no default.
fn settings(place: &Place, flags: &Check) -> Result<Value, String> {
    let dir = place
        .data_dir
        .as_ref()
        .map(|path| Override::flag("--data-dir", "data_dir", path.display().to_string()));
    let settings = read_settings(flags.settings.as_deref(), dir.as_slice())
        .map_err(|error| error.to_string())?;
    let processes = processes(&settings, flags);
    for roles in &processes {
        settings.check(roles).map_err(|error| error.to_string())?;
    }
    // Settings for several processes are shown as they stand: what counts by default depends on the process.
    let counted = match processes.as_slice() {
        [roles] => settings.effective(roles),
        _ => settings,
    };
    let mut shown = serde_json::to_value(counted.shown()).map_err(|error| error.to_string())?;
    omit_absent(&mut shown);
    Ok(shown)
}

/// The roles of each process that the settings may be for. Settings that name peers are a split system's: where no roles are
/// given, each of them is checked in a process of its own.
fn processes(settings: &Settings, flags: &Check) -> Vec<Vec<Role>> {
    if !flags.roles.is_empty() {
        vec![flags.roles.clone()]
    } else if settings.peers.are_given() {
        Role::ALL.iter().map(|role| vec![*role]).collect()
    } else {
        vec![Role::ALL.to_vec()]
    }
}

fn omit_absent(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(omit_absent);
    }
}

fn upstreams(catalogue: &Catalogue) -> Vec<Upstream> {
    let mut found = Vec::new();
    for account in &catalogue.accounts {
        for dialect in account.dialects() {
            if let Some(url) = account.url_for(*dialect, Operation::Create, MODEL) {
                found.push(Upstream {
                    account: account.name.clone(),
                    dialect: dialect.to_string(),
                    url: url.replace(MODEL_IN_PATH, MODEL),
                });
            }
        }
    }
    found
}

fn tables(shown: &Shown, flags: &Check, screen: &mut Screen<'_>) -> Result<(), Error> {
    if let Some(settings) = &shown.settings {
        let text = serde_saphyr::to_string(settings)
            .map_err(|error| Error::Wrong(format!("the settings cannot be shown: {error}")))?;
        screen.line("# Settings")?;
        screen.line(text.trim_end())?;
    }
    if flags.file.is_some() && shown.errors.is_empty() {
        let mut table = Table::new(&["ACCOUNT", "DIALECT", "URL"]);
        for upstream in &shown.upstreams {
            table.row([
                upstream.account.clone(),
                upstream.dialect.clone(),
                upstream.url.clone(),
            ]);
        }
        screen.line("# Upstreams")?;
        screen.table(&table, "no accounts")?;
    }
    let wrong = shown.errors.len() + usize::from(shown.settings_error.is_some());
    screen.note(format_args!(
        "{wrong} wrong, {} warnings",
        shown.warnings.len()
    ));
    Ok(())
}
