//! One transaction for many settlements (BILL-4): dedup, usage rows, attempts, ledger, balances, windows.
//!
//! Locks are taken in one order everywhere: tenants' wallets by id, groups' wallets by id, usage rows by id, windows by key.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult};
use uuid::Uuid;

use super::{
    Fault, Store, Terms, WalletRow,
    bulk::{Rows, insert},
    execute, query,
    rows::{ATTEMPTS, ENTRIES, USAGE, WINDOWS, attempt_cells, push_entries, usage_cells},
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
            self.attempts
                .push(attempt_cells(priced, attempt, *cost_nanos));
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
