//! Usage rows for people: lists and one request's whole story.

use std::collections::{BTreeMap, HashMap};

use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};
use switchboard_common::ids::RequestId;
use switchboard_proto::{
    billing::v1::{Ending, ExplainResponse, Party, Timing, UsageAttempt, UsageRow},
    common::v1::{Dialect, UsageSource},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use super::{Store, optional, query, unsigned};
use crate::domain::window::day;

impl Store {
    /// The newest rows first, of one tenant or of all (empty), older than `before`.
    pub(crate) async fn usage(
        &self,
        tenant: &str,
        before: Option<RequestId>,
        limit: u32,
    ) -> Result<Vec<UsageRow>, DbErr> {
        let on = self.database.reader();
        // No id is larger, and none of a later day.
        let (last_day, last) = before.map_or((i64::MAX, Uuid::max()), |id| {
            (day(id.unix_ms()), id.as_uuid())
        });
        let limit = i64::from(limit).into();
        let rows = if tenant.is_empty() {
            let sql = "SELECT * FROM usage WHERE (day, request_id) < ($1, $2) ORDER BY day DESC, request_id DESC LIMIT $3";
            query(on, sql, [last_day.into(), last.into(), limit]).await?
        } else {
            let sql = "SELECT * FROM usage WHERE tenant = $1 AND request_id < $2 ORDER BY request_id DESC LIMIT $3";
            query(on, sql, [tenant.into(), last.into(), limit]).await?
        };
        with_attempts(on, &rows).await
    }

    /// One request by its id, else the newest that bears the text as its `client_request_id`.
    pub(crate) async fn explain(&self, id: &str) -> Result<Option<ExplainResponse>, DbErr> {
        let on = self.database.reader();
        let mut rows = Vec::new();
        if let Ok(id) = id.parse::<RequestId>() {
            let sql = "SELECT * FROM usage WHERE day = $1 AND request_id = $2";
            rows = query(on, sql, [day(id.unix_ms()).into(), id.as_uuid().into()]).await?;
        }
        if rows.is_empty() {
            let sql = "SELECT * FROM usage WHERE client_request_id = $1 AND client_request_id <> '' ORDER BY request_id DESC LIMIT 1";
            rows = query(on, sql, [id.into()]).await?;
        }
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(ExplainResponse {
            decision_json: row.try_get("", "decision_json")?,
            usage_raw: row.try_get("", "usage_raw")?,
            catalogue_version: unsigned(row, "catalogue_version")?,
            row: with_attempts(on, &rows).await?.pop(),
        }))
    }

    /// Whose a settled request is; absent when it is not settled.
    pub(crate) async fn settled_party(&self, id: RequestId) -> Result<Option<Party>, DbErr> {
        let sql = "SELECT tenant, user_name, key_id, key_name, group_name FROM usage WHERE day = $1 AND request_id = $2";
        let rows = query(
            self.database.reader(),
            sql,
            [day(id.unix_ms()).into(), id.as_uuid().into()],
        )
        .await?;
        let party = |row: &QueryResult| {
            Ok(Party {
                tenant: row.try_get("", "tenant")?,
                user: row.try_get("", "user_name")?,
                key_id: row.try_get("", "key_id")?,
                key_name: row.try_get("", "key_name")?,
                group: row.try_get("", "group_name")?,
                ..Party::default()
            })
        };
        rows.first().map(party).transpose()
    }
}

async fn with_attempts(
    on: &impl ConnectionTrait,
    rows: &[QueryResult],
) -> Result<Vec<UsageRow>, DbErr> {
    let mut attempts = attempts(on, rows).await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = row.try_get("", "request_id")?;
            let mut usage = usage_row(row, id)?;
            usage.attempts = attempts.remove(&id).unwrap_or_default();
            Ok(usage)
        })
        .collect()
}

async fn attempts(
    on: &impl ConnectionTrait,
    rows: &[QueryResult],
) -> Result<HashMap<Uuid, Vec<UsageAttempt>>, DbErr> {
    let mut found: HashMap<Uuid, Vec<UsageAttempt>> = HashMap::new();
    // By the day, with which the index begins: a range of days would be read whole.
    let mut by_day: BTreeMap<i64, Vec<Uuid>> = BTreeMap::new();
    for row in rows {
        let ids = by_day.entry(row.try_get("", "day")?).or_default();
        ids.push(row.try_get("", "request_id")?);
    }
    let backend = on.get_database_backend();
    let place = |index: usize| match backend {
        DbBackend::Postgres => format!("${index}"),
        _ => "?".to_owned(),
    };
    for (day, ids) in by_day {
        // Bounded statements, whatever the length of the list.
        for ids in ids.chunks(200) {
            let places: Vec<_> = (2..ids.len() + 2).map(place).collect();
            let sql = format!(
                "SELECT * FROM attempt WHERE day = {} AND request_id IN ({}) ORDER BY number",
                place(1),
                places.join(", "),
            );
            let mut values: Vec<Value> = vec![day.into()];
            values.extend(ids.iter().map(|id| Value::from(*id)));
            let asked = Statement::from_sql_and_values(backend, sql, values);
            for row in on.query_all_raw(asked).await? {
                found
                    .entry(row.try_get("", "request_id")?)
                    .or_default()
                    .push(attempt(&row)?);
            }
        }
    }
    Ok(found)
}

