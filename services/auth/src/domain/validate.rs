//! What a catalogue's access side must look like before anything is compared with the database.
//!
//! Finds the first fault and names its field as the request spells it (`tenants[0].keys[1].allow_ips[0]`). Texts of keys stop
//! here: a valid one goes on as its hash.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
};

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};

use super::{
    identity::{Group, KeySecret, KeyTerms, Limits, Route, Tenant, User},
    key::{self, Form, KeyHash, KeyHasher},
};

/// Longest name, characters.
const NAME: usize = 200;
/// Most entries of one list of a key or group.
const LIST: usize = 1_000;
/// Most accounts that a tenant may choose among for one model: each request carries them.
const ACCOUNTS: usize = 200;
/// Most tags of a key.
const TAGS: usize = 64;

/// A fault in a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Problem {
    /// The field at fault, as a path.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Problem {
    /// A fault of `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// A catalogue's access side as it was sent.
#[derive(Debug, Default)]
pub struct Draft {
    /// Products.
    pub groups: Vec<Group>,
    /// Customers with what they own.
    pub tenants: Vec<TenantDraft>,
}

/// A tenant as it was sent.
#[derive(Debug)]
pub struct TenantDraft {
    /// The tenant itself.
    pub tenant: Tenant,
    /// Its people.
    pub users: Vec<User>,
    /// Its keys.
    pub keys: Vec<KeyDraft>,
}

/// A key as it was sent.
#[derive(Debug)]
pub struct KeyDraft {
    /// What it allows.
    pub terms: KeyTerms,
    /// Its text; empty: to be generated.
    pub secret: SecretString,
}

/// A catalogue's access side, valid in itself.
#[derive(Debug, Default)]
pub struct Fragment {
    /// Products.
    pub groups: Vec<Group>,
    /// Customers.
    pub tenants: Vec<Tenant>,
    /// Their people.
    pub users: Vec<User>,
    /// Their keys.
    pub keys: Vec<NewKey>,
}

/// A valid key to be.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Where the request has it.
    pub field: String,
    /// What it allows.
    pub terms: KeyTerms,
    /// `None`: to be generated.
    pub secret: Option<KeySecret>,
}

/// Checks a catalogue's access side.
///
/// # Errors
/// The first fault.
pub fn fragment(draft: Draft, hasher: &KeyHasher) -> Result<Fragment, Problem> {
    let mut valid = Fragment::default();
    let mut names = HashSet::new();
    for (at, group) in draft.groups.into_iter().enumerate() {
        let field = format!("groups[{at}]");
        name(&format!("{field}.name"), &group.name)?;
        unique(&mut names, &group.name, &format!("{field}.name"), "group")?;
        let allow_ips = addresses(&format!("{field}.allow_ips"), &group.allow_ips)?;
        limits(&format!("{field}.limits"), &group.limits)?;
        limits(&format!("{field}.user_limits"), &group.user_limits)?;
        multiplier(&format!("{field}.multiplier"), group.multiplier)?;
        valid.groups.push(Group { allow_ips, ..group });
    }
    let mut tenants = HashSet::new();
    let mut secrets = HashMap::new();
    for (at, draft) in draft.tenants.into_iter().enumerate() {
        let field = format!("tenants[{at}]");
        tenant(&field, &draft.tenant)?;
        unique(
            &mut tenants,
            &draft.tenant.name,
            &format!("{field}.name"),
            "tenant",
        )?;
        valid.tenants.push(draft.tenant);
        let mut emails = HashSet::new();
        for (at, draft) in draft.users.into_iter().enumerate() {
            let field = format!("{field}.users[{at}]");
            user(&field, &draft)?;
            unique(&mut emails, &draft.email, &format!("{field}.email"), "user")?;
            valid.users.push(draft);
        }
        let mut names = HashSet::new();
        for (at, draft) in draft.keys.into_iter().enumerate() {
            let field = format!("{field}.keys[{at}]");
            unique(
                &mut names,
                &draft.terms.name,
                &format!("{field}.name"),
                "key of this tenant",
            )?;
            let draft = new_key(field, draft, hasher)?;
            distinct(&mut secrets, &draft)?;
            valid.keys.push(draft);
        }
    }
    Ok(valid)
}

