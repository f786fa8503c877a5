//! What a new catalogue changes, as a plan that people read before they apply it.
//!
//! What left the catalogue is disabled, never deleted (ROUTE-7). Secrets appear as references only, since the catalogue holds
//! nothing else.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::notation::words;
use crate::tenants::Tenant;

words! {
    /// What a change is about.
    Section {
        Accounts = "account": "An account.",
        OauthProviders = "oauth provider": "An OAuth provider.",
        Defaults = "defaults": "The defaults of all models.",
        Models = "model": "A model.",
        PriceLists = "price list": "A price list.",
        Groups = "group": "A group.",
        LimitProfiles = "limit profile": "A limit profile.",
        Subscriptions = "subscription": "A subscription.",
        Tenants = "tenant": "A tenant.",
        Users = "user": "A user, named TENANT/EMAIL.",
        Apps = "app": "An app, named TENANT/APP_ID.",
        Keys = "key": "A key, named TENANT/NAME.",
    }
}

words! {
    /// What happens to it.
    ChangeKind {
        Added = "added": "It is new.",
        Changed = "changed": "Some of its fields differ.",
        Disabled = "disabled": "It left the catalogue.",
    }
}

/// One field's change; `None` is an absent key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// The field's path inside its section, e.g. `targets[0].weight`.
    pub path: String,
    /// What was written.
    pub old: Option<String>,
    /// What is written.
    pub new: Option<String>,
}

/// One entry's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is about.
    pub section: Section,
    /// Its name; users, apps and keys as `TENANT/NAME`.
    pub name: String,
    /// What happens to it.
    pub kind: ChangeKind,
    /// The fields that differ; empty unless it changed.
    pub fields: Vec<FieldChange>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.kind {
            ChangeKind::Added => '+',
            ChangeKind::Changed => '~',
            ChangeKind::Disabled => '-',
        };
        write!(f, "{sign} {} {}", self.section, self.name)?;
        if self.kind == ChangeKind::Disabled {
            f.write_str(" (disabled)")?;
        }
        for field in &self.fields {
            let old = field.old.as_deref().unwrap_or("(absent)");
            let new = field.new.as_deref().unwrap_or("(absent)");
            write!(f, "\n    {}: {old} -> {new}", field.path)?;
        }
        Ok(())
    }
}

/// What `new` changes against `old`, section by section, names in alphabetical order.
pub fn diff(old: &Catalogue, new: &Catalogue) -> Vec<Change> {
    let mut changes = Vec::new();
    let out = &mut changes;
    entries(
        Section::Accounts,
        &old.accounts,
        &new.accounts,
        |entry| entry.name.clone(),
        out,
    );
    entries(
        Section::OauthProviders,
        &old.oauth_providers,
        &new.oauth_providers,
        |entry| entry.name.clone(),
        out,
    );
    if old.defaults != new.defaults {
        out.push(changed(
            Section::Defaults,
            "defaults".to_owned(),
            &old.defaults,
            &new.defaults,
        ));
    }
    entries(
        Section::Models,
        &old.models,
        &new.models,
        |entry| entry.name.clone(),
        out,
    );
    entries(
        Section::PriceLists,
        &old.price_lists,
        &new.price_lists,
        |entry| entry.name.clone(),
        out,
    );
    entries(
        Section::Groups,
        &old.groups,
        &new.groups,
        |entry| entry.name.clone(),
        out,
    );
    entries(
        Section::LimitProfiles,
        &old.limit_profiles,
        &new.limit_profiles,
        |entry| entry.name.clone(),
        out,
    );
    entries(
        Section::Subscriptions,
        &old.subscriptions,
        &new.subscriptions,
        |entry| entry.name.clone(),
        out,
    );
    tenants(&old.tenants, &new.tenants, out);
    changes
}

fn tenants(old: &[Tenant], new: &[Tenant], out: &mut Vec<Change>) {
    let bare = |tenants: &[Tenant]| -> Vec<Tenant> {
        tenants
            .iter()
            .map(|tenant| Tenant {
                users: Vec::new(),
                apps: Vec::new(),
                keys: Vec::new(),
                ..tenant.clone()
            })
            .collect()
    };
    entries(
        Section::Tenants,
        &bare(old),
        &bare(new),
        |tenant| tenant.name.clone(),
        out,
    );
    let inner = |section, out: &mut Vec<Change>| match section {
        Section::Users => entries(
            section,
            &of(old, |t| &t.users),
            &of(new, |t| &t.users),
            |(t, user)| format!("{t}/{}", user.email),
            out,
        ),
        Section::Apps => entries(
            section,
            &of(old, |t| &t.apps),
            &of(new, |t| &t.apps),
            |(t, app)| format!("{t}/{}", app.app_id),
            out,
        ),
        _ => entries(
            section,
            &of(old, |t| &t.keys),
            &of(new, |t| &t.keys),
            |(t, key)| format!("{t}/{}", key.name),
            out,
        ),
    };
    for section in [Section::Users, Section::Apps, Section::Keys] {
        inner(section, out);
    }
}