fn attempt(row: &QueryResult) -> Result<UsageAttempt, DbErr> {
    Ok(UsageAttempt {
        number: small(row, "number")?,
        account: row.try_get("", "account")?,
        upstream_model: row.try_get("", "upstream_model")?,
        status: small(row, "status")?,
        error: row.try_get("", "error")?,
        input_tokens: optional(row, "input_tokens")?,
        cached_input_tokens: optional(row, "cached_input_tokens")?,
        output_tokens: optional(row, "output_tokens")?,
        reasoning_tokens: optional(row, "reasoning_tokens")?,
        cost_nanos: row.try_get("", "cost_nanos")?,
        cost_version: unsigned(row, "cost_version")?,
        connect_us: unsigned(row, "connect_us")?,
        first_byte_us: unsigned(row, "first_byte_us")?,
        total_us: unsigned(row, "total_us")?,
        sent: row.try_get::<i64>("", "sent")? != 0,
    })
}

fn usage_row(row: &QueryResult, id: Uuid) -> Result<UsageRow, DbErr> {
    Ok(UsageRow {
        request_id: id.to_string(),
        client_request_id: row.try_get("", "client_request_id")?,
        created_at: rfc3339(row.try_get("", "created_ms")?),
        tenant: row.try_get("", "tenant")?,
        user: row.try_get("", "user_name")?,
        app: row.try_get("", "app")?,
        key: row.try_get("", "key_name")?,
        group: row.try_get("", "group_name")?,
        public_model: row.try_get("", "public_model")?,
        upstream_model: row.try_get("", "upstream_model")?,
        account: row.try_get("", "account")?,
        stream: row.try_get::<i64>("", "stream")? != 0,
        status: small(row, "status")?,
        error_code: row.try_get("", "error_code")?,
        ending: ending(enumeration(row, "ending")?).to_owned(),
        provisional: row.try_get::<i64>("", "provisional")? != 0,
        input_tokens: optional(row, "input_tokens")?,
        cached_input_tokens: optional(row, "cached_input_tokens")?,
        cache_write_5m_tokens: optional(row, "cache_write_5m_tokens")?,
        cache_write_1h_tokens: optional(row, "cache_write_1h_tokens")?,
        output_tokens: optional(row, "output_tokens")?,
        reasoning_tokens: optional(row, "reasoning_tokens")?,
        audio_input_tokens: optional(row, "audio_input_tokens")?,
        audio_output_tokens: optional(row, "audio_output_tokens")?,
        images: optional(row, "images")?,
        audio_millis: optional(row, "audio_millis")?,
        usage_source: source(enumeration(row, "usage_source")?).to_owned(),
        charge_nanos: row.try_get("", "charge_nanos")?,
        cost_nanos: row.try_get("", "cost_nanos")?,
        attempts: Vec::new(),
        dialect: dialect(enumeration(row, "dialect")?),
        price_version: unsigned(row, "price_version")?,
        key_id: row.try_get("", "key_id")?,
        trace_id: row.try_get("", "trace_id")?,
        tags: row.try_get("", "tags")?,
        timing: Some(Timing {
            gateway_us: unsigned(row, "gateway_us")?,
            queue_us: unsigned(row, "queue_us")?,
            first_token_us: unsigned(row, "first_token_us")?,
            caller_write_us: unsigned(row, "caller_write_us")?,
            total_us: unsigned(row, "total_us")?,
        }),
        output_cap: unsigned(row, "output_cap")?,
        cost_center: row.try_get("", "cost_center")?,
    })
}

fn small(row: &QueryResult, column: &str) -> Result<u32, DbErr> {
    Ok(u32::try_from(row.try_get::<i64>("", column)?).unwrap_or(0))
}

fn enumeration(row: &QueryResult, column: &str) -> Result<i32, DbErr> {
    Ok(i32::try_from(row.try_get::<i64>("", column)?).unwrap_or(0))
}

fn ending(value: i32) -> &'static str {
    match Ending::try_from(value).unwrap_or_default() {
        Ending::Complete => "complete",
        // A row says how it ended; a settlement that does not say has failed.
        Ending::Failed | Ending::Unspecified => "failed",
        Ending::CallerLeft => "caller_left",
        Ending::UpstreamBroke => "upstream_broke",
        Ending::GatewayLost => "gateway_lost",
    }
}

fn source(value: i32) -> &'static str {
    match UsageSource::try_from(value).unwrap_or_default() {
        UsageSource::Provider => "provider",
        UsageSource::Estimated => "estimated",
        UsageSource::None | UsageSource::Unspecified => "none",
    }
}

/// `DIALECT_OPENAI_CHAT` → `openai.chat`.
fn dialect(value: i32) -> String {
    let name = Dialect::try_from(value).unwrap_or_default().as_str_name();
    match name.trim_start_matches("DIALECT_") {
        "UNSPECIFIED" => String::new(),
        name => name.to_ascii_lowercase().replacen('_', ".", 1),
    }
}

/// An instant as people read it.
pub(crate) fn rfc3339(at_ms: i64) -> String {
    let (secs, millis) = (at_ms.div_euclid(1_000), at_ms.rem_euclid(1_000));
    OffsetDateTime::from_unix_timestamp(secs)
        .ok()
        .and_then(|at| at.replace_millisecond(u16::try_from(millis).ok()?).ok())
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_speak_the_contracts_words_con_1() {
        assert_eq!(dialect(Dialect::OpenaiChat.into()), "openai.chat");
        assert_eq!(
            dialect(Dialect::AnthropicMessages.into()),
            "anthropic.messages"
        );
        assert_eq!(ending(Ending::CallerLeft.into()), "caller_left");
        assert_eq!(source(0), "none");
        assert_eq!(rfc3339(1_796_000_000_123), "2026-11-30T00:53:20.123Z");
    }
}
