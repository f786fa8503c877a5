//! The content of one catalogue version: the supply side, and the sheets that billing made of its prices (DESIGN §3).
//!
//! What a file brought and no longer brings is disabled, never deleted (ROUTE-7). Two documents that are equal are one version.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use switchboard_catalogue::{AccountStatus, Catalogue, ChangeKind, ModelStatus, diff};
use switchboard_proto::scheduler::v1::{Rates, Sheet};

/// One version's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Accounts, models, groups and what they refer to; no tenants, no secrets.
    pub catalogue: Catalogue,
    /// Groups that left their file: no account serves them.
    #[serde(default)]
    pub retired_groups: BTreeSet<String>,
    /// Price sheets by subject ([`Catalogue::priced`]).
    #[serde(default)]
    pub prices: BTreeMap<String, SheetRow>,
    /// Cost sheets by `account/upstream_model` or, before it, `account/upstream_model@public_model`.
    #[serde(default)]
    pub costs: BTreeMap<String, SheetRow>,
}

/// A sheet that billing made; immutable under its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SheetRow {
    /// Billing's number.
    pub version: u64,
    /// Nano-USD of a million input tokens.
    #[serde(default)]
    pub input: Option<i64>,
    /// Nano-USD of a million output tokens.
    #[serde(default)]
    pub output: Option<i64>,
    /// Nano-USD of a request.
    #[serde(default)]
    pub per_request: Option<i64>,
}

impl SheetRow {
    /// What sheets are compared by: a million input and a million output tokens, else a request.
    #[must_use]
    pub fn unit_nanos(&self) -> Option<i64> {
        match (self.input, self.output) {
            (None, None) => self.per_request,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        }
    }
}

/// What an operator is about to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// `account`, `model`, `group`, `price`, `cost`, …
    pub section: String,
    /// Which one.
    pub name: String,
    /// `add`, `change`, `disable`.
    pub kind: &'static str,
    /// Changed fields, old → new.
    pub detail: String,
}

impl std::fmt::Display for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.kind, self.section, self.name)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

/// A catalogue that cannot be a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Document {
    /// The document that follows when `incoming` is applied.
    ///
    /// # Errors
    /// `incoming` refers to what does not exist, or holds a sheet of no known kind.
    pub fn apply(&self, mut incoming: Catalogue, sheets: &[Sheet]) -> Result<Self, Invalid> {
        incoming.tenants.clear();
        check(&incoming)?;
        let mut next = Self {
            retired_groups: BTreeSet::new(),
            // A sheet that left would stand before those that hold now: what was pinned to it has its version.
            prices: BTreeMap::new(),
            costs: BTreeMap::new(),
            catalogue: Catalogue::default(),
        };
        for sheet in sheets {
            let rates = sheet.rates.unwrap_or_default();
            let row = row(sheet.version, &rates);
            match sheet.kind.as_str() {
                "price" => next.prices.insert(sheet.subject.clone(), row),
                "cost" => next.costs.insert(sheet.subject.clone(), row),
                other => {
                    return Err(Invalid(format!(
                        "sheets: `{other}` is no kind of sheet; expected price or cost"
                    )));
                }
            };
        }
        keep(
            &self.catalogue.accounts,
            &mut incoming.accounts,
            |a| a.name.clone(),
            |a| {
                a.status = AccountStatus::Disabled;
            },
        );
        keep(
            &self.catalogue.models,
            &mut incoming.models,
            |m| m.name.clone(),
            |m| {
                m.status = ModelStatus::Disabled;
            },
        );
        let named: BTreeSet<_> = incoming.groups.iter().map(|g| g.name.clone()).collect();
        keep(
            &self.catalogue.groups,
            &mut incoming.groups,
            |g| g.name.clone(),
            |_| (),
        );
        next.retired_groups = incoming
            .groups
            .iter()
            .map(|group| group.name.clone())
            .filter(|name| !named.contains(name))
            .collect();
        next.catalogue = incoming;
        Ok(next)
    }

    /// What `next` changes.
    #[must_use]
    pub fn plan(&self, next: &Self) -> Vec<Planned> {
        let mut planned: Vec<Planned> = diff(&self.catalogue, &next.catalogue)
            .into_iter()
            .map(|change| {
                let disabled = change.fields.iter().any(|field| {
                    field.path == "status"
                        && field.new.as_deref().is_some_and(|s| s.contains("disabled"))
                });
                let detail: Vec<String> = change
                    .fields
                    .iter()
                    .map(|field| {
                        format!(
                            "{} {} → {}",
                            field.path,
                            field.old.as_deref().unwrap_or("(absent)"),
                            field.new.as_deref().unwrap_or("(absent)")
                        )
                    })
                    .collect();
                Planned {
                    section: change.section.to_string(),
                    name: change.name,
                    kind: match change.kind {
                        ChangeKind::Added => "add",
                        ChangeKind::Changed if disabled => "disable",
                        ChangeKind::Changed => "change",
                        ChangeKind::Disabled => "disable",
                    },
                    detail: detail.join(", "),
                }
            })
            .collect();
        let group = |name: &String, kind| Planned {
            section: "group".to_owned(),
            name: name.clone(),
            kind,
            detail: String::new(),
        };
        planned.extend(
            next.retired_groups
                .difference(&self.retired_groups)
                .map(|name| group(name, "disable")),
        );
        planned.extend(
            self.retired_groups
                .difference(&next.retired_groups)
                .map(|name| Planned {
                    detail: "status: disabled → active".to_owned(),
                    ..group(name, "change")
                }),
        );
        sheets("price", &self.prices, &next.prices, &mut planned);
        sheets("cost", &self.costs, &next.costs, &mut planned);
        planned
    }
}

