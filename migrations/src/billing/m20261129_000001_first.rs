//! Sheets, wallets, budgets, windows, the ledger, usage rows, attempts, dead letters.
//!
//! Amounts are BIGINT of nano-USD, flags and enum numbers are BIGINT too, so that one decoder serves both stores. `usage` and
//! `attempt` have the day of the request id in their keys, so that PostgreSQL partitions by day are possible later.

use sea_orm::DbBackend;
use sea_orm_migration::prelude::{
    ConnectionTrait, DbErr, DeriveMigrationName, MigrationTrait, SchemaManager, async_trait,
};

use crate::shared;

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(shared::change_table()).await?;
        manager.create_index(shared::change_time_index()).await?;
        manager.create_table(shared::audit_table()).await?;
        let connection = manager.get_connection();
        let (uuid, bytes, clustered) = match connection.get_database_backend() {
            DbBackend::Postgres => ("UUID", "BYTEA", ""),
            // A table that is its own primary key index: one write a row instead of two.
            _ => ("BLOB", "BLOB", "WITHOUT ROWID"),
        };
        for statement in STATEMENTS {
            let sql = statement
                .replace("{uuid}", uuid)
                .replace("{bytes}", bytes)
                .replace("{clustered}", clustered);
            connection.execute_unprepared(&sql).await?;
        }
        Ok(())
    }
}

