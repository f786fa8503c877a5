//! Between the protos and the domain. Absent statuses mean active, absent multipliers ×1.

use std::collections::{BTreeMap, HashMap};

use secrecy::SecretString;
use switchboard_proto::{auth::v1 as proto, common::v1 as common};

use crate::domain::{
    identity::{
        Caller, Group, Key, KeyTerms, Limits, Route, Status, TIMES_ONE, Tenant, User, UserRole,
    },
    plan::Difference,
    validate::{Draft, KeyDraft, Problem, TenantDraft},
};

/// What a forwarder needs to know about a caller.
pub(crate) fn principal(caller: &Caller, head: u64) -> proto::Principal {
    let Caller {
        key_id,
        hash: _,
        terms,
        tenant,
        user,
        group,
    } = caller;
    proto::Principal {
        tenant: tenant.name.clone(),
        user: terms.user.clone(),
        key_id: key_id.clone(),
        key_name: terms.name.clone(),
        group: group.name.clone(),
        key_status: status(terms.status).into(),
        tenant_status: status(tenant.status).into(),
        user_status: status(user.as_ref().map_or(Status::Active, |user| user.status)).into(),
        group_status: status(group.status).into(),
        expires_at_ms: terms.expires_at_ms,
        key_allow_ips: terms.allow_ips.clone(),
        group_allow_ips: group.allow_ips.clone(),
        models: terms.models.clone(),
        key_limits: limits_out(&terms.limits),
        user_limits: user.as_ref().and_then(|user| limits_out(&user.limits)),
        tenant_limits: limits_out(&tenant.limits),
        group_limits: limits_out(&group.limits),
        group_user_limits: limits_out(&group.user_limits),
        group_multiplier: group.multiplier,
        user_multiplier: user.as_ref().map_or(TIMES_ONE, |user| user.multiplier),
        strict_hold: tenant.strict_hold,
        prepaid: tenant.prepaid,
        serve_without_billing: tenant.serve_without_billing,
        abandoned_free: tenant.abandoned_free,
        reject_unsupported: terms.reject_unsupported,
        cost_center: terms.cost_center.clone(),
        tags: terms.tags.clone().into_iter().collect(),
        change_seq: head,
        log_content: tenant.log_content,
        routes: routes_out(&tenant.routes),
    }
}

/// A catalogue's access side.
///
/// # Errors
/// An enum value that this version does not know.
pub(crate) fn draft(
    groups: Vec<proto::GroupAccess>,
    tenants: Vec<proto::Tenant>,
) -> Result<Draft, Problem> {
    let groups = groups
        .into_iter()
        .map(|group| Group {
            name: group.name,
            status: Status::Active,
            allow_ips: group.allow_ips,
            limits: limits_in(group.limits),
            user_limits: limits_in(group.user_limits),
            multiplier: multiplier(group.multiplier),
        })
        .collect();
    let tenants = tenants
        .into_iter()
        .enumerate()
        .map(|(at, tenant)| tenant_in(&format!("tenants[{at}]"), tenant))
        .collect::<Result<_, _>>()?;
    Ok(Draft { groups, tenants })
}

fn tenant_in(field: &str, tenant: proto::Tenant) -> Result<TenantDraft, Problem> {
    let name = tenant.name.clone();
    let users = tenant
        .users
        .into_iter()
        .enumerate()
        .map(|(at, user)| user_in(&format!("{field}.users[{at}]"), &name, user))
        .collect::<Result<_, _>>()?;
    let keys = tenant
        .keys
        .into_iter()
        .enumerate()
        .map(|(at, key)| key_in(&format!("{field}.keys[{at}]"), &name, key))
        .collect::<Result<_, _>>()?;
    Ok(TenantDraft {
        users,
        keys,
        tenant: Tenant {
            name: tenant.name,
            status: status_in(&format!("{field}.status"), tenant.status)?,
            prepaid: tenant.prepaid,
            strict_hold: tenant.strict_hold,
            serve_without_billing: tenant.serve_without_billing,
            abandoned_free: tenant.abandoned_free,
            log_content: tenant.log_content,
            limits: limits_in(tenant.limits),
            routes: routes_in(tenant.routes),
        },
    })
}

fn user_in(field: &str, tenant: &str, user: proto::User) -> Result<User, Problem> {
    let role = match user.role.as_str() {
        "" => UserRole::Member,
        text => text.parse().map_err(|_| {
            Problem::new(
                format!("{field}.role"),
                format!("`{text}` is no role; expected owner, admin, member or viewer"),
            )
        })?,
    };
    Ok(User {
        tenant: tenant.to_owned(),
        email: user.email,
        role,
        multiplier: multiplier(user.multiplier),
        limits: limits_in(user.limits),
        status: status_in(&format!("{field}.status"), user.status)?,
    })
}

