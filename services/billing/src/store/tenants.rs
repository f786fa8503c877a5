//! Opening balances, top-ups, budgets (BILL-3, BILL-10).

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{ConnectionTrait, DbErr};
use switchboard_common::{audit, feed, ids::RequestId, money::NanoUsd};
use switchboard_proto::common::v1::{Actor, PlannedChange};
use uuid::Uuid;

use super::{
    Fault, Store, WalletRow, bulk, execute,
    prices::summary,
    query,
    rows::{ENTRIES, push_entries},
    terms::{self, Lock, WALLETS},
};
use crate::domain::{
    budget::{Budget, SubjectKind, group_owner, tenant_owner},
    ledger::{Account, Entry},
    window,
};

/// A tenant's money as it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct TenantTerms {
    pub(crate) name: String,
    /// Prepaid, and what it starts with. Absent: postpaid.
    pub(crate) opening_nanos: Option<i64>,
    pub(crate) budgets: Vec<Budget>,
}

/// A group's budgets as they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct OwnerBudgets {
    pub(crate) name: String,
    pub(crate) budgets: Vec<Budget>,
}

/// What an application of tenants' money does.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppliedTenants {
    pub(crate) changes: Vec<PlannedChange>,
    /// Owners of budgets that were switched on again: their windows were counted anew, and the state store does not know.
    pub(crate) recounted: Vec<String>,
}

/// The change feed's word for it; its id is the owner.
pub(crate) const RECOUNTED: &str = "recounted";

/// What a top-up did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToppedUp {
    Done(WalletRow),
    /// The tenant has no wallet.
    NoTenant,
    /// The key was used for another amount.
    OtherAmount(i64),
}

impl Store {
    /// Does it all and keeps it, or with `keep` off only tells what it would do.
    pub(crate) async fn apply_tenants(
        &self,
        tenants: &[TenantTerms],
        groups: &[OwnerBudgets],
        actor: &Actor,
        now_ms: i64,
        keep: bool,
    ) -> Result<AppliedTenants, Fault> {
        let tx = self.database.begin().await?;
        let mut apply = Apply {
            now_ms,
            done: AppliedTenants::default(),
            feed: Vec::new(),
            wallets: bulk::Rows::new(WALLETS),
            entries: bulk::Rows::new(ENTRIES),
        };
        let asked: BTreeMap<String, &TenantTerms> = tenants
            .iter()
            .map(|tenant| (tenant_owner(&tenant.name), tenant))
            .collect();
        let asked_groups: BTreeMap<String, &OwnerBudgets> = groups
            .iter()
            .map(|group| (group_owner(&group.name), group))
            .collect();
        let left = owners_with_budgets(&tx).await?;
        let (left_tenants, left_groups): (BTreeSet<_>, BTreeSet<_>) = left
            .into_iter()
            .partition(|owner| owner.starts_with("tenant:"));

        let owners: BTreeSet<&str> = asked
            .keys()
            .chain(&left_tenants)
            .map(String::as_str)
            .collect();
        let owners: Vec<_> = owners.into_iter().collect();
        for row in terms::lock(&tx, &owners, Lock::Update).await? {
            let tenant = asked.get(&row.id).copied();
            apply.tenant(&tx, row, tenant).await?;
        }
        let owners: BTreeSet<&str> = asked_groups
            .keys()
            .chain(&left_groups)
            .map(String::as_str)
            .collect();
        let owners: Vec<_> = owners.into_iter().collect();
        for row in terms::lock(&tx, &owners, Lock::Update).await? {
            let budgets = asked_groups
                .get(&row.id)
                .map_or(&[][..], |group| &group.budgets);
            apply.group(&tx, row, budgets).await?;
        }
        let Apply {
            done,
            feed,
            wallets,
            entries,
            ..
        } = apply;
        if !keep {
            tx.rollback().await?;
            return Ok(done);
        }
        bulk::insert(&tx, vec![wallets, entries]).await?;
        if !done.changes.is_empty() {
            audit::append(&tx, now_ms, actor, "apply tenants", &summary(&done.changes)).await?;
            let recounted = done
                .recounted
                .iter()
                .map(|owner| (RECOUNTED, owner.as_str()));
            let feed: Vec<_> = feed
                .iter()
                .map(|(scope, id)| (*scope, id.as_str()))
                .chain(recounted)
                .collect();
            feed::append(&tx, now_ms, &feed).await?;
        }
        tx.commit().await?;
        Ok(done)
    }

