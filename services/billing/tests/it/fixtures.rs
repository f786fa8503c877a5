//! What tests ask for and settle.

use switchboard_common::ids::RequestId;
use switchboard_proto::{
    billing::v1::{Attempt, Budget, Ending, Party, ReserveRequest, Settlement, TenantMoney},
    common::v1::{Actor, Dialect, Usage, UsageSource},
    scheduler::v1::{Rates, Sheet},
};

/// USD.
pub(crate) const USD: i64 = 1_000_000_000;

pub(crate) fn actor() -> Option<Actor> {
    Some(Actor {
        name: "cli".to_owned(),
        reason: "test".to_owned(),
    })
}

pub(crate) fn output(nanos: i64) -> Rates {
    Rates {
        output: Some(nanos),
        ..Rates::default()
    }
}

pub(crate) fn price(model: &str, rates: Rates) -> Sheet {
    sheet("price", model, rates)
}

pub(crate) fn cost(subject: &str, rates: Rates) -> Sheet {
    sheet("cost", subject, rates)
}

fn sheet(kind: &str, subject: &str, rates: Rates) -> Sheet {
    Sheet {
        version: 0,
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        rates: Some(rates),
    }
}

pub(crate) fn prepaid(name: &str, nanos: i64) -> TenantMoney {
    TenantMoney {
        name: name.to_owned(),
        opening_balance_nanos: Some(nanos),
        budgets: Vec::new(),
    }
}

pub(crate) fn postpaid(name: &str, budgets: Vec<Budget>) -> TenantMoney {
    TenantMoney {
        name: name.to_owned(),
        opening_balance_nanos: None,
        budgets,
    }
}

pub(crate) fn budget(
    kind: &str,
    subject: &str,
    window: &str,
    nanos: Option<i64>,
    tokens: Option<u64>,
) -> Budget {
    Budget {
        subject_kind: kind.to_owned(),
        subject: subject.to_owned(),
        window: window.to_owned(),
        amount_nanos: nanos,
        tokens,
    }
}

pub(crate) fn party(tenant: &str) -> Party {
    Party {
        tenant: tenant.to_owned(),
        user: "ann@example.com".to_owned(),
        key_id: "0190".to_owned(),
        key_name: "ci".to_owned(),
        group: "default".to_owned(),
        group_multiplier: 1_000_000,
        user_multiplier: 1_000_000,
        ..Party::default()
    }
}

/// Strict, input free by the usual prices.
pub(crate) fn ask(id: RequestId, tenant: &str, version: u64, output: u64) -> ReserveRequest {
    ReserveRequest {
        request_id: id.to_string(),
        party: Some(party(tenant)),
        public_model: "m".to_owned(),
        price_version: version,
        input_bytes: 300,
        requested_output: Some(output),
        choices: 1,
        strict: true,
        ..ReserveRequest::default()
    }
}

/// A finished request with one attempt.
pub(crate) fn settlement(
    id: RequestId,
    tenant: &str,
    versions: (u64, u64),
    output: u64,
) -> Settlement {
    let usage = Usage {
        output_tokens: Some(output),
        ..Usage::default()
    };
    Settlement {
        request_id: id.to_string(),
        fingerprint: vec![1, 2, 3].into(),
        party: Some(party(tenant)),
        client_request_id: format!("mine-{id}"),
        public_model: "m".to_owned(),
        dialect: Dialect::OpenaiChat.into(),
        ending: Ending::Complete.into(),
        status: 200,
        usage: Some(usage),
        usage_source: UsageSource::Provider.into(),
        usage_raw: format!(r#"{{"completion_tokens":{output}}}"#),
        price_version: versions.0,
        attempts: vec![Attempt {
            account: "a".to_owned(),
            upstream_model: "up".to_owned(),
            cost_version: versions.1,
            status: 200,
            usage: Some(usage),
            usage_source: UsageSource::Provider.into(),
            sent: true,
            ..Attempt::default()
        }],
        decision_json: "{}".to_owned(),
        catalogue_version: 7,
        ..Settlement::default()
    }
}

/// The same request as the gateway's death left it.
pub(crate) fn provisional(settlement: &Settlement, output: u64) -> Settlement {
    let usage = Usage {
        output_tokens: Some(output),
        ..Usage::default()
    };
    let mut draft = settlement.clone();
    draft.provisional = true;
    draft.usage = Some(usage);
    draft.usage_source = UsageSource::Estimated.into();
    draft.attempts[0].usage = Some(usage);
    draft.set_ending(Ending::GatewayLost);
    draft
}
