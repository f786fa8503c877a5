//! Price and cost sheets: immutable under their version (BILL-2).

use std::collections::{BTreeMap, HashSet};

use sea_orm::{ConnectionTrait, DbBackend, DbErr};
use serde_json::{Map, Value as Json};
use switchboard_common::{audit, feed, money::NanoUsd};
use switchboard_proto::{
    common::v1::{Actor, PlannedChange},
    scheduler::v1::{Rates, Sheet},
};

use super::{Store, execute, query, signed, unsigned};
use crate::domain::rating;

/// A sheet as it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SheetText {
    /// `price` or `cost`.
    pub(crate) kind: String,
    pub(crate) subject: String,
    pub(crate) rates: Rates,
}

/// What becomes of the sheets.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedSheets {
    pub(crate) changes: Vec<PlannedChange>,
    /// In the order in which they were asked for.
    pub(crate) sheets: Vec<Sheet>,
    /// Versions that are new.
    fresh: HashSet<u64>,
}

struct Known {
    version: u64,
    kind: String,
    subject: String,
    rates: Rates,
    active: bool,
    from_file: bool,
}

enum Step<'a> {
    Deactivate(u64),
    Activate(u64),
    Insert(u64, &'a SheetText),
}

impl Store {
    /// A sheet's rates.
    pub(crate) async fn rates(&self, version: u64) -> Result<Option<Rates>, DbErr> {
        let rows = query(
            self.database.reader(),
            "SELECT rates FROM sheet WHERE version = $1",
            [signed(version).into()],
        )
        .await?;
        rows.first()
            .map(|row| parse(&row.try_get::<String>("", "rates")?))
            .transpose()
    }

    /// What [`Store::apply_prices`] would do; new sheets have version 0.
    pub(crate) async fn plan_prices(&self, sheets: &[SheetText]) -> Result<PlannedSheets, DbErr> {
        let (mut planned, _) = plan(&known(self.database.reader()).await?, sheets);
        for sheet in &mut planned.sheets {
            if planned.fresh.contains(&sheet.version) {
                sheet.version = 0;
            }
        }
        Ok(planned)
    }

    /// Makes these the sheets that count. Unchanged rates keep their version; sheets from a file that are not among them
    /// are switched off and stay readable for what was pinned to them.
    pub(crate) async fn apply_prices(
        &self,
        sheets: &[SheetText],
        actor: &Actor,
        now_ms: i64,
    ) -> Result<PlannedSheets, DbErr> {
        let tx = self.database.begin().await?;
        if tx.get_database_backend() == DbBackend::Postgres {
            // Two appliers must not give one version twice.
            tx.execute_unprepared("LOCK TABLE sheet IN SHARE ROW EXCLUSIVE MODE")
                .await?;
        }
        let (planned, steps) = plan(&known(&tx).await?, sheets);
        if planned.changes.is_empty() {
            return Ok(planned);
        }
        for step in steps {
            match step {
                Step::Deactivate(version) => set_active(&tx, version, false).await?,
                Step::Activate(version) => set_active(&tx, version, true).await?,
                Step::Insert(version, sheet) => {
                    let values = [
                        signed(version).into(),
                        sheet.kind.as_str().into(),
                        sheet.subject.as_str().into(),
                        print(&sheet.rates).into(),
                        now_ms.into(),
                    ];
                    execute(
                        &tx,
                        "INSERT INTO sheet (version, kind, subject, rates, active, origin, created_ms) VALUES ($1, $2, $3, $4, 1, 'file', $5)",
                        values,
                    )
                    .await?;
                }
            }
        }
        let changed: Vec<_> = planned
            .changes
            .iter()
            .map(|change| ("price", change.name.as_str()))
            .collect();
        audit::append(
            &tx,
            now_ms,
            actor,
            "apply prices",
            &summary(&planned.changes),
        )
        .await?;
        feed::append(&tx, now_ms, &changed).await?;
        tx.commit().await?;
        Ok(planned)
    }
}

/// One line for the audit log; the first changes by name, the rest by number.
pub(super) fn summary(changes: &[PlannedChange]) -> String {
    let named: Vec<_> = changes
        .iter()
        .take(20)
        .map(|change| {
            format!(
                "{} {} {}: {}",
                change.kind, change.section, change.name, change.detail
            )
        })
        .collect();
    let rest = changes.len().saturating_sub(named.len());
    let rest = if rest > 0 {
        format!("; and {rest} more")
    } else {
        String::new()
    };
    format!("{}{rest}", named.join("; "))
}

async fn set_active(on: &impl ConnectionTrait, version: u64, active: bool) -> Result<(), DbErr> {
    execute(
        on,
        "UPDATE sheet SET active = $2 WHERE version = $1",
        [signed(version).into(), i64::from(active).into()],
    )
    .await
    .map(drop)
}