    /// Adds to a tenant's balance, debt first. The same key twice is one top-up.
    pub(crate) async fn top_up(
        &self,
        tenant: &str,
        nanos: i64,
        key: &str,
        actor: &Actor,
        now_ms: i64,
    ) -> Result<ToppedUp, Fault> {
        let tx = self.database.begin().await?;
        let owner = tenant_owner(tenant);
        if query(
            &tx,
            "SELECT 1 FROM wallet WHERE id = $1",
            [owner.as_str().into()],
        )
        .await?
        .is_empty()
        {
            return Ok(ToppedUp::NoTenant);
        }
        let mut row = terms::lock(&tx, &[&owner], Lock::Update)
            .await?
            .pop()
            .ok_or_else(|| Fault::Other(DbErr::RecordNotFound("wallet".to_owned())))?;
        let before = query(
            &tx,
            "SELECT amount_nanos FROM top_up WHERE wallet = $1 AND idempotency_key = $2",
            [owner.as_str().into(), key.into()],
        )
        .await?;
        if let Some(before) = before.first() {
            let amount: i64 = before.try_get("", "amount_nanos")?;
            return Ok(if amount == nanos {
                ToppedUp::Done(row)
            } else {
                ToppedUp::OtherAmount(amount)
            });
        }
        let id = RequestId::generate(now_ms).as_uuid();
        let lines = row.wallet.post(tenant, Account::Funding, nanos)?;
        row.version += 1;
        let (mut wallets, mut entries) = (bulk::Rows::new(WALLETS), bulk::Rows::new(ENTRIES));
        wallets.push(row.cells());
        push_entries(&mut entries, id, 0, "top_up", now_ms, &lines);
        bulk::insert(&tx, vec![wallets, entries]).await?;
        execute(
            &tx,
            "INSERT INTO top_up (wallet, idempotency_key, amount_nanos, transaction_id, at_ms) VALUES ($1, $2, $3, $4, $5)",
            [owner.into(), key.into(), nanos.into(), id.into(), now_ms.into()],
        )
        .await?;
        let detail = format!("tenant {tenant}: {} USD, key {key}", NanoUsd(nanos));
        audit::append(&tx, now_ms, actor, "top up", &detail).await?;
        feed::append(&tx, now_ms, &[("tenant", tenant)]).await?;
        tx.commit().await?;
        Ok(ToppedUp::Done(row))
    }
}

struct Apply {
    now_ms: i64,
    done: AppliedTenants,
    feed: Vec<(&'static str, String)>,
    wallets: bulk::Rows,
    entries: bulk::Rows,
}

impl Apply {
    /// `asked` absent: the tenant left the file. Its money stays; its budgets are switched off.
    async fn tenant(
        &mut self,
        tx: &impl ConnectionTrait,
        mut row: WalletRow,
        asked: Option<&TenantTerms>,
    ) -> Result<(), Fault> {
        let before = row.clone();
        let name = row.id.strip_prefix("tenant:").unwrap_or(&row.id).to_owned();
        if let Some(asked) = asked {
            let lines = self.open(&mut row, &name, asked)?;
            let id: Uuid = RequestId::generate(self.now_ms).as_uuid();
            push_entries(&mut self.entries, id, 0, "opening", self.now_ms, &lines);
        }
        let budgets = asked.map_or(&[][..], |asked| &asked.budgets);
        if self.budgets(tx, &row.id, &name, budgets).await? {
            self.feed.push(("budget", name.clone()));
            row.revision += 1;
        }
        if before.wallet.prepaid != row.wallet.prepaid && before.revision == row.revision {
            row.revision += 1;
        }
        if before.wallet != row.wallet || before.opened != row.opened {
            self.feed.push(("tenant", name));
            row.version += 1;
        }
        if before != row {
            self.wallets.push(row.cells());
        }
        Ok(())
    }

