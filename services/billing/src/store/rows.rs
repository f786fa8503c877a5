//! The rows of a settlement and where they go.

use bytes::Bytes;
use switchboard_proto::billing::v1::{Attempt, Timing};
use uuid::Uuid;

use super::bulk::{Cell, Kind, Rows, Target};
use crate::domain::{booking::Priced, ledger::Entry};

/// Lines of one transaction.
pub(super) fn push_entries(
    rows: &mut Rows,
    id: Uuid,
    phase: i64,
    kind: &str,
    at_ms: i64,
    entries: &[Entry],
) {
    for (line, entry) in (0_i64..).zip(entries) {
        rows.push([
            id.into(),
            phase.into(),
            line.into(),
            kind.into(),
            entry.account.as_str().into(),
            entry.amount_nanos.into(),
            at_ms.into(),
        ]);
    }
}

/// An attempt's row.
pub(super) fn attempt_cells(priced: &Priced, attempt: &Attempt, cost_nanos: i64) -> [Cell; 20] {
    let usage = attempt.usage.unwrap_or_default();
    [
        priced.day().into(),
        priced.valid.id.as_uuid().into(),
        attempt.number.into(),
        attempt.account.as_str().into(),
        attempt.upstream_model.as_str().into(),
        attempt.cost_version.into(),
        attempt.status.into(),
        attempt.error.as_str().into(),
        usage.input_tokens.into(),
        usage.cached_input_tokens.into(),
        usage.cache_write_5m_tokens.into(),
        usage.cache_write_1h_tokens.into(),
        usage.output_tokens.into(),
        usage.reasoning_tokens.into(),
        attempt.usage_source.into(),
        cost_nanos.into(),
        attempt.sent.into(),
        attempt.connect_us.into(),
        attempt.first_byte_us.into(),
        attempt.total_us.into(),
    ]
}

/// A settlement as a usage row.
pub(super) fn usage_cells(priced: &Priced) -> [Cell; 47] {
    let (valid, party, settlement) = (&priced.valid, &priced.valid.party, &priced.valid.settlement);
    let usage = settlement.usage.unwrap_or_default();
    let timing = settlement.timing.unwrap_or(Timing::default());
    // The attempt that served, else the last.
    let attempt = settlement
        .attempts
        .iter()
        .rfind(|attempt| attempt.error.is_empty())
        .or(settlement.attempts.last());
    [
        priced.day().into(),
        valid.id.as_uuid().into(),
        valid.at_ms.into(),
        party.tenant.as_str().into(),
        party.user.as_str().into(),
        party.key_id.as_str().into(),
        party.key_name.as_str().into(),
        party.app.as_str().into(),
        party.group.as_str().into(),
        party.cost_center.as_str().into(),
        Bytes::clone(&settlement.fingerprint).into(),
        settlement.provisional.into(),
        settlement.client_request_id.as_str().into(),
        settlement.public_model.as_str().into(),
        attempt
            .map_or("", |attempt| attempt.upstream_model.as_str())
            .into(),
        attempt
            .map_or("", |attempt| attempt.account.as_str())
            .into(),
        settlement.dialect.into(),
        settlement.stream.into(),
        settlement.status.into(),
        settlement.error_code.as_str().into(),
        settlement.ending.into(),
        usage.input_tokens.into(),
        usage.cached_input_tokens.into(),
        usage.cache_write_5m_tokens.into(),
        usage.cache_write_1h_tokens.into(),
        usage.output_tokens.into(),
        usage.reasoning_tokens.into(),
        usage.audio_input_tokens.into(),
        usage.audio_output_tokens.into(),
        usage.images.into(),
        usage.audio_millis.into(),
        settlement.usage_source.into(),
        priced.amounts.charge_nanos.into(),
        priced.amounts.cost_nanos.into(),
        priced.amounts.counted_tokens.into(),
        settlement.price_version.into(),
        settlement.catalogue_version.into(),
        settlement.output_cap.into(),
        timing.gateway_us.into(),
        timing.queue_us.into(),
        timing.first_token_us.into(),
        timing.caller_write_us.into(),
        timing.total_us.into(),
        settlement.trace_id.as_str().into(),
        settlement.tags.as_str().into(),
        settlement.usage_raw.as_str().into(),
        settlement.decision_json.as_str().into(),
    ]
}

