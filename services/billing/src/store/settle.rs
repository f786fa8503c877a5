//! One transaction for many settlements (BILL-4): dedup, usage rows, attempts, ledger, balances, windows.
//!
//! Locks are taken in one order everywhere: tenants' wallets by id, groups' wallets by id, usage rows by id, windows by key.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult};
use switchboard_proto::billing::v1::Timing;
use uuid::Uuid;

use super::{
    Fault, Store, Terms, WalletRow,
    bulk::{Cell, Kind, Rows, Target, insert},
    execute, query,
    terms::{self, Lock},
};
use crate::domain::{
    booking::{Fate, Movement, Priced, Recorded},
    budget::{group_owner, tenant_owner},
    ledger::Entry,
    window::Window,
};

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Replaced,
    Duplicate,
    Conflict,
}

/// A window's new absolute values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowRow {
    pub(crate) owner: String,
    pub(crate) subject_kind: String,
    pub(crate) subject: String,
    pub(crate) span: String,
    pub(crate) starts_ms: i64,
    pub(crate) ends_ms: i64,
    pub(crate) used_nanos: i64,
    pub(crate) used_tokens: i64,
    pub(crate) version: i64,
}

/// A committed batch.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Of each settlement, in their order.
    pub(crate) outcomes: Vec<Outcome>,
    /// Rows of all tenants of the batch, as committed.
    pub(crate) wallets: Vec<WalletRow>,
    /// Windows of all parties of the batch that are counted, as committed.
    pub(crate) windows: Vec<WindowRow>,
}

type WindowKey = (String, &'static str, String, &'static str, Window);

impl Store {
    /// Commits a batch. Ids are distinct and sorted. `cached` are terms that may be out
    /// of date: only those of the locked revision are used.
    pub(crate) async fn settle(
        &self,
        batch: &[&Priced],
        now_ms: i64,
        cached: &HashMap<String, Arc<Terms>>,
    ) -> Result<Settled, Fault> {
        let tx = self.database.begin().await?;
        let mut owners = Owners::lock(&tx, batch, cached).await?;
        let inserted = insert_usage(&tx, batch).await?;
        let mut recorded = if inserted.len() == batch.len() {
            HashMap::new()
        } else {
            read_recorded(&tx, batch, &inserted).await?
        };

        let mut writes = Writes::new(now_ms);
        let mut outcomes = Vec::with_capacity(batch.len());
        for priced in batch {
            let id = priced.valid.id.as_uuid();
            let (outcome, movement) = match recorded.remove(&id) {
                None => (Outcome::Applied, priced.whole()),
                Some(row) => match priced.beside(&row) {
                    Fate::Replace(movement) => (Outcome::Replaced, movement),
                    Fate::Duplicate => (Outcome::Duplicate, Movement::default()),
                    Fate::Conflict => (Outcome::Conflict, Movement::default()),
                },
            };
            if outcome == Outcome::Replaced {
                remove_row(&tx, priced).await?;
                insert_usage(&tx, &[priced]).await?;
            }
            if outcome != Outcome::Conflict {
                owners.count(priced, &movement);
            }
            if matches!(outcome, Outcome::Applied | Outcome::Replaced) {
                writes.attempts(priced);
                let entries = owners.charge(&priced.valid.party.tenant, &movement)?;
                writes.entries(id, outcome, &entries);
            }
            outcomes.push(outcome);
        }
        let windows = writes.commit_rows(&tx, &owners).await?;
        tx.commit().await?;
        Ok(Settled {
            outcomes,
            wallets: owners
                .tenants
                .into_values()
                .map(|tenant| tenant.row)
                .collect(),
            windows,
        })
    }

    /// Puts a settlement aside that cannot be booked. Asking twice is one row.
    pub(crate) async fn bury(
        &self,
        request_id: &str,
        kind: &str,
        problem: &str,
        fingerprint: &[u8],
        settlement: Vec<u8>,
        now_ms: i64,
    ) -> Result<(), DbErr> {
        execute(
            self.database.writer(),
            "INSERT INTO dead_letter (request_id, kind, fingerprint, problem, settlement, at_ms) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            [
                request_id.replace('\0', "").into(),
                kind.into(),
                fingerprint.to_vec().into(),
                problem.replace('\0', "").into(),
                settlement.into(),
                now_ms.into(),
            ],
        )
        .await
        .map(drop)
    }

    /// One window's values; absent when nothing was counted in it yet.
    pub(crate) async fn window(
        &self,
        owner: &str,
        subject_kind: &str,
        subject: &str,
        span: &str,
        starts_ms: i64,
    ) -> Result<Option<WindowRow>, DbErr> {
        let rows = query(
            self.database.reader(),
            "SELECT owner, subject_kind, subject, span, starts_ms, ends_ms, used_nanos, used_tokens, version FROM spend_window \
             WHERE owner = $1 AND subject_kind = $2 AND subject = $3 AND span = $4 AND starts_ms = $5",
            [owner.into(), subject_kind.into(), subject.into(), span.into(), starts_ms.into()],
        )
        .await?;
        rows.first().map(window_row).transpose()
    }
}

