//! How a catalogue's access side differs from what is stored (ROUTE-7).
//!
//! What left the file is disabled, never deleted; what came from elsewhere is not touched; the same file twice is no
//! difference. Pure: the plan lists what to write, the store writes it.

mod difference;
mod keys;

use std::collections::{BTreeSet, HashMap, HashSet};

pub use difference::{Difference, Kind};

use super::{
    identity::{Group, Key, KeyTerms, Origin, Status, Tenant, User},
    key::KeyHasher,
    validate::{Fragment, NewKey, Problem},
};

/// What is stored, as far as the fragment concerns it: all that came from a file, and what bears the fragment's names and
/// secrets.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// All tenants.
    pub tenants: Vec<(Tenant, Origin)>,
    /// All users.
    pub users: Vec<(User, Origin)>,
    /// All groups.
    pub groups: Vec<(Group, Origin)>,
    /// The file's keys, and those that have a name or a secret of the fragment.
    pub keys: Vec<Key>,
}

/// What decides beside the file.
#[derive(Debug)]
pub struct Terms<'a> {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// How long a replaced secret stays good, milliseconds.
    pub overlap_ms: i64,
    /// Makes the place-holders of retired hashes.
    pub hasher: &'a KeyHasher,
}

/// What is to be written.
#[derive(Debug, Default)]
pub struct Plan {
    /// To insert or replace.
    pub tenants: Vec<Tenant>,
    /// To insert or replace.
    pub users: Vec<User>,
    /// To insert or replace.
    pub groups: Vec<Group>,
    /// To insert; those without a secret get one.
    pub new_keys: Vec<NewKey>,
    /// To replace.
    pub keys: Vec<Key>,
    /// For people.
    pub differences: Vec<Difference>,
    /// What watchers must learn: scope and id.
    pub changes: BTreeSet<(&'static str, String)>,
}

impl Plan {
    /// Whether nothing is to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    fn note(&mut self, scope: &'static str, id: &str, difference: Difference) {
        self.changes.insert((scope, id.to_owned()));
        self.differences.push(difference);
    }
}

/// Compares.
///
/// # Errors
/// The first fault that only the database shows: an unknown group or user, a name or a secret that is taken.
pub fn plan(stored: &Snapshot, fragment: Fragment, terms: &Terms<'_>) -> Result<Plan, Problem> {
    references(stored, &fragment)?;
    let mut plan = Plan::default();
    groups(&mut plan, stored, fragment.groups);
    tenants(&mut plan, stored, fragment.tenants);
    users(&mut plan, stored, fragment.users);
    keys::keys(&mut plan, stored, fragment.keys, terms)?;
    Ok(plan)
}

/// Each key's group and user must be in the file, or have come from elsewhere.
fn references(stored: &Snapshot, fragment: &Fragment) -> Result<(), Problem> {
    let groups: BTreeSet<&str> = fragment
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .chain(elsewhere(&stored.groups).map(|group| group.name.as_str()))
        .collect();
    let users: HashSet<(&str, &str)> = fragment
        .users
        .iter()
        .chain(elsewhere(&stored.users))
        .map(|user| (user.tenant.as_str(), user.email.as_str()))
        .collect();
    for NewKey { field, terms, .. } in &fragment.keys {
        known_group(field, terms, &groups)?;
        if !terms.user.is_empty() && !users.contains(&(terms.tenant.as_str(), terms.user.as_str()))
        {
            return Err(unknown_user(field, terms));
        }
    }
    Ok(())
}

/// Refuses a key of a group that does not exist.
///
/// # Errors
/// With the names of those that do, as many as fit a line.
pub fn known_group(field: &str, terms: &KeyTerms, groups: &BTreeSet<&str>) -> Result<(), Problem> {
    if groups.contains(terms.group.as_str()) {
        return Ok(());
    }
    let known: Vec<&str> = groups.iter().take(10).copied().collect();
    let hint = if known.is_empty() {
        "there are none yet; define it under `groups`".to_owned()
    } else {
        format!("known: {}", known.join(", "))
    };
    Err(Problem::new(
        format!("{field}.group"),
        format!("unknown group `{}`; {hint}", terms.group),
    ))
}

