//! The one hot statement: a key with all that it belongs to, and the change feed's head, in one snapshot.

use std::time::Duration;

use sea_orm::{ConnectionTrait as _, DbErr, FromQueryResult, Statement};
use switchboard_common::db::Database;

use super::rows::{json, key_hash, unsigned, value};
use crate::{
    domain::{
        identity::{Caller, Group, KeyTerms, Tenant, User},
        key::KeyHash,
    },
    error::Fault,
    lookup::{KeyReader, Reading},
};

/// Both halves use an index; the outer joins give one row with the head when there is no such key.
const FIND: &str = "\
SELECT h.head, k.id, k.hash, k.key_until_ms, k.tenant, k.name, k.group_name, k.user_email, k.models, k.expires_at_ms, \
 k.limits, k.allow_ips, k.reject_unsupported, k.cost_center, k.tags, k.status, \
 t.status AS t_status, t.prepaid AS t_prepaid, t.strict_hold AS t_strict_hold, \
 t.serve_without_billing AS t_serve_without_billing, t.abandoned_free AS t_abandoned_free, \
 t.log_content AS t_log_content, t.limits AS t_limits, t.routes AS t_routes, \
 u.role AS u_role, u.multiplier AS u_multiplier, u.limits AS u_limits, u.status AS u_status, \
 g.status AS g_status, g.allow_ips AS g_allow_ips, g.limits AS g_limits, g.user_limits AS g_user_limits, \
 g.multiplier AS g_multiplier \
FROM (SELECT COALESCE(MAX(seq), 0) AS head FROM change) h \
LEFT JOIN (\
 SELECT id, hash, NULL AS key_until_ms, tenant, name, group_name, user_email, models, expires_at_ms, limits, allow_ips, \
  reject_unsupported, cost_center, tags, status FROM api_key WHERE hash = $1 \
 UNION ALL \
 SELECT id, previous_hash, previous_until_ms, tenant, name, group_name, user_email, models, expires_at_ms, limits, allow_ips, \
  reject_unsupported, cost_center, tags, status FROM api_key WHERE previous_hash = $1 AND previous_until_ms > $2\
) k ON TRUE \
LEFT JOIN tenant t ON t.name = k.tenant \
LEFT JOIN tenant_user u ON u.tenant = k.tenant AND u.email = k.user_email \
LEFT JOIN group_access g ON g.name = k.group_name";

/// Reads callers from SQL.
#[derive(Debug)]
pub(crate) struct SqlReader {
    database: Database,
    timeout: Duration,
}

impl SqlReader {
    /// Each query ends after `timeout`.
    pub(crate) fn new(database: Database, timeout: Duration) -> Self {
        Self { database, timeout }
    }
}

#[async_trait::async_trait]
impl KeyReader for SqlReader {
    async fn find(&self, hash: &KeyHash, now_ms: i64) -> Result<Reading, Fault> {
        let reader = self.database.reader();
        let statement = Statement::from_sql_and_values(
            self.database.backend(),
            FIND,
            [hash.as_bytes().to_vec().into(), now_ms.into()],
        );
        let rows = tokio::time::timeout(self.timeout, reader.query_all_raw(statement))
            .await
            .map_err(|_| DbErr::Custom("the look-up took too long".to_owned()))??;
        let mut reading = Reading::default();
        for row in &rows {
            let row = Row::from_query_result(row, "")?;
            reading.head = unsigned("change", row.head)?;
            let current = row.key_until_ms.is_none();
            if let Some(caller) = row.caller(hash)?
                // A secret that one key gave up and another took is the other's.
                && (current || reading.caller.is_none())
            {
                reading.caller = Some(caller);
            }
        }
        Ok(reading)
    }
}