const STATEMENTS: [&str; 14] = [
    // Immutable under its version; at most one active per subject.
    "CREATE TABLE sheet (
        version BIGINT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        rates TEXT NOT NULL,
        active BIGINT NOT NULL,
        origin TEXT NOT NULL,
        created_ms BIGINT NOT NULL)",
    "CREATE UNIQUE INDEX sheet_active ON sheet (kind, subject) WHERE active = 1",
    // `tenant:NAME` (money) and `group:NAME` (only owns budgets).
    "CREATE TABLE wallet (
        id TEXT NOT NULL PRIMARY KEY,
        prepaid BIGINT NOT NULL,
        opened BIGINT NOT NULL,
        balance_nanos BIGINT NOT NULL,
        overrun_nanos BIGINT NOT NULL,
        version BIGINT NOT NULL,
        budgets_revision BIGINT NOT NULL)",
    // `since_ms`: the start of the first window that it counts whole.
    "CREATE TABLE budget (
        owner TEXT NOT NULL,
        subject_kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        span TEXT NOT NULL,
        amount_nanos BIGINT,
        tokens BIGINT,
        active BIGINT NOT NULL,
        origin TEXT NOT NULL,
        since_ms BIGINT NOT NULL,
        PRIMARY KEY (owner, subject_kind, subject, span))",
    // `counted` 0: the budget was switched off while it ran, so that it misses rows.
    "CREATE TABLE spend_window (
        owner TEXT NOT NULL,
        subject_kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        span TEXT NOT NULL,
        starts_ms BIGINT NOT NULL,
        ends_ms BIGINT NOT NULL,
        used_nanos BIGINT NOT NULL,
        used_tokens BIGINT NOT NULL,
        version BIGINT NOT NULL,
        counted BIGINT NOT NULL,
        PRIMARY KEY (owner, subject_kind, subject, span, starts_ms)) {clustered}",
    // The lines of a transaction sum to zero. A settlement's id is its request's; phase 1 is the difference that a final
    // settlement makes to a provisional one.
    "CREATE TABLE ledger_entry (
        transaction_id {uuid} NOT NULL,
        phase BIGINT NOT NULL,
        line BIGINT NOT NULL,
        kind TEXT NOT NULL,
        account TEXT NOT NULL,
        amount_nanos BIGINT NOT NULL,
        at_ms BIGINT NOT NULL,
        PRIMARY KEY (transaction_id, phase, line)) {clustered}",
    // The dedup row of a settlement and the usage row in one: its key is the request's, so it exists once or not at all.
    "CREATE TABLE usage (
        day BIGINT NOT NULL,
        request_id {uuid} NOT NULL,
        created_ms BIGINT NOT NULL,
        tenant TEXT NOT NULL,
        user_name TEXT NOT NULL,
        key_id TEXT NOT NULL,
        key_name TEXT NOT NULL,
        app TEXT NOT NULL,
        group_name TEXT NOT NULL,
        cost_center TEXT NOT NULL,
        fingerprint {bytes} NOT NULL,
        provisional BIGINT NOT NULL,
        client_request_id TEXT NOT NULL,
        public_model TEXT NOT NULL,
        upstream_model TEXT NOT NULL,
        account TEXT NOT NULL,
        dialect BIGINT NOT NULL,
        stream BIGINT NOT NULL,
        status BIGINT NOT NULL,
        error_code TEXT NOT NULL,
        ending BIGINT NOT NULL,
        input_tokens BIGINT,
        cached_input_tokens BIGINT,
        cache_write_5m_tokens BIGINT,
        cache_write_1h_tokens BIGINT,
        output_tokens BIGINT,
        reasoning_tokens BIGINT,
        audio_input_tokens BIGINT,
        audio_output_tokens BIGINT,
        images BIGINT,
        audio_millis BIGINT,
        usage_source BIGINT NOT NULL,
        charge_nanos BIGINT NOT NULL,
        cost_nanos BIGINT NOT NULL,
        counted_tokens BIGINT NOT NULL,
        price_version BIGINT NOT NULL,
        catalogue_version BIGINT NOT NULL,
        output_cap BIGINT NOT NULL,
        gateway_us BIGINT NOT NULL,
        queue_us BIGINT NOT NULL,
        first_token_us BIGINT NOT NULL,
        caller_write_us BIGINT NOT NULL,
        total_us BIGINT NOT NULL,
        trace_id TEXT NOT NULL,
        tags TEXT NOT NULL,
        usage_raw TEXT NOT NULL,
        decision_json TEXT NOT NULL,
        PRIMARY KEY (day, request_id))",
    "CREATE INDEX usage_tenant ON usage (tenant, request_id)",
    "CREATE INDEX usage_client_request_id ON usage (client_request_id) WHERE client_request_id <> ''",
    "CREATE TABLE attempt (
        day BIGINT NOT NULL,
        request_id {uuid} NOT NULL,
        number BIGINT NOT NULL,
        account TEXT NOT NULL,
        upstream_model TEXT NOT NULL,
        cost_version BIGINT NOT NULL,
        status BIGINT NOT NULL,
        error TEXT NOT NULL,
        input_tokens BIGINT,
        cached_input_tokens BIGINT,
        cache_write_5m_tokens BIGINT,
        cache_write_1h_tokens BIGINT,
        output_tokens BIGINT,
        reasoning_tokens BIGINT,
        usage_source BIGINT NOT NULL,
        cost_nanos BIGINT NOT NULL,
        sent BIGINT NOT NULL,
        connect_us BIGINT NOT NULL,
        first_byte_us BIGINT NOT NULL,
        total_us BIGINT NOT NULL,
        PRIMARY KEY (day, request_id, number)) {clustered}",
    "CREATE TABLE top_up (
        wallet TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        amount_nanos BIGINT NOT NULL,
        transaction_id {uuid} NOT NULL,
        at_ms BIGINT NOT NULL,
        PRIMARY KEY (wallet, idempotency_key))",
    // `conflict`: same id, other request. `invalid`, `unrated`, `failed`: money that is not settled; someone must look.
    "CREATE TABLE dead_letter (
        request_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        fingerprint {bytes} NOT NULL,
        problem TEXT NOT NULL,
        settlement {bytes} NOT NULL,
        at_ms BIGINT NOT NULL,
        PRIMARY KEY (request_id, kind, fingerprint))",
    "CREATE INDEX dead_letter_at_ms ON dead_letter (at_ms)",
    "CREATE INDEX budget_active ON budget (owner) WHERE active = 1",
];