struct Tenant {
    row: WalletRow,
    changed: bool,
}

/// The locked owners of a batch and what they spend.
struct Owners {
    tenants: BTreeMap<String, Tenant>,
    terms: HashMap<String, Arc<Terms>>,
    spent: BTreeMap<WindowKey, (i64, i64)>,
}

impl Owners {
    async fn lock(
        tx: &impl ConnectionTrait,
        batch: &[&Priced],
        cached: &HashMap<String, Arc<Terms>>,
    ) -> Result<Self, DbErr> {
        let parties = || batch.iter().map(|priced| &priced.valid.party);
        let tenants: BTreeSet<_> = parties().map(|party| tenant_owner(&party.tenant)).collect();
        let groups: BTreeSet<_> = parties()
            .filter(|party| !party.group.is_empty())
            .map(|party| group_owner(&party.group))
            .collect();
        let tenants: Vec<_> = tenants.iter().map(String::as_str).collect();
        let groups: Vec<_> = groups.iter().map(String::as_str).collect();
        let tenants = terms::lock(tx, &tenants, Lock::Update).await?;
        let groups = terms::lock(tx, &groups, Lock::Share).await?;

        let mut terms = HashMap::new();
        for row in tenants.iter().chain(&groups) {
            let known = cached
                .get(&row.id)
                .filter(|terms| terms.revision == row.revision);
            let own = match known {
                Some(known) => Arc::clone(known),
                None if row.revision == 0 => Arc::default(),
                None => Arc::new(Terms {
                    prepaid: row.wallet.prepaid,
                    revision: row.revision,
                    budgets: terms::active_budgets(tx, &row.id).await?,
                }),
            };
            if !own.budgets.is_empty() {
                terms.insert(row.id.clone(), own);
            }
        }
        let tenants = tenants
            .into_iter()
            .map(|row| {
                (
                    row.id.clone(),
                    Tenant {
                        row,
                        changed: false,
                    },
                )
            })
            .collect();
        Ok(Self {
            tenants,
            terms,
            spent: BTreeMap::new(),
        })
    }

    /// Adds to the windows in which the request was admitted. Adding nothing still names them, so that their values are told.
    fn count(&mut self, priced: &Priced, movement: &Movement) {
        if self.terms.is_empty() {
            return;
        }
        let party = &priced.valid.party;
        for owner in [tenant_owner(&party.tenant), group_owner(&party.group)] {
            let Some(terms) = self.terms.get(&owner) else {
                continue;
            };
            for budget in terms.budgets.of(party) {
                let window = budget.span.window(priced.valid.at_ms);
                if window.starts_ms < budget.since_ms {
                    continue;
                }
                let key = (
                    owner.clone(),
                    budget.kind.name(),
                    budget.subject.clone(),
                    budget.span.name(),
                    window,
                );
                let (nanos, tokens) = self.spent.entry(key).or_default();
                *nanos = nanos.saturating_add(movement.charge_nanos);
                *tokens = tokens.saturating_add(movement.counted_tokens);
            }
        }
    }

    fn charge(&mut self, tenant: &str, movement: &Movement) -> Result<Vec<Entry>, Fault> {
        let owner = self
            .tenants
            .get_mut(&tenant_owner(tenant))
            .ok_or_else(|| Fault::Other(DbErr::RecordNotFound("wallet".to_owned())))?;
        let before = owner.row.wallet;
        let entries = movement.post(tenant, &mut owner.row.wallet)?;
        if owner.row.wallet != before && !owner.changed {
            owner.changed = true;
            owner.row.version += 1;
        }
        Ok(entries)
    }
}

/// Rows that follow the usage rows.
struct Writes {
    now_ms: i64,
    attempts: Rows,
    entries: Rows,
}

impl Writes {
    fn new(now_ms: i64) -> Self {
        Self {
            now_ms,
            attempts: Rows::new(ATTEMPTS),
            entries: Rows::new(ENTRIES),
        }
    }

    fn attempts(&mut self, priced: &Priced) {
        let costs = priced.amounts.attempt_costs.iter();
        for (attempt, cost_nanos) in priced.valid.settlement.attempts.iter().zip(costs) {
            let usage = attempt.usage.unwrap_or_default();
            self.attempts.push([
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
                (*cost_nanos).into(),
                attempt.sent.into(),
                attempt.connect_us.into(),
                attempt.first_byte_us.into(),
                attempt.total_us.into(),
            ]);
        }
    }

