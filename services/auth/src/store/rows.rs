//! Rows to domain values and back.

use std::{fmt::Display, str::FromStr};

use sea_orm::ActiveValue::Set;
use serde::{Serialize, de::DeserializeOwned};

use super::entity::{api_key, group_access, tenant, tenant_user};
use crate::{
    domain::{
        identity::{Group, Key, KeySecret, KeyTerms, Origin, Tenant, User},
        key::KeyHash,
    },
    error::Fault,
};

pub(super) fn tenant(row: tenant::Model) -> Result<(Tenant, Origin), Fault> {
    let table = "tenant";
    let tenant = Tenant {
        status: value(table, &row.status)?,
        prepaid: row.prepaid,
        strict_hold: row.strict_hold,
        serve_without_billing: row.serve_without_billing,
        abandoned_free: row.abandoned_free,
        log_content: row.log_content,
        limits: json(table, &row.limits)?,
        routes: json(table, &row.routes)?,
        name: row.name,
    };
    Ok((tenant, value(table, &row.origin)?))
}

pub(super) fn tenant_row(
    tenant: &Tenant,
    origin: Origin,
    now_ms: i64,
) -> Result<tenant::ActiveModel, Fault> {
    Ok(tenant::ActiveModel {
        name: Set(tenant.name.clone()),
        status: Set(tenant.status.as_str().to_owned()),
        prepaid: Set(tenant.prepaid),
        strict_hold: Set(tenant.strict_hold),
        serve_without_billing: Set(tenant.serve_without_billing),
        abandoned_free: Set(tenant.abandoned_free),
        log_content: Set(tenant.log_content),
        limits: Set(text("tenant", &tenant.limits)?),
        routes: Set(text("tenant", &tenant.routes)?),
        origin: Set(origin.as_str().to_owned()),
        updated_at_ms: Set(now_ms),
    })
}

pub(super) fn user(row: tenant_user::Model) -> Result<(User, Origin), Fault> {
    let table = "tenant_user";
    let user = User {
        role: value(table, &row.role)?,
        multiplier: unsigned(table, row.multiplier)?,
        limits: json(table, &row.limits)?,
        status: value(table, &row.status)?,
        tenant: row.tenant,
        email: row.email,
    };
    Ok((user, value(table, &row.origin)?))
}

pub(super) fn user_row(
    user: &User,
    origin: Origin,
    now_ms: i64,
) -> Result<tenant_user::ActiveModel, Fault> {
    Ok(tenant_user::ActiveModel {
        tenant: Set(user.tenant.clone()),
        email: Set(user.email.clone()),
        role: Set(user.role.as_str().to_owned()),
        multiplier: Set(signed("tenant_user", user.multiplier)?),
        limits: Set(text("tenant_user", &user.limits)?),
        status: Set(user.status.as_str().to_owned()),
        origin: Set(origin.as_str().to_owned()),
        updated_at_ms: Set(now_ms),
    })
}

pub(super) fn group(row: group_access::Model) -> Result<(Group, Origin), Fault> {
    let table = "group_access";
    let group = Group {
        status: value(table, &row.status)?,
        allow_ips: json(table, &row.allow_ips)?,
        limits: json(table, &row.limits)?,
        user_limits: json(table, &row.user_limits)?,
        multiplier: unsigned(table, row.multiplier)?,
        name: row.name,
    };
    Ok((group, value(table, &row.origin)?))
}

pub(super) fn group_row(
    group: &Group,
    origin: Origin,
    now_ms: i64,
) -> Result<group_access::ActiveModel, Fault> {
    let table = "group_access";
    Ok(group_access::ActiveModel {
        name: Set(group.name.clone()),
        status: Set(group.status.as_str().to_owned()),
        allow_ips: Set(text(table, &group.allow_ips)?),
        limits: Set(text(table, &group.limits)?),
        user_limits: Set(text(table, &group.user_limits)?),
        multiplier: Set(signed(table, group.multiplier)?),
        origin: Set(origin.as_str().to_owned()),
        updated_at_ms: Set(now_ms),
    })
}

pub(super) fn key(row: api_key::Model) -> Result<Key, Fault> {
    let table = "api_key";
    let previous = match (&row.previous_hash, row.previous_until_ms) {
        (Some(hash), Some(until_ms)) => Some((key_hash(hash)?, until_ms)),
        _ => None,
    };
    Ok(Key {
        secret: KeySecret {
            hash: key_hash(&row.hash)?,
            prefix: row.prefix,
        },
        previous,
        origin: value(table, &row.origin)?,
        disabled_by: match row.disabled_by.as_str() {
            "" => None,
            text => Some(value(table, text)?),
        },
        created_at_ms: row.created_at_ms,
        id: row.id,
        terms: KeyTerms {
            models: json(table, &row.models)?,
            limits: json(table, &row.limits)?,
            allow_ips: json(table, &row.allow_ips)?,
            tags: json(table, &row.tags)?,
            status: value(table, &row.status)?,
            tenant: row.tenant,
            name: row.name,
            group: row.group_name,
            user: row.user_email,
            expires_at_ms: row.expires_at_ms,
            reject_unsupported: row.reject_unsupported,
            cost_center: row.cost_center,
        },
    })
}

pub(super) fn key_row(key: &Key, now_ms: i64) -> Result<api_key::ActiveModel, Fault> {
    let table = "api_key";
    let terms = &key.terms;
    Ok(api_key::ActiveModel {
        id: Set(key.id.clone()),
        tenant: Set(terms.tenant.clone()),
        name: Set(terms.name.clone()),
        hash: Set(key.secret.hash.as_bytes().to_vec()),
        previous_hash: Set(key.previous.map(|(hash, _)| hash.as_bytes().to_vec())),
        previous_until_ms: Set(key.previous.map(|(_, until_ms)| until_ms)),
        prefix: Set(key.secret.prefix.clone()),
        group_name: Set(terms.group.clone()),
        user_email: Set(terms.user.clone()),
        models: Set(text(table, &terms.models)?),
        expires_at_ms: Set(terms.expires_at_ms),
        limits: Set(text(table, &terms.limits)?),
        allow_ips: Set(text(table, &terms.allow_ips)?),
        reject_unsupported: Set(terms.reject_unsupported),
        cost_center: Set(terms.cost_center.clone()),
        tags: Set(text(table, &terms.tags)?),
        status: Set(terms.status.as_str().to_owned()),
        disabled_by: Set(key
            .disabled_by
            .map_or_else(String::new, |by| by.as_str().to_owned())),
        origin: Set(key.origin.as_str().to_owned()),
        created_at_ms: Set(key.created_at_ms),
        updated_at_ms: Set(now_ms),
    })
}

pub(super) fn key_hash(bytes: &[u8]) -> Result<KeyHash, Fault> {
    KeyHash::from_stored(bytes).ok_or_else(|| fault("api_key", "a hash that is not 32 bytes long"))
}

pub(super) fn value<T: FromStr<Err: Display>>(table: &'static str, text: &str) -> Result<T, Fault> {
    text.parse().map_err(|error| fault(table, error))
}

pub(super) fn json<T: DeserializeOwned>(table: &'static str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| fault(table, error))
}

pub(super) fn unsigned(table: &'static str, value: i64) -> Result<u64, Fault> {
    u64::try_from(value).map_err(|error| fault(table, error))
}

fn text(table: &'static str, value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| fault(table, error))
}

fn signed(table: &'static str, value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|error| fault(table, error))
}

fn fault(table: &'static str, error: impl Display) -> Fault {
    Fault::Row {
        table,
        message: error.to_string(),
    }
}