    /// The opening balance is given once and never again, whatever a later file says.
    fn open(
        &mut self,
        row: &mut WalletRow,
        name: &str,
        asked: &TenantTerms,
    ) -> Result<Vec<Entry>, Fault> {
        let mut details = Vec::new();
        let prepaid = asked.opening_nanos.is_some();
        if row.wallet.prepaid != prepaid {
            row.wallet.prepaid = prepaid;
            details.push(if prepaid { "prepaid" } else { "postpaid" }.to_owned());
        }
        let mut lines = Vec::new();
        if let Some(opening) = asked.opening_nanos
            && !row.opened
        {
            row.opened = true;
            lines = row.wallet.post(name, Account::Funding, opening)?;
            details.push(format!("opening balance {} USD", NanoUsd(opening)));
        }
        if !details.is_empty() {
            self.done.changes.push(PlannedChange {
                section: "tenant".to_owned(),
                name: name.to_owned(),
                kind: if row.version == 0 { "add" } else { "change" }.to_owned(),
                detail: details.join(", "),
            });
        }
        Ok(lines)
    }

    async fn group(
        &mut self,
        tx: &impl ConnectionTrait,
        mut row: WalletRow,
        asked: &[Budget],
    ) -> Result<(), Fault> {
        let name = row.id.strip_prefix("group:").unwrap_or(&row.id).to_owned();
        if self.budgets(tx, &row.id, &name, asked).await? {
            self.feed.push(("budget", name));
            row.revision += 1;
            self.wallets.push(row.cells());
        }
        Ok(())
    }

    /// Tells whether anything changed.
    async fn budgets(
        &mut self,
        tx: &impl ConnectionTrait,
        owner: &str,
        name: &str,
        asked: &[Budget],
    ) -> Result<bool, Fault> {
        let rows = query(
            tx,
            "SELECT subject_kind, subject, span, amount_nanos, tokens, since_ms, active, origin FROM budget WHERE owner = $1",
            [owner.into()],
        )
        .await?;
        let mut known = BTreeMap::new();
        for row in &rows {
            let budget = terms::budget(row)?;
            let active = row.try_get::<i64>("", "active")? != 0;
            let from_file = row.try_get::<String>("", "origin")? == "file";
            known.insert(key(&budget), (budget, active, from_file));
        }
        let mut changed = false;
        for budget in asked {
            let old = known.remove(&key(budget));
            let active = old
                .as_ref()
                .filter(|(_, active, _)| *active)
                .map(|(budget, ..)| budget);
            if active.is_some_and(|old| {
                (old.amount_nanos, old.tokens) == (budget.amount_nanos, budget.tokens)
            }) {
                continue;
            }
            changed = true;
            self.note(
                name,
                budget,
                if active.is_some() { "change" } else { "add" },
                &ceilings(active, budget),
            );
            let since_ms = match active {
                Some(active) => active.since_ms,
                None => {
                    let window = budget.span.window(self.now_ms);
                    count_window(tx, owner, name, budget, window).await?;
                    if old.is_some() && !self.done.recounted.iter().any(|known| known == owner) {
                        self.done.recounted.push(owner.to_owned());
                    }
                    window.starts_ms
                }
            };
            put_budget(tx, owner, budget, since_ms).await?;
        }
        for (budget, ..) in known
            .into_values()
            .filter(|(_, active, from_file)| *active && *from_file)
        {
            changed = true;
            self.note(name, &budget, "disable", "left the file");
            switch_off(tx, owner, &budget).await?;
        }
        Ok(changed)
    }