/// Checks one key; `field` is where the request has it.
///
/// # Errors
/// The first fault.
pub fn new_key(field: String, draft: KeyDraft, hasher: &KeyHasher) -> Result<NewKey, Problem> {
    let KeyDraft { mut terms, secret } = draft;
    name(&format!("{field}.name"), &terms.name)?;
    if terms.group.is_empty() {
        return Err(Problem::new(
            format!("{field}.group"),
            "a key needs a group: it decides which models the key opens",
        ));
    }
    bounded(&format!("{field}.models"), terms.models.len(), LIST)?;
    for (at, model) in terms.models.iter().enumerate() {
        name(&format!("{field}.models[{at}]"), model)?;
    }
    terms.allow_ips = addresses(&format!("{field}.allow_ips"), &terms.allow_ips)?;
    limits(&format!("{field}.limits"), &terms.limits)?;
    if terms.expires_at_ms.is_some_and(|at| at <= 0) {
        return Err(Problem::new(
            format!("{field}.expires_at_ms"),
            "expected Unix milliseconds above 0; leave it out for a key that does not expire",
        ));
    }
    bounded(&format!("{field}.tags"), terms.tags.len(), TAGS)?;
    for (tag, value) in &terms.tags {
        name(&format!("{field}.tags"), tag)?;
        bounded(&format!("{field}.tags.{tag}"), value.chars().count(), NAME)?;
    }
    bounded(
        &format!("{field}.cost_center"),
        terms.cost_center.chars().count(),
        NAME,
    )?;
    let secret = own_secret(&format!("{field}.secret"), &secret, hasher)?;
    Ok(NewKey {
        field,
        terms,
        secret,
    })
}

fn tenant(field: &str, tenant: &Tenant) -> Result<(), Problem> {
    name(&format!("{field}.name"), &tenant.name)?;
    if tenant.name.contains('/') {
        return Err(Problem::new(
            format!("{field}.name"),
            "must not contain `/`: keys are named as tenant/key",
        ));
    }
    if tenant.prepaid && tenant.serve_without_billing {
        return Err(Problem::new(
            format!("{field}.serve_without_billing"),
            "only postpaid tenants may go on when billing cannot be reached; leave it out, or make the tenant postpaid",
        ));
    }
    limits(&format!("{field}.limits"), &tenant.limits)?;
    routes(&format!("{field}.routes"), &tenant.routes)
}

fn routes(field: &str, routes: &BTreeMap<String, Route>) -> Result<(), Problem> {
    bounded(field, routes.len(), LIST)?;
    for (model, route) in routes {
        name(field, model)?;
        let field = format!("{field}.{model}");
        for (key, accounts) in [("pin", &route.pin), ("forbid", &route.forbid)] {
            let field = format!("{field}.{key}");
            bounded(&field, accounts.len(), ACCOUNTS)?;
            for (at, account) in accounts.iter().enumerate() {
                name(&format!("{field}[{at}]"), account)?;
            }
        }
        let field = format!("{field}.weights");
        bounded(&field, route.weights.len(), ACCOUNTS)?;
        for account in route.weights.keys() {
            name(&field, account)?;
        }
    }
    Ok(())
}

fn user(field: &str, user: &User) -> Result<(), Problem> {
    name(&format!("{field}.email"), &user.email)?;
    let valid = user
        .email
        .split_once('@')
        .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    if !valid || user.email.contains(char::is_whitespace) {
        return Err(Problem::new(
            format!("{field}.email"),
            format!("`{}` is no e-mail address", user.email),
        ));
    }
    multiplier(&format!("{field}.multiplier"), user.multiplier)?;
    limits(&format!("{field}.limits"), &user.limits)
}