pub(super) const USAGE: Target = Target {
    table: "usage",
    columns: &[
        ("day", Kind::Int),
        ("request_id", Kind::Id),
        ("created_ms", Kind::Int),
        ("tenant", Kind::Text),
        ("user_name", Kind::Text),
        ("key_id", Kind::Text),
        ("key_name", Kind::Text),
        ("app", Kind::Text),
        ("group_name", Kind::Text),
        ("cost_center", Kind::Text),
        ("fingerprint", Kind::Bytes),
        ("provisional", Kind::Int),
        ("client_request_id", Kind::Text),
        ("public_model", Kind::Text),
        ("upstream_model", Kind::Text),
        ("account", Kind::Text),
        ("dialect", Kind::Int),
        ("stream", Kind::Int),
        ("status", Kind::Int),
        ("error_code", Kind::Text),
        ("ending", Kind::Int),
        ("input_tokens", Kind::Int),
        ("cached_input_tokens", Kind::Int),
        ("cache_write_5m_tokens", Kind::Int),
        ("cache_write_1h_tokens", Kind::Int),
        ("output_tokens", Kind::Int),
        ("reasoning_tokens", Kind::Int),
        ("audio_input_tokens", Kind::Int),
        ("audio_output_tokens", Kind::Int),
        ("images", Kind::Int),
        ("audio_millis", Kind::Int),
        ("usage_source", Kind::Int),
        ("charge_nanos", Kind::Int),
        ("cost_nanos", Kind::Int),
        ("counted_tokens", Kind::Int),
        ("price_version", Kind::Int),
        ("catalogue_version", Kind::Int),
        ("output_cap", Kind::Int),
        ("gateway_us", Kind::Int),
        ("queue_us", Kind::Int),
        ("first_token_us", Kind::Int),
        ("caller_write_us", Kind::Int),
        ("total_us", Kind::Int),
        ("trace_id", Kind::Text),
        ("tags", Kind::Text),
        ("usage_raw", Kind::Text),
        ("decision_json", Kind::Text),
    ],
    suffix: "ON CONFLICT (day, request_id) DO NOTHING RETURNING request_id",
};

pub(super) const ATTEMPTS: Target = Target {
    table: "attempt",
    columns: &[
        ("day", Kind::Int),
        ("request_id", Kind::Id),
        ("number", Kind::Int),
        ("account", Kind::Text),
        ("upstream_model", Kind::Text),
        ("cost_version", Kind::Int),
        ("status", Kind::Int),
        ("error", Kind::Text),
        ("input_tokens", Kind::Int),
        ("cached_input_tokens", Kind::Int),
        ("cache_write_5m_tokens", Kind::Int),
        ("cache_write_1h_tokens", Kind::Int),
        ("output_tokens", Kind::Int),
        ("reasoning_tokens", Kind::Int),
        ("usage_source", Kind::Int),
        ("cost_nanos", Kind::Int),
        ("sent", Kind::Int),
        ("connect_us", Kind::Int),
        ("first_byte_us", Kind::Int),
        ("total_us", Kind::Int),
    ],
    suffix: "",
};

pub(super) const ENTRIES: Target = Target {
    table: "ledger_entry",
    columns: &[
        ("transaction_id", Kind::Id),
        ("phase", Kind::Int),
        ("line", Kind::Int),
        ("kind", Kind::Text),
        ("account", Kind::Text),
        ("amount_nanos", Kind::Int),
        ("at_ms", Kind::Int),
    ],
    suffix: "",
};

pub(super) const WINDOWS: Target = Target {
    table: "spend_window",
    columns: &[
        ("owner", Kind::Text),
        ("subject_kind", Kind::Text),
        ("subject", Kind::Text),
        ("span", Kind::Text),
        ("starts_ms", Kind::Int),
        ("ends_ms", Kind::Int),
        ("used_nanos", Kind::Int),
        ("used_tokens", Kind::Int),
        ("version", Kind::Int),
        ("counted", Kind::Int),
    ],
    suffix: "ON CONFLICT (owner, subject_kind, subject, span, starts_ms) DO UPDATE SET \
             used_nanos = spend_window.used_nanos + excluded.used_nanos, \
             used_tokens = spend_window.used_tokens + excluded.used_tokens, \
             version = spend_window.version + 1 \
             RETURNING owner, subject_kind, subject, span, starts_ms, ends_ms, used_nanos, used_tokens, version",
};
