//! `audit list`: the audit rows of all services, one list by time.

use serde::Serialize;
use switchboard_proto::{
    auth::v1 as auth, billing::v1 as billing, common::v1::AuditEntry,
    credentials::v1 as credentials, scheduler::v1 as scheduler,
};

use super::{
    exit::{Error, Exit},
    screen::Screen,
    table::{Table, moment},
};
use crate::apply::AdminClients;

/// The JSON form.
#[derive(Serialize)]
struct Shown {
    entries: Vec<Entry>,
}

/// One change, and whose it was.
#[derive(Serialize)]
struct Entry {
    service: &'static str,
    seq: String,
    #[serde(serialize_with = "as_text")]
    at_ms: i64,
    actor: String,
    reason: String,
    action: String,
    detail: String,
}

fn as_text<S: serde::Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

pub(super) async fn list(
    mut clients: AdminClients,
    limit: u32,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let (auth, scheduler, credentials, billing) = tokio::try_join!(
        clients.auth.list_audit(auth::ListAuditRequest { limit }),
        clients
            .scheduler
            .list_audit(scheduler::ListAuditRequest { limit }),
        clients
            .credentials
            .list_audit(credentials::ListAuditRequest { limit }),
        clients
            .billing
            .list_audit(billing::ListAuditRequest { limit }),
    )?;
    let lists = [
        ("auth", auth.into_inner().entries),
        ("scheduler", scheduler.into_inner().entries),
        ("credentials", credentials.into_inner().entries),
        ("billing", billing.into_inner().entries),
    ];
    let mut entries: Vec<(i64, u64, Entry)> = lists
        .into_iter()
        .flat_map(|(service, rows)| rows.into_iter().map(move |row| entry(service, row)))
        .collect();
    // Stable: of one moment, each service's own order holds.
    entries.sort_by_key(|(at_ms, seq, _)| std::cmp::Reverse((*at_ms, *seq)));
    let entries: Vec<Entry> = entries
        .into_iter()
        .take(limit as usize)
        .map(|(_, _, entry)| entry)
        .collect();
    if screen.is_json() {
        screen.json(&Shown { entries })?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["AT", "SERVICE", "ACTOR", "ACTION", "DETAIL", "REASON"]);
    for entry in entries {
        let detail: Vec<&str> = entry.detail.lines().collect();
        table.row([
            moment(entry.at_ms),
            entry.service.to_owned(),
            entry.actor,
            entry.action,
            detail.join("; "),
            entry.reason,
        ]);
    }
    screen.table(&table, "no changes")?;
    Ok(Exit::Ok)
}

fn entry(service: &'static str, row: AuditEntry) -> (i64, u64, Entry) {
    let entry = Entry {
        service,
        seq: row.seq.to_string(),
        at_ms: row.at_ms,
        actor: row.actor,
        reason: row.reason,
        action: row.action,
        detail: row.detail,
    };
    (row.at_ms, row.seq, entry)
}