async fn known(on: &impl ConnectionTrait) -> Result<Vec<Known>, DbErr> {
    query(
        on,
        "SELECT version, kind, subject, rates, active, origin FROM sheet ORDER BY version",
        [],
    )
    .await?
    .iter()
    .map(|row| {
        Ok(Known {
            version: unsigned(row, "version")?,
            kind: row.try_get("", "kind")?,
            subject: row.try_get("", "subject")?,
            rates: parse(&row.try_get::<String>("", "rates")?)?,
            active: row.try_get::<i64>("", "active")? != 0,
            from_file: row.try_get::<String>("", "origin")? == "file",
        })
    })
    .collect()
}

fn plan<'a>(known: &[Known], asked: &'a [SheetText]) -> (PlannedSheets, Vec<Step<'a>>) {
    let mut planned = PlannedSheets::default();
    let (mut off, mut on) = (Vec::new(), Vec::new());
    let mut next = known.last().map_or(0, |sheet| sheet.version) + 1;
    let mut of: BTreeMap<(&str, &str), Vec<&Known>> = BTreeMap::new();
    for sheet in known {
        of.entry((&sheet.kind, &sheet.subject))
            .or_default()
            .push(sheet);
    }
    for sheet in asked {
        let past = of
            .remove(&(sheet.kind.as_str(), sheet.subject.as_str()))
            .unwrap_or_default();
        let active = past.iter().find(|known| known.active);
        let same = past.iter().rev().find(|known| known.rates == sheet.rates);
        let version = match (active, same) {
            (Some(active), _) if active.rates == sheet.rates => active.version,
            (_, Some(same)) => {
                on.push(Step::Activate(same.version));
                same.version
            }
            (_, None) => {
                let version = next;
                next += 1;
                planned.fresh.insert(version);
                on.push(Step::Insert(version, sheet));
                version
            }
        };
        if active.is_none_or(|active| active.version != version) {
            if let Some(active) = active {
                off.push(Step::Deactivate(active.version));
            }
            planned.changes.push(PlannedChange {
                section: sheet.kind.clone(),
                name: sheet.subject.clone(),
                kind: if active.is_some() { "change" } else { "add" }.to_owned(),
                detail: difference(active.map(|active| &active.rates), &sheet.rates),
            });
        }
        planned.sheets.push(Sheet {
            version,
            kind: sheet.kind.clone(),
            subject: sheet.subject.clone(),
            rates: Some(sheet.rates),
        });
    }
    for left in of
        .into_values()
        .flatten()
        .filter(|known| known.active && known.from_file)
    {
        off.push(Step::Deactivate(left.version));
        planned.changes.push(PlannedChange {
            section: left.kind.clone(),
            name: left.subject.clone(),
            kind: "disable".to_owned(),
            detail: format!(
                "left the file; version {} stays for what is pinned to it",
                left.version
            ),
        });
    }
    // At most one sheet of a subject is active at any time.
    off.append(&mut on);
    (planned, off)
}

fn difference(old: Option<&Rates>, new: &Rates) -> String {
    let shown = |rate: Option<i64>| {
        rate.map_or_else(|| "none".to_owned(), |nanos| NanoUsd(nanos).to_string())
    };
    let old = old.map(rating::named);
    rating::named(new)
        .into_iter()
        .enumerate()
        .filter_map(|(index, (name, rate))| {
            let before = old
                .as_ref()
                .and_then(|old| old.get(index))
                .and_then(|(_, rate)| *rate);
            (before != rate).then(|| match &old {
                Some(_) => format!("{name} {} → {}", shown(before), shown(rate)),
                None => format!("{name} {}", shown(rate)),
            })
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn print(rates: &Rates) -> String {
    let map: Map<String, Json> = rating::named(rates)
        .into_iter()
        .filter_map(|(name, rate)| rate.map(|rate| (name.to_owned(), rate.into())))
        .collect();
    Json::Object(map).to_string()
}

fn parse(text: &str) -> Result<Rates, DbErr> {
    let map: BTreeMap<String, i64> =
        serde_json::from_str(text).map_err(|error| DbErr::Json(format!("sheet.rates: {error}")))?;
    let of = |name: &str| map.get(name).copied();
    Ok(Rates {
        input: of("input"),
        cached_input: of("cached_input"),
        cache_write_5m: of("cache_write_5m"),
        cache_write_1h: of("cache_write_1h"),
        output: of("output"),
        reasoning: of("reasoning"),
        per_request: of("per_request"),
        per_image: of("per_image"),
        per_second: of("per_second"),
        audio_input: of("audio_input"),
        audio_output: of("audio_output"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_stored_exactly_and_absent_is_not_zero() {
        let rates = Rates {
            input: Some(i64::MAX),
            cached_input: Some(0),
            audio_output: Some(7),
            ..Rates::default()
        };
        assert_eq!(parse(&print(&rates)).unwrap(), rates);
    }
}