#[derive(FromQueryResult)]
struct Row {
    head: i64,
    id: Option<String>,
    hash: Option<Vec<u8>>,
    key_until_ms: Option<i64>,
    tenant: Option<String>,
    name: Option<String>,
    group_name: Option<String>,
    user_email: Option<String>,
    models: Option<String>,
    expires_at_ms: Option<i64>,
    limits: Option<String>,
    allow_ips: Option<String>,
    reject_unsupported: Option<bool>,
    cost_center: Option<String>,
    tags: Option<String>,
    status: Option<String>,
    t_status: Option<String>,
    t_prepaid: Option<bool>,
    t_strict_hold: Option<bool>,
    t_serve_without_billing: Option<bool>,
    t_abandoned_free: Option<bool>,
    t_log_content: Option<bool>,
    t_limits: Option<String>,
    t_routes: Option<String>,
    u_role: Option<String>,
    u_multiplier: Option<i64>,
    u_limits: Option<String>,
    u_status: Option<String>,
    g_status: Option<String>,
    g_allow_ips: Option<String>,
    g_limits: Option<String>,
    g_user_limits: Option<String>,
    g_multiplier: Option<i64>,
}

impl Row {
    /// `None`: there is no such key.
    fn caller(self, presented: &KeyHash) -> Result<Option<Caller>, Fault> {
        let (Some(key_id), Some(hash)) = (self.id, self.hash) else {
            return Ok(None);
        };
        let hash = key_hash(&hash)?;
        if !hash.matches(presented) {
            return Ok(None);
        }
        let table = "api_key";
        let terms = KeyTerms {
            tenant: need(table, self.tenant)?,
            name: need(table, self.name)?,
            group: need(table, self.group_name)?,
            user: need(table, self.user_email)?,
            models: json(table, &need(table, self.models)?)?,
            expires_at_ms: match (self.expires_at_ms, self.key_until_ms) {
                (Some(key), Some(secret)) => Some(key.min(secret)),
                (key, secret) => key.or(secret),
            },
            limits: json(table, &need(table, self.limits)?)?,
            allow_ips: json(table, &need(table, self.allow_ips)?)?,
            reject_unsupported: need(table, self.reject_unsupported)?,
            cost_center: need(table, self.cost_center)?,
            tags: json(table, &need(table, self.tags)?)?,
            status: value(table, &need(table, self.status)?)?,
        };
        let table = "tenant";
        let tenant = Tenant {
            name: terms.tenant.clone(),
            status: value(table, &need(table, self.t_status)?)?,
            prepaid: need(table, self.t_prepaid)?,
            strict_hold: need(table, self.t_strict_hold)?,
            serve_without_billing: need(table, self.t_serve_without_billing)?,
            abandoned_free: need(table, self.t_abandoned_free)?,
            log_content: need(table, self.t_log_content)?,
            limits: json(table, &need(table, self.t_limits)?)?,
            routes: json(table, &need(table, self.t_routes)?)?,
        };
        let table = "tenant_user";
        let user = if terms.user.is_empty() {
            None
        } else {
            Some(User {
                tenant: terms.tenant.clone(),
                email: terms.user.clone(),
                role: value(table, &need(table, self.u_role)?)?,
                multiplier: unsigned(table, need(table, self.u_multiplier)?)?,
                limits: json(table, &need(table, self.u_limits)?)?,
                status: value(table, &need(table, self.u_status)?)?,
            })
        };
        let table = "group_access";
        let group = Group {
            name: terms.group.clone(),
            status: value(table, &need(table, self.g_status)?)?,
            allow_ips: json(table, &need(table, self.g_allow_ips)?)?,
            limits: json(table, &need(table, self.g_limits)?)?,
            user_limits: json(table, &need(table, self.g_user_limits)?)?,
            multiplier: unsigned(table, need(table, self.g_multiplier)?)?,
        };
        Ok(Some(Caller {
            key_id,
            hash,
            terms,
            tenant,
            user,
            group,
        }))
    }
}

fn need<T>(table: &'static str, value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| Fault::Row {
        table,
        message: "a key refers to what does not exist".to_owned(),
    })
}