/// One key; `field` is where the request has it.
///
/// # Errors
/// An enum value that this version does not know.
pub(crate) fn key_in(field: &str, tenant: &str, key: proto::Key) -> Result<KeyDraft, Problem> {
    Ok(KeyDraft {
        secret: SecretString::from(key.secret),
        terms: KeyTerms {
            tenant: tenant.to_owned(),
            name: key.name,
            group: key.group,
            user: key.user,
            models: key.models,
            expires_at_ms: key.expires_at_ms,
            limits: limits_in(key.limits),
            allow_ips: key.allow_ips,
            reject_unsupported: key.reject_unsupported,
            cost_center: key.cost_center,
            tags: key.tags.into_iter().collect(),
            status: status_in(&format!("{field}.status"), key.status)?,
        },
    })
}

/// A key as lists show it, at `now_ms`.
pub(crate) fn key_info(key: Key, now_ms: i64) -> proto::KeyInfo {
    let expired = key.terms.expires_at_ms.is_some_and(|at| at <= now_ms);
    let status = match key.terms.status {
        Status::Disabled => "disabled",
        Status::Active if expired => "expired",
        Status::Active => "active",
    };
    proto::KeyInfo {
        key_id: key.id,
        tenant: key.terms.tenant,
        name: key.terms.name,
        group: key.terms.group,
        user: key.terms.user,
        status: status.to_owned(),
        prefix: key.secret.prefix,
        models: key.terms.models,
        expires_at_ms: key.terms.expires_at_ms,
        limits: limits_out(&key.terms.limits),
        allow_ips: key.terms.allow_ips,
        created_at_ms: key.created_at_ms,
        origin: key.origin.as_str().to_owned(),
    }
}

/// A tenant with its people and the number of its keys.
pub(crate) fn tenant_out(tenant: Tenant, users: Vec<User>, keys: u64) -> proto::GetTenantResponse {
    proto::GetTenantResponse {
        name: tenant.name,
        status: tenant.status.as_str().to_owned(),
        users: users.into_iter().map(user_out).collect(),
        keys,
        prepaid: tenant.prepaid,
        strict_hold: tenant.strict_hold,
        limits: limits_out(&tenant.limits),
    }
}

fn user_out(user: User) -> proto::User {
    proto::User {
        email: user.email,
        role: user.role.as_str().to_owned(),
        multiplier: user.multiplier,
        limits: limits_out(&user.limits),
        status: status(user.status).into(),
    }
}

/// A planned or committed difference.
pub(crate) fn planned(difference: Difference) -> common::PlannedChange {
    common::PlannedChange {
        section: difference.section.to_owned(),
        kind: difference.verb().to_owned(),
        detail: difference.detail().to_owned(),
        name: difference.name,
    }
}

/// Who acts: an audit row without a name would be worth nothing.
///
/// # Errors
/// There is no name.
pub(crate) fn actor(actor: Option<common::Actor>) -> Result<common::Actor, Problem> {
    actor.filter(|actor| !actor.name.is_empty()).ok_or_else(|| {
        Problem::new(
            "actor.name",
            "must say who does this, such as `cli` or `admin:ana`",
        )
    })
}

fn status(status: Status) -> proto::Status {
    match status {
        Status::Active => proto::Status::Active,
        Status::Disabled => proto::Status::Disabled,
    }
}

fn status_in(field: &str, value: i32) -> Result<Status, Problem> {
    match proto::Status::try_from(value) {
        Ok(proto::Status::Unspecified | proto::Status::Active) => Ok(Status::Active),
        Ok(proto::Status::Disabled) => Ok(Status::Disabled),
        Err(_) => Err(Problem::new(
            field,
            format!("{value} is no status; expected 1 (active) or 2 (disabled)"),
        )),
    }
}

fn multiplier(millionths: u64) -> u64 {
    if millionths == 0 {
        TIMES_ONE
    } else {
        millionths
    }
}

/// A rule that says nothing is none.
fn routes_in(routes: HashMap<String, common::TargetRule>) -> BTreeMap<String, Route> {
    let route = |rule: common::TargetRule| Route {
        pin: rule.pin,
        forbid: rule.forbid,
        weights: rule.weights.into_iter().collect(),
    };
    routes
        .into_iter()
        .map(|(model, rule)| (model, route(rule)))
        .filter(|(_, route)| *route != Route::default())
        .collect()
}

fn routes_out(routes: &BTreeMap<String, Route>) -> HashMap<String, common::TargetRule> {
    let rule = |route: &Route| common::TargetRule {
        pin: route.pin.clone(),
        forbid: route.forbid.clone(),
        weights: route.weights.clone().into_iter().collect(),
    };
    routes
        .iter()
        .map(|(model, route)| (model.clone(), rule(route)))
        .collect()
}

fn limits_in(limits: Option<common::Limits>) -> Limits {
    let limits = limits.unwrap_or_default();
    Limits {
        requests_per_second: limits.requests_per_second,
        requests_per_minute: limits.requests_per_minute,
        tokens_per_minute: limits.tokens_per_minute,
        concurrency: limits.concurrency,
        burst: limits.burst,
    }
}

/// `None` when nothing is limited.
fn limits_out(limits: &Limits) -> Option<common::Limits> {
    (*limits != Limits::default()).then_some(common::Limits {
        requests_per_second: limits.requests_per_second,
        requests_per_minute: limits.requests_per_minute,
        tokens_per_minute: limits.tokens_per_minute,
        concurrency: limits.concurrency,
        burst: limits.burst,
    })
}