fn row(version: u64, rates: &Rates) -> SheetRow {
    SheetRow {
        version,
        input: rates.input,
        output: rates.output,
        per_request: rates.per_request,
    }
}

/// Appends what is in `old` alone, after `disable`.
fn keep<T: Clone>(
    old: &[T],
    incoming: &mut Vec<T>,
    name: impl Fn(&T) -> String,
    disable: impl Fn(&mut T),
) {
    let named: BTreeSet<String> = incoming.iter().map(&name).collect();
    for entry in old.iter().filter(|entry| !named.contains(&name(entry))) {
        let mut left = entry.clone();
        disable(&mut left);
        incoming.push(left);
    }
}

fn sheets(
    section: &str,
    old: &BTreeMap<String, SheetRow>,
    new: &BTreeMap<String, SheetRow>,
    planned: &mut Vec<Planned>,
) {
    for (subject, row) in new {
        let before = old.get(subject);
        if before == Some(row) {
            continue;
        }
        planned.push(Planned {
            section: section.to_owned(),
            name: subject.clone(),
            kind: if before.is_some() { "change" } else { "add" },
            detail: match before {
                Some(before) => format!("sheet {} → {}", before.version, row.version),
                None => format!("sheet {}", row.version),
            },
        });
    }
    for (subject, row) in old
        .iter()
        .filter(|(subject, _)| !new.contains_key(*subject))
    {
        planned.push(Planned {
            section: section.to_owned(),
            name: subject.clone(),
            kind: "disable",
            detail: format!("sheet {}", row.version),
        });
    }
}

/// The references that a version needs; the file's own mistakes were told with their lines before.
fn check(catalogue: &Catalogue) -> Result<(), Invalid> {
    let accounts: BTreeSet<&str> = catalogue.accounts.iter().map(|a| a.name.as_str()).collect();
    unique(
        "accounts",
        catalogue.accounts.iter().map(|a| a.name.as_str()),
    )?;
    unique("models", catalogue.models.iter().map(|m| m.name.as_str()))?;
    unique("groups", catalogue.groups.iter().map(|g| g.name.as_str()))?;
    for model in &catalogue.models {
        for target in &model.targets {
            known(&accounts, &target.account, || {
                format!("model `{}`: targets", model.name)
            })?;
        }
    }
    for group in &catalogue.groups {
        for account in group.accounts.iter().flatten() {
            known(&accounts, account, || {
                format!("group `{}`: accounts", group.name)
            })?;
        }
    }
    Ok(())
}

fn unique<'a>(section: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Invalid(format!("{section}: `{name}` stands there twice")));
        }
    }
    Ok(())
}