fn own_secret(
    field: &str,
    secret: &SecretString,
    hasher: &KeyHasher,
) -> Result<Option<KeySecret>, Problem> {
    let text = secret.expose_secret();
    if text.is_empty() {
        return Ok(None);
    }
    match key::form(text) {
        Form::Issued | Form::Own => Ok(Some(KeySecret {
            hash: hasher.key(text),
            prefix: key::shown(text),
        })),
        Form::Mistyped => Err(Problem::new(
            field,
            "looks like an issued key but its checksum is wrong; copy it again, whole",
        )),
        Form::Impossible => Err(Problem::new(
            field,
            format!(
                "expected {} to {} visible ASCII characters without blanks, got {} characters; leave it out to have one generated",
                key::OWN_MINIMUM,
                key::MAXIMUM,
                text.chars().count()
            ),
        )),
    }
}

fn distinct(seen: &mut HashMap<KeyHash, String>, key: &NewKey) -> Result<(), Problem> {
    let Some(secret) = &key.secret else {
        return Ok(());
    };
    match seen.insert(secret.hash, key.field.clone()) {
        None => Ok(()),
        Some(first) => Err(Problem::new(
            format!("{}.secret", key.field),
            format!("is the same as that of {first}; each key needs its own"),
        )),
    }
}

fn unique(seen: &mut HashSet<String>, name: &str, field: &str, what: &str) -> Result<(), Problem> {
    if seen.insert(name.to_owned()) {
        Ok(())
    } else {
        Err(Problem::new(
            field,
            format!("there is already a {what} `{name}`"),
        ))
    }
}

fn name(field: &str, text: &str) -> Result<(), Problem> {
    if text.is_empty() {
        return Err(Problem::new(field, "must not be empty"));
    }
    if text.chars().any(char::is_control) || text.trim() != text {
        return Err(Problem::new(
            field,
            "must not begin or end with a blank, nor hold control characters",
        ));
    }
    bounded(field, text.chars().count(), NAME)
}

fn bounded(field: &str, length: usize, most: usize) -> Result<(), Problem> {
    if length > most {
        return Err(Problem::new(
            field,
            format!("is too long: {length}, at most {most}"),
        ));
    }
    Ok(())
}

fn multiplier(field: &str, millionths: u64) -> Result<(), Problem> {
    // 10,000 times the price is surely a slip of the unit.
    if millionths == 0 || millionths > 10_000_000_000 {
        return Err(Problem::new(
            field,
            format!(
                "expected millionths above 0 and at most 10000000000 (1000000 is ×1), got {millionths}"
            ),
        ));
    }
    Ok(())
}

fn limits(field: &str, limits: &Limits) -> Result<(), Problem> {
    for (name, value) in [
        ("requests_per_second", limits.requests_per_second),
        ("requests_per_minute", limits.requests_per_minute),
        ("tokens_per_minute", limits.tokens_per_minute),
        ("concurrency", limits.concurrency),
        ("burst", limits.burst),
    ] {
        // Counters are signed and count millionths.
        if value.is_some_and(|value| value > 1_000_000_000_000) {
            return Err(Problem::new(
                format!("{field}.{name}"),
                "must be at most 1000000000000; leave it out for no limit",
            ));
        }
    }
    if limits.burst == Some(0) {
        return Err(Problem::new(
            format!("{field}.burst"),
            "must be at least 1; leave it out for one second's worth",
        ));
    }
    Ok(())
}

/// Addresses and blocks, each written as a block without host bits.
fn addresses(field: &str, texts: &[String]) -> Result<Vec<String>, Problem> {
    bounded(field, texts.len(), LIST)?;
    texts
        .iter()
        .enumerate()
        .map(|(at, text)| {
            text.parse::<IpNet>()
                .map(|block| block.trunc())
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
                .map(|block| block.to_string())
                .map_err(|_| {
                    Problem::new(
                        format!("{field}[{at}]"),
                        format!("`{text}` is no address and no CIDR block, such as 10.0.0.0/8 or 2001:db8::/32"),
                    )
                })
        })
        .collect()
}