fn of<T>(tenants: &[Tenant], part: impl Fn(&Tenant) -> &Vec<T>) -> Vec<(&str, &T)> {
    tenants
        .iter()
        .flat_map(|tenant| {
            part(tenant)
                .iter()
                .map(|entry| (tenant.name.as_str(), entry))
        })
        .collect()
}

fn entries<T: Serialize + PartialEq>(
    section: Section,
    old: &[T],
    new: &[T],
    name: impl Fn(&T) -> String,
    out: &mut Vec<Change>,
) {
    let before: HashMap<String, &T> = old.iter().map(|entry| (name(entry), entry)).collect();
    let after: BTreeMap<String, &T> = new.iter().map(|entry| (name(entry), entry)).collect();
    for (name, entry) in &after {
        match before.get(name) {
            None => out.push(Change {
                section,
                name: name.clone(),
                kind: ChangeKind::Added,
                fields: Vec::new(),
            }),
            Some(previous) if previous != entry => {
                out.push(changed(section, name.clone(), previous, entry))
            }
            Some(_) => {}
        }
    }
    let mut gone: Vec<_> = before
        .into_keys()
        .filter(|name| !after.contains_key(name))
        .collect();
    gone.sort();
    out.extend(gone.into_iter().map(|name| Change {
        section,
        name,
        kind: ChangeKind::Disabled,
        fields: Vec::new(),
    }));
}

fn changed<T: Serialize>(section: Section, name: String, old: &T, new: &T) -> Change {
    let mut fields = Vec::new();
    // These types serialise to plain values; if that ever failed the entry would still be listed as changed.
    if let (Ok(old), Ok(new)) = (serde_json::to_value(old), serde_json::to_value(new)) {
        compare(
            String::new(),
            Some(entry_of(&old)),
            Some(entry_of(&new)),
            &mut fields,
        );
    }
    Change {
        section,
        name,
        kind: ChangeKind::Changed,
        fields,
    }
}

/// Entries of tenants travel as `[tenant, entry]`; the tenant stands in the name.
fn entry_of(value: &Value) -> &Value {
    match value {
        Value::Array(pair) => pair.get(1).unwrap_or(value),
        _ => value,
    }
}

fn compare(path: String, old: Option<&Value>, new: Option<&Value>, fields: &mut Vec<FieldChange>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                compare(path, before.get(key), after.get(key), fields);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.iter().chain(after).any(Value::is_object) =>
        {
            for index in 0..before.len().max(after.len()) {
                compare(
                    format!("{path}[{index}]"),
                    before.get(index),
                    after.get(index),
                    fields,
                );
            }
        }
        _ => fields.push(FieldChange {
            path,
            old: old.map(text),
            new: new.map(text),
        }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_added_changed_and_disabled() {
        let text = include_str!("../tests/fixtures/full.yaml");
        let old = crate::parse(text, "old").unwrap().catalogue;
        assert_eq!(diff(&old, &old), []);
        let changed = text
            .replace(
                "{account: openai-main, model: gpt-4o, weight: 80}",
                "{account: openai-main, model: gpt-4o, weight: 60}",
            )
            .replace(
                "credential: env:OPENAI_API_KEY",
                "credential: env:OTHER_KEY",
            )
            .replace("- {name: batch, requests", "- {name: bulk, requests")
            .replace("balance: 100.00", "balance: 120.50")
            .replace("cost_center: build", "cost_center: ops");
        let new = crate::parse(&changed, "new").unwrap().catalogue;
        let plan: Vec<String> = diff(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(
            plan,
            [
                "~ account openai-main\n    credential: env:OPENAI_API_KEY -> env:OTHER_KEY",
                "~ model text-gen-default\n    targets[0].weight: 80 -> 60",
                "+ limit profile bulk",
                "- limit profile batch (disabled)",
                "~ tenant acme\n    balance: 100 -> 120.5",
                "~ key acme/ci\n    cost_center: build -> ops",
            ]
        );
    }
}