    fn entries(&mut self, id: Uuid, outcome: Outcome, entries: &[Entry]) {
        let (phase, kind) = match outcome {
            Outcome::Replaced => (1, "final"),
            _ => (0, "settlement"),
        };
        push_entries(&mut self.entries, id, phase, kind, self.now_ms, entries);
    }

    async fn commit_rows(
        self,
        tx: &impl ConnectionTrait,
        owners: &Owners,
    ) -> Result<Vec<WindowRow>, DbErr> {
        let mut wallets = Rows::new(terms::WALLETS);
        for tenant in owners.tenants.values().filter(|tenant| tenant.changed) {
            wallets.push(tenant.row.cells());
        }
        let mut windows = Rows::new(WINDOWS);
        for ((owner, kind, subject, span, window), (nanos, tokens)) in &owners.spent {
            windows.push([
                owner.as_str().into(),
                (*kind).into(),
                subject.as_str().into(),
                (*span).into(),
                window.starts_ms.into(),
                window.ends_ms.into(),
                (*nanos).into(),
                (*tokens).into(),
                1_i64.into(),
                1_i64.into(),
            ]);
        }
        let rows = insert(tx, vec![self.attempts, self.entries, wallets, windows]).await?;
        rows.iter().map(window_row).collect()
    }
}

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

fn window_row(row: &QueryResult) -> Result<WindowRow, DbErr> {
    Ok(WindowRow {
        owner: row.try_get("", "owner")?,
        subject_kind: row.try_get("", "subject_kind")?,
        subject: row.try_get("", "subject")?,
        span: row.try_get("", "span")?,
        starts_ms: row.try_get("", "starts_ms")?,
        ends_ms: row.try_get("", "ends_ms")?,
        used_nanos: row.try_get("", "used_nanos")?,
        used_tokens: row.try_get("", "used_tokens")?,
        version: row.try_get("", "version")?,
    })
}

/// Gives the ids that had no row.
async fn insert_usage(
    tx: &impl ConnectionTrait,
    batch: &[&Priced],
) -> Result<HashSet<Uuid>, DbErr> {
    let mut rows = Rows::new(USAGE);
    for priced in batch {
        rows.push(usage_cells(priced));
    }
    insert(tx, vec![rows])
        .await?
        .iter()
        .map(|row| row.try_get("", "request_id"))
        .collect()
}

async fn read_recorded(
    tx: &impl ConnectionTrait,
    batch: &[&Priced],
    inserted: &HashSet<Uuid>,
) -> Result<HashMap<Uuid, Recorded>, DbErr> {
    let lock = match tx.get_database_backend() {
        DbBackend::Postgres => " FOR UPDATE",
        _ => "",
    };
    let select = format!(
        "SELECT key_id, fingerprint, provisional, charge_nanos, counted_tokens FROM usage WHERE day = $1 AND request_id = $2{lock}"
    );
    let mut recorded = HashMap::new();
    for priced in batch {
        let id = priced.valid.id.as_uuid();
        if inserted.contains(&id) {
            continue;
        }
        let rows = query(tx, &select, [priced.day().into(), id.into()]).await?;
        let row = rows
            .first()
            .ok_or_else(|| DbErr::RecordNotFound("usage row".to_owned()))?;
        let mut costs: BTreeMap<String, i64> = BTreeMap::new();
        let attempts = query(
            tx,
            "SELECT account, cost_nanos FROM attempt WHERE day = $1 AND request_id = $2",
            [priced.day().into(), id.into()],
        )
        .await?;
        for attempt in &attempts {
            *costs.entry(attempt.try_get("", "account")?).or_default() +=
                attempt.try_get::<i64>("", "cost_nanos")?;
        }
        recorded.insert(
            id,
            Recorded {
                key_id: row.try_get("", "key_id")?,
                fingerprint: row.try_get("", "fingerprint")?,
                provisional: row.try_get::<i64>("", "provisional")? != 0,
                charge_nanos: row.try_get("", "charge_nanos")?,
                counted_tokens: row.try_get("", "counted_tokens")?,
                costs,
            },
        );
    }
    Ok(recorded)
}

async fn remove_row(tx: &impl ConnectionTrait, priced: &Priced) -> Result<(), DbErr> {
    for sql in [
        "DELETE FROM usage WHERE day = $1 AND request_id = $2",
        "DELETE FROM attempt WHERE day = $1 AND request_id = $2",
    ] {
        execute(
            tx,
            sql,
            [priced.day().into(), priced.valid.id.as_uuid().into()],
        )
        .await?;
    }
    Ok(())
}

fn usage_cells(priced: &Priced) -> [Cell; 47] {
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

const USAGE: Target = Target {
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

const ATTEMPTS: Target = Target {
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

const WINDOWS: Target = Target {
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
