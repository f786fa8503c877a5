//! Prices a batch, commits it whatever it takes, acknowledges it, tells the state store.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use prost::Message as _;
use switchboard_common::{
    ids::{RequestId, TenantName},
    lifecycle::Lifecycle,
};
use switchboard_proto::{
    billing::v1::Settlement,
    common::v1::{Usage, UsageSource},
};
use switchboard_state::purses::PurseValue;
use tokio::time::Instant;
use tracing::Span;

use super::{Ack, Job, pause::Pause};
use crate::{
    domain::{
        booking::{Priced, Refused, Valid},
        budget::{group_owner, tenant_owner},
    },
    observation::{KindLabel, OutcomeLabel},
    purse,
    reservation::Reservations,
    store::{Fault, Outcome, Settled, Terms},
};

/// Tenants whose values are sent to the state store at the same time.
const TENANTS_AT_ONCE: usize = 16;
/// A batch that fails for a reason that we do not know is tried this often before its items are suspected.
const TRIES: u32 = 3;

struct Item {
    priced: Priced,
    ack: Ack,
    came: Instant,
    span: Span,
}

/// Prices, commits and tells.
pub(super) struct Books {
    pub(super) reservations: Reservations,
    pub(super) lifecycle: Lifecycle,
    pub(super) recovered_ms: Arc<AtomicI64>,
    pub(super) commit_timeout: Duration,
}

impl Books {
    pub(super) fn observe_queue(&self, length: usize) {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        self.reservations.observation.queue.set(length);
    }

    /// Returns when each of them is committed or put aside.
    pub(super) async fn settle(&self, batch: Vec<Job>) {
        let mut rounds: Vec<BTreeMap<RequestId, Item>> = Vec::new();
        for Job {
            settlement,
            ack,
            came,
            span,
        } in batch
        {
            match self.price(settlement).await {
                Ok(priced) => {
                    let id = priced.valid.id;
                    let item = Item {
                        priced,
                        ack,
                        came,
                        span,
                    };
                    // One transaction has a request once; what repeats it comes after.
                    match rounds.iter_mut().find(|round| !round.contains_key(&id)) {
                        Some(round) => {
                            round.insert(id, item);
                        }
                        None => rounds.push(BTreeMap::from([(id, item)])),
                    }
                }
                Err(refused) => self.bury(*refused, None, ack).await,
            }
        }
        for round in rounds {
            self.commit(round.into_values().collect()).await;
        }
    }

    async fn price(&self, settlement: Settlement) -> Result<Priced, Box<Refused>> {
        let valid = Valid::new(settlement)?;
        let sheets = &self.reservations.sheets;
        let price = if valid.charges() {
            self.sheet(valid.settlement.price_version).await
        } else {
            None
        };
        for attempt in valid
            .settlement
            .attempts
            .iter()
            .filter(|attempt| attempt.usage.is_some())
        {
            if self.sheet(attempt.cost_version).await.is_none() {
                self.reservations
                    .observation
                    .unpriced
                    .get_or_create(&KindLabel { kind: "cost" })
                    .inc();
                tracing::warn!(
                    request_id = %valid.id,
                    account = %attempt.account,
                    cost_version = attempt.cost_version,
                    "an attempt has no cost sheet and is booked at no cost"
                );
            }
        }
        for part in &valid.settlement.models {
            self.sheet(part.cost_version).await;
            if price.is_some() {
                self.sheet(part.price_version).await;
            }
        }
        valid.price(price.as_deref(), |version| sheets.known(version))
    }

    /// Waits until the database tells.
    async fn sheet(&self, version: u64) -> Option<Arc<switchboard_proto::scheduler::v1::Rates>> {
        let mut pause = Pause::default();
        loop {
            match self.reservations.sheets.get(version).await {
                Ok(rates) => {
                    self.note_recovery(&pause);
                    return rates;
                }
                Err(error) => {
                    pause
                        .wait("sheets cannot be read; settlements wait", &error)
                        .await
                }
            }
        }
    }

    /// Commits items with distinct ids, in the order of their ids; a part that the database refuses is halved.
    async fn commit(&self, items: Vec<Item>) {
        let mut parts = vec![items];
        while let Some(part) = parts.pop() {
            match self.commit_part(&part).await {
                Ok(settled) => {
                    self.acknowledge(&part, &settled);
                    self.tell_state(&part, &settled).await;
                    let conflicts = settled
                        .outcomes
                        .iter()
                        .map(|outcome| *outcome == Outcome::Conflict);
                    for (item, conflict) in part.into_iter().zip(conflicts) {
                        if conflict {
                            self.bury_conflict(item).await;
                        } else {
                            item.ack.give(item.priced.valid.id.to_string());
                        }
                    }
                }
                Err(problem) => {
                    self.reservations.observation.failed_batches.inc();
                    let mut part = part;
                    let rest = part.split_off(part.len() / 2);
                    if part.is_empty() {
                        for item in rest {
                            self.bury_failed(item, &problem).await;
                        }
                    } else {
                        parts.push(rest);
                        parts.push(part);
                    }
                }
            }
        }
    }

