//! The keys' part of a plan: secrets may be replaced, with an overlap, and may move from one key to another.

use std::collections::{HashMap, HashSet};

use super::{Difference, Kind, Plan, Snapshot, Terms, difference};
use crate::domain::{
    identity::{Key, Origin, Status},
    key::KeyHash,
    validate::{NewKey, Problem},
};

pub(super) fn keys(
    plan: &mut Plan,
    stored: &Snapshot,
    wanted: Vec<NewKey>,
    terms: &Terms<'_>,
) -> Result<(), Problem> {
    let known: HashMap<(&str, &str), &Key> =
        stored.keys.iter().map(|key| (name(key), key)).collect();
    let names: HashSet<(String, String)> = wanted
        .iter()
        .map(|key| (key.terms.tenant.clone(), key.terms.name.clone()))
        .collect();
    let claimed: HashMap<KeyHash, &NewKey> = wanted
        .iter()
        .filter_map(|key| key.secret.as_ref().map(|secret| (secret.hash, key)))
        .collect();
    for key in &stored.keys {
        let leaves = !names.contains(&(key.terms.tenant.clone(), key.terms.name.clone()));
        refuse_taken_secret(key, &claimed, leaves)?;
        if leaves && key.origin == Origin::File {
            leave(plan, key, &claimed, terms);
        }
    }
    for key in &wanted {
        match known.get(&(key.terms.tenant.as_str(), key.terms.name.as_str())) {
            None => {
                plan.note(
                    "key",
                    &key.terms.tenant,
                    Difference::new("key", &full_name(key), Kind::Add),
                );
                plan.new_keys.push(key.clone());
            }
            Some(old) if old.origin != Origin::File => {
                return Err(Problem::new(
                    format!("{}.name", key.field),
                    format!(
                        "key `{}` was made by an admin, and a file does not touch what came from elsewhere; choose another name",
                        full_name(key)
                    ),
                ));
            }
            Some(old) => keep(plan, old, key, &claimed, terms),
        }
    }
    Ok(())
}

/// A secret that another key has, is free only when that key came from the file and no longer needs it.
fn refuse_taken_secret(
    key: &Key,
    claimed: &HashMap<KeyHash, &NewKey>,
    leaves: bool,
) -> Result<(), Problem> {
    let Some(claimant) = claimed.get(&key.secret.hash) else {
        return Ok(());
    };
    let own = key.terms.tenant == claimant.terms.tenant && key.terms.name == claimant.terms.name;
    if own {
        return Ok(());
    }
    let revoked = key.disabled_by == Some(Origin::Admin);
    let gives_it_up = key.origin == Origin::File && !revoked && (leaves || replaced(key, claimed));
    if gives_it_up {
        return Ok(());
    }
    let why = if revoked {
        "belongs to a key that an admin disabled"
    } else {
        "is already that of another key"
    };
    Err(Problem::new(
        format!("{}.secret", claimant.field),
        format!("{why}; each key needs its own"),
    ))
}

/// Whether the file gives this key another secret.
fn replaced(key: &Key, claimed: &HashMap<KeyHash, &NewKey>) -> bool {
    claimed.iter().any(|(hash, wanted)| {
        *hash != key.secret.hash
            && wanted.terms.tenant == key.terms.tenant
            && wanted.terms.name == key.terms.name
    })
}

/// A key left the file.
fn leave(plan: &mut Plan, key: &Key, claimed: &HashMap<KeyHash, &NewKey>, terms: &Terms<'_>) {
    let moved = claimed.contains_key(&key.secret.hash);
    let active = key.terms.status == Status::Active;
    if !active && !moved {
        return;
    }
    let mut gone = key.clone();
    gone.terms.status = Status::Disabled;
    gone.disabled_by = key.disabled_by.or(Some(Origin::File));
    gone.previous = None;
    if moved {
        gone.secret.hash = terms.hasher.retired(&key.id);
    }
    let kind = if active {
        Kind::Disable
    } else {
        Kind::Change("its secret now belongs to another key".to_owned())
    };
    let name = format!("{}/{}", key.terms.tenant, key.terms.name);
    plan.note(
        "key",
        &key.terms.tenant,
        Difference::new("key", &name, kind),
    );
    plan.keys.push(gone);
}

/// A key of the file is still there.
fn keep(
    plan: &mut Plan,
    old: &Key,
    wanted: &NewKey,
    claimed: &HashMap<KeyHash, &NewKey>,
    terms: &Terms<'_>,
) {
    let mut new = Key {
        terms: wanted.terms.clone(),
        ..old.clone()
    };
    let mut fields = difference::Fields::default();
    let fresh = wanted
        .secret
        .as_ref()
        .filter(|secret| !secret.hash.matches(&old.secret.hash));
    // An admin's refusal stands until the secret is another one: a leaked key must not come back with the next `apply`.
    let refused = old.disabled_by == Some(Origin::Admin) && fresh.is_none();
    if refused {
        new.terms.status = Status::Disabled;
    }
    new.disabled_by = match new.terms.status {
        Status::Active => None,
        Status::Disabled => Some(if refused { Origin::Admin } else { Origin::File }),
    };
    if let Some(secret) = fresh {
        let overlaps = terms.overlap_ms > 0
            && old.terms.status == Status::Active
            && !claimed.contains_key(&old.secret.hash);
        new.secret = secret.clone();
        new.previous = overlaps.then(|| {
            (
                old.secret.hash,
                terms.now_ms.saturating_add(terms.overlap_ms),
            )
        });
        fields.say(if overlaps {
            format!(
                "secret replaced; the old one stays good for {} s",
                terms.overlap_ms / 1_000
            )
        } else {
            "secret replaced".to_owned()
        });
    } else if old
        .previous
        .is_some_and(|(hash, _)| claimed.contains_key(&hash))
    {
        new.previous = None;
        fields.say("its replaced secret now belongs to another key");
    }
    difference::key(&mut fields, &old.terms, &new.terms);
    if fields.is_empty() {
        return;
    }
    plan.note(
        "key",
        &old.terms.tenant,
        Difference::new("key", &full_name(wanted), Kind::Change(fields.finish())),
    );
    plan.keys.push(new);
}

fn name(key: &Key) -> (&str, &str) {
    (&key.terms.tenant, &key.terms.name)
}

fn full_name(key: &NewKey) -> String {
    format!("{}/{}", key.terms.tenant, key.terms.name)
}