/// The fault of a key whose user does not exist.
#[must_use]
pub fn unknown_user(field: &str, terms: &KeyTerms) -> Problem {
    Problem::new(
        format!("{field}.user"),
        format!(
            "tenant `{}` has no user `{}`; define it under `users`",
            terms.tenant, terms.user
        ),
    )
}

fn elsewhere<T>(stored: &[(T, Origin)]) -> impl Iterator<Item = &T> {
    stored
        .iter()
        .filter(|(_, origin)| *origin != Origin::File)
        .map(|(item, _)| item)
}

fn groups(plan: &mut Plan, stored: &Snapshot, wanted: Vec<Group>) {
    let known: HashMap<&str, &Group> = by(&stored.groups, |group| group.name.as_str());
    let names: HashSet<String> = wanted.iter().map(|group| group.name.clone()).collect();
    for group in wanted {
        let kind = match known.get(group.name.as_str()) {
            Some(old) if **old == group => continue,
            Some(old) => Kind::Change(difference::group(old, &group)),
            None => Kind::Add,
        };
        plan.note(
            "group",
            &group.name,
            Difference::new("group", &group.name, kind),
        );
        plan.groups.push(group);
    }
    for (group, origin) in &stored.groups {
        if *origin == Origin::File && group.status == Status::Active && !names.contains(&group.name)
        {
            plan.note(
                "group",
                &group.name,
                Difference::new("group", &group.name, Kind::Disable),
            );
            plan.groups.push(Group {
                status: Status::Disabled,
                ..group.clone()
            });
        }
    }
}

fn tenants(plan: &mut Plan, stored: &Snapshot, wanted: Vec<Tenant>) {
    let known: HashMap<&str, &Tenant> = by(&stored.tenants, |tenant| tenant.name.as_str());
    let names: HashSet<String> = wanted.iter().map(|tenant| tenant.name.clone()).collect();
    for tenant in wanted {
        let kind = match known.get(tenant.name.as_str()) {
            Some(old) if **old == tenant => continue,
            Some(old) => Kind::Change(difference::tenant(old, &tenant)),
            None => Kind::Add,
        };
        plan.note(
            "tenant",
            &tenant.name,
            Difference::new("tenant", &tenant.name, kind),
        );
        plan.tenants.push(tenant);
    }
    for (tenant, origin) in &stored.tenants {
        if *origin == Origin::File
            && tenant.status == Status::Active
            && !names.contains(&tenant.name)
        {
            plan.note(
                "tenant",
                &tenant.name,
                Difference::new("tenant", &tenant.name, Kind::Disable),
            );
            plan.tenants.push(Tenant {
                status: Status::Disabled,
                ..tenant.clone()
            });
        }
    }
}

fn users(plan: &mut Plan, stored: &Snapshot, wanted: Vec<User>) {
    let known: HashMap<(&str, &str), &User> = by(&stored.users, |user| {
        (user.tenant.as_str(), user.email.as_str())
    });
    let names: HashSet<(String, String)> = wanted
        .iter()
        .map(|user| (user.tenant.clone(), user.email.clone()))
        .collect();
    for user in wanted {
        let kind = match known.get(&(user.tenant.as_str(), user.email.as_str())) {
            Some(old) if **old == user => continue,
            Some(old) => Kind::Change(difference::user(old, &user)),
            None => Kind::Add,
        };
        plan.note(
            "tenant",
            &user.tenant,
            Difference::new("user", &full_name(&user), kind),
        );
        plan.users.push(user);
    }
    for (user, origin) in &stored.users {
        let name = (user.tenant.clone(), user.email.clone());
        if *origin == Origin::File && user.status == Status::Active && !names.contains(&name) {
            plan.note(
                "tenant",
                &user.tenant,
                Difference::new("user", &full_name(user), Kind::Disable),
            );
            plan.users.push(User {
                status: Status::Disabled,
                ..user.clone()
            });
        }
    }
}

fn full_name(user: &User) -> String {
    format!("{}/{}", user.tenant, user.email)
}

fn by<'a, T, K: std::hash::Hash + Eq>(
    stored: &'a [(T, Origin)],
    key: impl Fn(&'a T) -> K,
) -> HashMap<K, &'a T> {
    stored.iter().map(|(item, _)| (key(item), item)).collect()
}

#[cfg(test)]
mod tests;