fn known(accounts: &BTreeSet<&str>, name: &str, place: impl Fn() -> String) -> Result<(), Invalid> {
    if accounts.contains(name) {
        Ok(())
    } else {
        Err(Invalid(format!(
            "{}: there is no account `{name}`",
            place()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(text: &str) -> Catalogue {
        switchboard_catalogue::parse(text, "test.yaml")
            .unwrap()
            .catalogue
    }

    const TWO: &str = r"
version: 1
accounts:
  - {name: a, provider: openai, credential: env:A}
  - {name: b, provider: openai, credential: env:B}
models:
  - {name: m, price: {input: 1, output: 2}, targets: [{account: a, model: x}]}
  - {name: n, price: {input: 1, output: 2}, targets: [{account: b, model: y}]}
groups:
  - {name: g}
  - {name: h}
";
    const ONE: &str = r"
version: 1
accounts:
  - {name: a, provider: openai, credential: env:A}
models:
  - {name: m, price: {input: 1, output: 2}, targets: [{account: a, model: x, weight: 3}]}
groups:
  - {name: g}
";

    #[test]
    fn what_left_the_file_is_disabled_and_comes_back_with_it() {
        let first = Document::default().apply(catalogue(TWO), &[]).unwrap();
        let second = first.apply(catalogue(ONE), &[]).unwrap();
        let status = |document: &Document, name: &str| {
            document
                .catalogue
                .accounts
                .iter()
                .find(|a| a.name == name)
                .unwrap()
                .status
        };
        assert_eq!(status(&second, "a"), AccountStatus::Active);
        assert_eq!(status(&second, "b"), AccountStatus::Disabled);
        assert!(second.retired_groups.contains("h") && !second.retired_groups.contains("g"));
        let kinds: Vec<_> = first
            .plan(&second)
            .into_iter()
            .map(|p| (p.kind, p.section, p.name))
            .collect();
        let expected = [
            ("disable", "account", "b"),
            ("change", "model", "m"),
            ("disable", "model", "n"),
            ("disable", "group", "h"),
        ];
        assert_eq!(
            kinds,
            expected.map(|(k, s, n)| (k, s.to_owned(), n.to_owned()))
        );
        let third = second.apply(catalogue(TWO), &[]).unwrap();
        assert_eq!(third.retired_groups.len(), 0);
        let planned = second.plan(&third);
        let group = planned.iter().find(|p| p.section == "group").unwrap();
        // In auth's words, so that both are told as one.
        assert_eq!(
            (group.kind, &*group.detail),
            ("change", "status: disabled → active")
        );
    }

    #[test]
    fn the_same_file_again_changes_nothing() {
        let first = Document::default().apply(catalogue(TWO), &[]).unwrap();
        let again = first.apply(catalogue(TWO), &[]).unwrap();
        assert_eq!(first, again);
        assert!(first.plan(&again).is_empty());
        let one = first.apply(catalogue(ONE), &[]).unwrap();
        assert_eq!(one, one.apply(catalogue(ONE), &[]).unwrap());
    }

    #[test]
    fn a_document_survives_the_database() {
        let sheet = Sheet {
            version: 7,
            kind: "cost".to_owned(),
            subject: "a/x".to_owned(),
            rates: Some(Rates {
                input: Some(5),
                output: Some(6),
                ..Rates::default()
            }),
        };
        let document = Document::default().apply(catalogue(TWO), &[sheet]).unwrap();
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        assert_eq!(document.costs["a/x"].unit_nanos(), Some(11));
    }

    #[test]
    fn a_sheet_that_left_is_in_no_later_version_and_told() {
        let cost = |version, subject: &str| Sheet {
            version,
            kind: "cost".to_owned(),
            subject: subject.to_owned(),
            rates: Some(Rates::default()),
        };
        let own = [cost(1, "a/x"), cost(2, "b/y@n")];
        let first = Document::default().apply(catalogue(TWO), &own).unwrap();
        let second = first
            .apply(catalogue(TWO), &[cost(3, "a/x@m"), cost(2, "b/y@n")])
            .unwrap();
        assert_eq!(second.costs.keys().collect::<Vec<_>>(), ["a/x@m", "b/y@n"]);
        let planned = first.plan(&second).into_iter();
        let told: Vec<_> = planned.map(|p| (p.kind, p.name)).collect();
        assert_eq!(
            told,
            [("add", "a/x@m".to_owned()), ("disable", "a/x".to_owned())]
        );
    }

    #[test]
    fn a_target_without_account_is_refused_by_name() {
        let mut broken = catalogue(ONE);
        broken.accounts.clear();
        let error = Document::default().apply(broken, &[]).unwrap_err();
        assert_eq!(error.0, "model `m`: targets: there is no account `a`");
    }
}
