//! `usage list`: usage rows, newest first (CON-1).

use switchboard_common::grpc::Rpc;
use switchboard_proto::billing::v1::{
    ListUsageRequest, ListUsageResponse, UsageRow, billing_admin_client::BillingAdminClient,
};

use super::{
    exit::{Error, Exit},
    screen::Screen,
    table::{Table, known, usd},
};

/// Rows asked for at once.
const PAGE: u32 = 1_000;

pub(super) async fn list(
    mut billing: BillingAdminClient<Rpc>,
    limit: u32,
    tenant: String,
    mut before: String,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let mut rows: Vec<UsageRow> = Vec::new();
    loop {
        let missing = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        if missing == 0 {
            break;
        }
        let request = ListUsageRequest {
            limit: missing.min(PAGE),
            tenant: tenant.clone(),
            before: before.clone(),
        };
        // A service may give fewer than asked for: only an empty page is the last.
        let page = billing.list_usage(request).await?.into_inner().rows;
        let Some(last) = page.last() else { break };
        before = last.request_id.clone();
        rows.extend(page);
    }
    rows.truncate(limit as usize);
    if screen.is_json() {
        screen.answer(&ListUsageResponse { rows })?;
    } else {
        screen.table(&table(&rows), "no usage")?;
    }
    Ok(Exit::Ok)
}

fn table(rows: &[UsageRow]) -> Table {
    let mut table = Table::new(&[
        "CREATED",
        "TENANT",
        "KEY",
        "MODEL",
        "ACCOUNT",
        "STATUS",
        "ENDING",
        "IN",
        "CACHED",
        "OUT",
        "CHARGE USD",
        "COST USD",
        "REQUEST",
    ]);
    for row in rows {
        let ending = if row.provisional {
            format!("{} (provisional)", row.ending)
        } else {
            row.ending.clone()
        };
        table.row([
            row.created_at.clone(),
            row.tenant.clone(),
            row.key.clone(),
            row.public_model.clone(),
            row.account.clone(),
            row.status.to_string(),
            ending,
            known(row.input_tokens),
            known(row.cached_input_tokens),
            known(row.output_tokens),
            usd(row.charge_nanos),
            usd(row.cost_nanos),
            row.request_id.clone(),
        ]);
    }
    table
}