    /// Waits out whatever may pass. The error is a refusal of the data.
    async fn commit_part(&self, part: &[Item]) -> Result<Settled, String> {
        let batch: Vec<_> = part.iter().map(|item| &item.priced).collect();
        let terms = self.terms(&batch).await;
        let mut pause = Pause::default();
        loop {
            let now_ms = self.reservations.clock.now_ms();
            let commit = self.reservations.store.settle(&batch, now_ms, &terms);
            let fault = match tokio::time::timeout(self.commit_timeout, Box::pin(commit)).await {
                Ok(Ok(settled)) => {
                    self.note_recovery(&pause);
                    return Ok(settled);
                }
                Ok(Err(fault)) => fault,
                Err(_) => {
                    pause
                        .wait(
                            "settlements wait for the database",
                            &"the commit took too long",
                        )
                        .await;
                    continue;
                }
            };
            match fault {
                Fault::Data(problem) => return Err(problem),
                Fault::Other(error) if pause.times() >= TRIES => return Err(error.to_string()),
                Fault::Other(error) | Fault::Outage(error) => {
                    pause
                        .wait("settlements wait for the database", &error)
                        .await;
                }
            }
        }
    }

    async fn terms(&self, batch: &[&Priced]) -> HashMap<String, Arc<Terms>> {
        let mut terms = HashMap::new();
        for priced in batch {
            let party = &priced.valid.party;
            for owner in [tenant_owner(&party.tenant), group_owner(&party.group)] {
                if !terms.contains_key(&owner)
                    && let Some(known) = self.reservations.terms.peek(&owner).await
                {
                    terms.insert(owner, known);
                }
            }
        }
        terms
    }

    fn note_recovery(&self, pause: &Pause) {
        if pause.times() > 0 {
            tracing::info!("the database is back; settlements go on");
            self.recovered_ms
                .store(self.reservations.clock.now_ms(), Ordering::Relaxed);
        }
    }

    /// Counts what was committed and learns from it.
    fn acknowledge(&self, part: &[Item], settled: &Settled) {
        let observation = &self.reservations.observation;
        observation.batches.inc();
        for (item, outcome) in part.iter().zip(&settled.outcomes) {
            observation.lag.observe(item.came.elapsed());
            let label = match outcome {
                Outcome::Applied if item.priced.valid.settlement.provisional => "provisional",
                Outcome::Applied => "applied",
                Outcome::Replaced => "replaced",
                Outcome::Duplicate => "duplicate",
                Outcome::Conflict => "conflict",
            };
            observation
                .settlements
                .get_or_create(&OutcomeLabel { outcome: label })
                .inc();
            item.span.record("outcome", label);
            if matches!(outcome, Outcome::Applied | Outcome::Replaced) {
                self.learn(&item.priced);
            }
        }
    }

    fn learn(&self, priced: &Priced) {
        let (observation, settlement) = (&self.reservations.observation, &priced.valid.settlement);
        observation
            .charge
            .inc_by(u64::try_from(priced.amounts.charge_nanos).unwrap_or(0));
        observation
            .cost
            .inc_by(u64::try_from(priced.amounts.cost_nanos).unwrap_or(0));
        let Some(usage) = settlement.usage.filter(|_| priced.valid.charges()) else {
            return;
        };
        for (kind, tokens) in kinds(&usage) {
            observation
                .tokens
                .get_or_create(&KindLabel { kind })
                .inc_by(tokens);
        }
        if settlement.usage_source() == UsageSource::Provider
            && let Some(output) = usage.output_tokens
        {
            self.reservations
                .expectations
                .lock()
                .observe(&settlement.public_model, output);
        }
    }