    fn note(&mut self, name: &str, budget: &Budget, kind: &str, detail: &str) {
        let whose = match budget.kind {
            SubjectKind::Tenant => format!("{name} per {}", budget.span.name()),
            SubjectKind::Group => format!("group {name} per {}", budget.span.name()),
            kind => format!(
                "{name} {} {} per {}",
                kind.name(),
                budget.subject,
                budget.span.name()
            ),
        };
        self.done.changes.push(PlannedChange {
            section: "budget".to_owned(),
            name: whose,
            kind: kind.to_owned(),
            detail: detail.to_owned(),
        });
    }
}

type Key = (SubjectKind, String, window::Span);

fn key(budget: &Budget) -> Key {
    (budget.kind, budget.subject.clone(), budget.span)
}

fn ceilings(old: Option<&Budget>, new: &Budget) -> String {
    let shown = |budget: &Budget| {
        let amount = budget
            .amount_nanos
            .map(|nanos| format!("{} USD", NanoUsd(nanos)));
        let tokens = budget.tokens.map(|tokens| format!("{tokens} tokens"));
        amount
            .into_iter()
            .chain(tokens)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match old {
        Some(old) => format!("{} → {}", shown(old), shown(new)),
        None => shown(new),
    }
}

async fn owners_with_budgets(on: &impl ConnectionTrait) -> Result<BTreeSet<String>, DbErr> {
    query(
        on,
        "SELECT DISTINCT owner FROM budget WHERE active = 1 AND origin = 'file'",
        [],
    )
    .await?
    .iter()
    .map(|row| row.try_get("", "owner"))
    .collect()
}

async fn put_budget(
    on: &impl ConnectionTrait,
    owner: &str,
    budget: &Budget,
    since_ms: i64,
) -> Result<(), DbErr> {
    execute(
        on,
        "INSERT INTO budget (owner, subject_kind, subject, span, amount_nanos, tokens, active, origin, since_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, 1, 'file', $7) ON CONFLICT (owner, subject_kind, subject, span) DO UPDATE SET \
         amount_nanos = excluded.amount_nanos, tokens = excluded.tokens, active = 1, origin = 'file', since_ms = excluded.since_ms",
        [
            owner.into(),
            budget.kind.name().into(),
            budget.subject.as_str().into(),
            budget.span.name().into(),
            budget.amount_nanos.into(),
            budget.tokens.into(),
            since_ms.into(),
        ],
    )
    .await
    .map(drop)
}

async fn switch_off(on: &impl ConnectionTrait, owner: &str, budget: &Budget) -> Result<(), DbErr> {
    for sql in [
        "UPDATE budget SET active = 0 WHERE owner = $1 AND subject_kind = $2 AND subject = $3 AND span = $4",
        "UPDATE spend_window SET counted = 0 WHERE owner = $1 AND subject_kind = $2 AND subject = $3 AND span = $4",
    ] {
        let values = [
            owner.into(),
            budget.kind.name().into(),
            budget.subject.as_str().into(),
            budget.span.name().into(),
        ];
        execute(on, sql, values).await?;
    }
    Ok(())
}

/// A budget that is switched on in the middle of its window counts what was spent in it before.
async fn count_window(
    on: &impl ConnectionTrait,
    owner: &str,
    name: &str,
    budget: &Budget,
    window: window::Window,
) -> Result<(), DbErr> {
    let sql = format!(
        "INSERT INTO spend_window (owner, subject_kind, subject, span, starts_ms, ends_ms, used_nanos, used_tokens, version, counted) \
         SELECT $1, $2, $3, $4, $5, $6, CAST(COALESCE(SUM(charge_nanos), 0) AS BIGINT), CAST(COALESCE(SUM(counted_tokens), 0) AS BIGINT), 1, 1 \
         FROM usage WHERE day >= $7 AND day <= $8 AND created_ms >= $5 AND created_ms < $6 AND {} \
         ON CONFLICT (owner, subject_kind, subject, span, starts_ms) DO UPDATE SET used_nanos = excluded.used_nanos, \
         used_tokens = excluded.used_tokens, version = spend_window.version + 1, counted = 1",
        match budget.kind {
            SubjectKind::Tenant => "tenant = $9 AND $10 = ''",
            SubjectKind::User => "tenant = $9 AND user_name = $10",
            SubjectKind::Key => "tenant = $9 AND key_name = $10",
            SubjectKind::Group => "group_name = $9 AND group_name = $10",
        }
    );
    execute(
        on,
        &sql,
        [
            owner.into(),
            budget.kind.name().into(),
            budget.subject.as_str().into(),
            budget.span.name().into(),
            window.starts_ms.into(),
            window.ends_ms.into(),
            window::day(window.starts_ms).into(),
            window::day(window.ends_ms).into(),
            name.into(),
            budget.subject.as_str().into(),
        ],
    )
    .await
    .map(drop)
}
