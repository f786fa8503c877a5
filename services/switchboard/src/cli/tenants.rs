//! `tenants`: what auth knows of a tenant and what billing knows of its money, as one object.

use serde::Serialize;
use switchboard_common::{
    clock::{Clock as _, SystemClock},
    grpc::Rpc,
    ids::RequestId,
    money::NanoUsd,
};
use switchboard_proto::{
    auth::v1::{self as auth, User},
    billing::v1::{
        self as billing, BudgetState, TopUpRequest, billing_admin_client::BillingAdminClient,
    },
    common::v1::{Actor, Limits},
};
use tonic::Code;

use super::{
    exit::{Error, Exit},
    json::{Json, Protos},
    screen::Screen,
    table::{Table, known, moment, usd, yes},
};
use crate::apply::AdminClients;

/// The JSON form (CON-1). Money is `null` while billing does not know the tenant.
#[derive(Serialize)]
struct Shown {
    name: String,
    status: String,
    balance_nanos: Option<String>,
    held_nanos: Option<String>,
    overrun_nanos: Option<String>,
    prepaid: bool,
    strict_hold: bool,
    budgets: Vec<Json>,
    limits: Option<Json>,
    users: Vec<Json>,
    keys: String,
}

pub(super) async fn show(
    mut clients: AdminClients,
    name: String,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let access = auth::GetTenantRequest { name: name.clone() };
    let money = billing::GetTenantRequest { name };
    let (access, money) = tokio::join!(
        clients.auth.get_tenant(access),
        clients.billing.get_tenant(money)
    );
    let access = access?.into_inner();
    let money = match money {
        Ok(answer) => Some(answer.into_inner()),
        // An apply that stopped before balances and budgets.
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => return Err(status.into()),
    };
    if screen.is_json() {
        json(access, money, screen)?;
    } else {
        tables(&access, money.as_ref(), screen)?;
    }
    Ok(Exit::Ok)
}

fn json(
    access: auth::GetTenantResponse,
    money: Option<billing::GetTenantResponse>,
    screen: &mut Screen<'_>,
) -> Result<(), Error> {
    let protos = Protos::load()?;
    let amount = |of: fn(&billing::GetTenantResponse) -> i64| {
        money.as_ref().map(|money| of(money).to_string())
    };
    let budgets = money
        .as_ref()
        .map(|money| money.budgets.as_slice())
        .unwrap_or_default();
    screen.json(&Shown {
        balance_nanos: amount(|money| money.balance_nanos),
        held_nanos: amount(|money| money.held_nanos),
        overrun_nanos: amount(|money| money.overrun_nanos),
        budgets: protos.messages(budgets)?,
        limits: access
            .limits
            .as_ref()
            .map(|limits| protos.message(limits))
            .transpose()?,
        users: protos.messages(&access.users)?,
        keys: access.keys.to_string(),
        name: access.name,
        status: access.status,
        prepaid: access.prepaid,
        strict_hold: access.strict_hold,
    })
}

fn tables(
    access: &auth::GetTenantResponse,
    money: Option<&billing::GetTenantResponse>,
    screen: &mut Screen<'_>,
) -> Result<(), Error> {
    let mut facts = Table::new(&[
        "TENANT",
        "STATUS",
        "PREPAID",
        "HOLD",
        "BALANCE USD",
        "HELD USD",
        "OVERRUN USD",
        "KEYS",
    ]);
    let amount = |of: fn(&billing::GetTenantResponse) -> i64| {
        money.map(|money| usd(of(money))).unwrap_or_default()
    };
    facts.row([
        access.name.clone(),
        access.status.clone(),
        yes(access.prepaid),
        if access.strict_hold {
            "strict"
        } else {
            "estimate"
        }
        .to_owned(),
        amount(|money| money.balance_nanos),
        amount(|money| money.held_nanos),
        amount(|money| money.overrun_nanos),
        access.keys.to_string(),
    ]);
    screen.table(&facts, "")?;
    if let Some(limits) = &access.limits {
        screen.line("")?;
        screen.line(format_args!("limits: {}", limits_text(limits)))?;
    }
    screen.line("")?;
    let budgets = money
        .map(|money| money.budgets.as_slice())
        .unwrap_or_default();
    screen.table(&budget_table(budgets), "no budgets")?;
    screen.line("")?;
    screen.table(&user_table(&access.users), "no users")
}

fn budget_table(budgets: &[BudgetState]) -> Table {
    let mut table = Table::new(&[
        "BUDGET OF",
        "WINDOW",
        "USD",
        "USED USD",
        "TOKENS",
        "USED TOKENS",
        "RESETS",
    ]);
    for state in budgets {
        let budget = state.budget.clone().unwrap_or_default();
        let of = format!("{} {}", budget.subject_kind, budget.subject);
        table.row([
            of.trim_end().to_owned(),
            budget.window,
            budget.amount_nanos.map(usd).unwrap_or_default(),
            usd(state.used_nanos),
            known(budget.tokens),
            state.used_tokens.to_string(),
            moment(state.resets_at_ms),
        ]);
    }
    table
}

fn user_table(users: &[User]) -> Table {
    let mut table = Table::new(&["USER", "ROLE", "STATUS", "MULTIPLIER"]);
    for user in users {
        let status = match user.status() {
            auth::Status::Unspecified => "",
            auth::Status::Active => "active",
            auth::Status::Disabled => "disabled",
        };
        table.row([
            user.email.clone(),
            user.role.clone(),
            status.to_owned(),
            factor(user.multiplier),
        ]);
    }
    table
}

/// Millionths, exactly.
fn factor(millionths: u64) -> String {
    let nanos = millionths.saturating_mul(1_000);
    usd(i64::try_from(nanos).unwrap_or(i64::MAX))
}

fn limits_text(limits: &Limits) -> String {
    let named = [
        ("requests/s", limits.requests_per_second),
        ("requests/min", limits.requests_per_minute),
        ("tokens/min", limits.tokens_per_minute),
        ("at once", limits.concurrency),
        ("burst", limits.burst),
    ];
    let parts = named
        .iter()
        .filter_map(|(name, limit)| Some(format!("{} {name}", (*limit)?)));
    parts.collect::<Vec<_>>().join(", ")
}

/// A name for one top-up that nobody asks for again.
pub(super) fn fresh_key() -> String {
    format!("cli-{}", RequestId::generate(SystemClock.now_ms()))
}

pub(super) async fn topup(
    mut billing: BillingAdminClient<Rpc>,
    actor: Actor,
    tenant: String,
    amount: NanoUsd,
    idempotency_key: String,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let request = TopUpRequest {
        actor: Some(actor),
        tenant,
        amount_nanos: amount.0,
        idempotency_key: idempotency_key.clone(),
    };
    let answer = match billing.top_up(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => {
            let error = Error::from(status);
            if error.exit() == Exit::Unreachable {
                screen.note(format_args!(
                    "it may have been booked: ask again with --idempotency-key {idempotency_key}"
                ));
            }
            return Err(error);
        }
    };
    if screen.is_json() {
        screen.answer(&answer)?;
    } else {
        screen.line(format_args!("balance: {} USD", usd(answer.balance_nanos)))?;
    }
    Ok(Exit::Ok)
}