    /// Ends the holds and stores the new absolute values. What fails here is made good by the reaper, or by the next
    /// settlement: values have versions.
    async fn tell_state(&self, part: &[Item], settled: &Settled) {
        let mut news: BTreeMap<&str, (Vec<RequestId>, Vec<PurseValue>)> = BTreeMap::new();
        for (item, outcome) in part.iter().zip(&settled.outcomes) {
            if *outcome != Outcome::Conflict {
                let (requests, _) = news.entry(&item.priced.valid.party.tenant).or_default();
                requests.push(item.priced.valid.id);
            }
        }
        for row in &settled.wallets {
            if let Some((_, values)) = row
                .id
                .strip_prefix("tenant:")
                .and_then(|tenant| news.get_mut(tenant))
            {
                values.push(purse::balance_value(Some(row)));
            }
        }
        for row in &settled.windows {
            if let Some((_, values)) = row
                .owner
                .strip_prefix("tenant:")
                .and_then(|tenant| news.get_mut(tenant))
            {
                values.extend(purse::window_values(row));
            }
        }
        // A group's spending is of all tenants: each has its own copy.
        let others = self.group_news(part, settled);
        for (tenant, values) in &others {
            news.entry(tenant)
                .or_default()
                .1
                .extend(values.iter().cloned());
        }
        let news: Vec<_> = news
            .into_iter()
            .map(|(tenant, (requests, values))| (TenantName::from(tenant), requests, values))
            .collect();
        stream::iter(news)
            .map(|(tenant, requests, values)| {
                let purses = Arc::clone(&self.reservations.purses);
                async move { purses.settle(&tenant, &requests, &values).await }
            })
            .buffer_unordered(TENANTS_AT_ONCE)
            .for_each(|result| {
                if let Err(error) = result {
                    self.reservations.observation.state_failures.inc();
                    tracing::warn!(%error, "settled values do not reach the state store");
                }
                std::future::ready(())
            })
            .await;
    }

    fn group_news(&self, part: &[Item], settled: &Settled) -> BTreeMap<String, Vec<PurseValue>> {
        let mut news: BTreeMap<String, Vec<PurseValue>> = BTreeMap::new();
        for row in &settled.windows {
            let Some(group) = row.owner.strip_prefix("group:") else {
                continue;
            };
            let mut tenants: BTreeSet<String> = self
                .reservations
                .group_tenants
                .lock()
                .get(group)
                .cloned()
                .unwrap_or_default();
            let parties = part.iter().map(|item| &item.priced.valid.party);
            tenants.extend(
                parties
                    .filter(|party| party.group == group)
                    .map(|party| party.tenant.clone()),
            );
            for tenant in tenants {
                news.entry(tenant)
                    .or_default()
                    .extend(purse::window_values(row));
            }
        }
        news
    }

    async fn bury_conflict(&self, item: Item) {
        tracing::error!(
            request_id = %item.priced.valid.id,
            "two different requests were settled under one id; the later one is put aside"
        );
        let problem = "a settlement of this id with another key or fingerprint is in the books";
        let settlement = item.priced.valid.into_settlement();
        self.put_aside("conflict", problem, &settlement, item.ack)
            .await;
    }

    async fn bury_failed(&self, item: Item, problem: &str) {
        tracing::error!(request_id = %item.priced.valid.id, problem, "a settlement cannot be booked and is put aside");
        let settlement = item.priced.valid.into_settlement();
        self.void(&settlement).await;
        self.put_aside("failed", problem, &settlement, item.ack)
            .await;
    }

    async fn bury(&self, refused: Refused, kind: Option<&'static str>, ack: Ack) {
        let Refused {
            problem,
            settlement,
        } = refused;
        tracing::error!(request_id = %settlement.request_id, %problem, "a settlement cannot be booked and is put aside");
        self.void(&settlement).await;
        self.put_aside(
            kind.unwrap_or(problem.kind()),
            &problem.to_string(),
            &settlement,
            ack,
        )
        .await;
    }

    /// Money is not held for what will not be settled; else the reaper would find it again and again.
    async fn void(&self, settlement: &Settlement) {
        if let (Ok(id), Some(party)) = (settlement.request_id.parse(), &settlement.party)
            && let Err(error) = self
                .reservations
                .purses
                .void(&TenantName::from(party.tenant.as_str()), id)
                .await
        {
            tracing::warn!(%error, "a hold is not given back: the state store is away");
        }
    }

    /// Waits until it is stored, then acknowledges.
    async fn put_aside(
        &self,
        kind: &'static str,
        problem: &str,
        settlement: &Settlement,
        ack: Ack,
    ) {
        self.reservations
            .observation
            .dead_letters
            .get_or_create(&KindLabel { kind })
            .inc();
        let mut pause = Pause::default();
        loop {
            let buried = self.reservations.store.bury(
                &settlement.request_id,
                kind,
                problem,
                &settlement.fingerprint,
                settlement.encode_to_vec(),
                self.reservations.clock.now_ms(),
            );
            match buried.await {
                Ok(()) => break,
                Err(error) => {
                    pause
                        .wait("dead letters wait for the database", &error)
                        .await
                }
            }
        }
        self.note_recovery(&pause);
        ack.give(settlement.request_id.clone());
    }
}

fn kinds(usage: &Usage) -> impl Iterator<Item = (&'static str, u64)> {
    [
        ("input", usage.input_tokens),
        ("cached_input", usage.cached_input_tokens),
        ("cache_write_5m", usage.cache_write_5m_tokens),
        ("cache_write_1h", usage.cache_write_1h_tokens),
        ("output", usage.output_tokens),
        ("reasoning", usage.reasoning_tokens),
    ]
    .into_iter()
    .filter_map(|(kind, tokens)| Some((kind, tokens?)))
}
