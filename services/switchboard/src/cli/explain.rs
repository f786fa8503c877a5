//! `explain`: one request's whole story (SCHED-10): who asked, which targets were considered and why, what was tried,
//! what it cost.

use serde::Serialize;
use switchboard_common::grpc::Rpc;
use switchboard_proto::{
    billing::v1::{
        ExplainRequest, ExplainResponse, UsageRow, billing_admin_client::BillingAdminClient,
    },
    scheduler::v1::{ConsideredTarget, Decision},
};

use super::{
    exit::{Error, Exit},
    json::{Json, Protos},
    screen::Screen,
    table::{Table, known, millis, plain, usd, yes},
};

/// The JSON form. `decision` is `null` for a request that never came as far as a choice.
#[derive(Serialize)]
struct Shown {
    row: Option<Json>,
    decision: Option<Json>,
    usage_raw: String,
    catalogue_version: String,
}

pub(super) async fn explain(
    mut billing: BillingAdminClient<Rpc>,
    id: String,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let answer = billing.explain(ExplainRequest { id }).await?.into_inner();
    let protos = Protos::load()?;
    let decision = decision(&answer, &protos)?;
    if screen.is_json() {
        screen.json(&Shown {
            row: answer
                .row
                .as_ref()
                .map(|row| protos.message(row))
                .transpose()?,
            decision: decision
                .as_ref()
                .map(|decision| protos.message(decision))
                .transpose()?,
            usage_raw: answer.usage_raw,
            catalogue_version: answer.catalogue_version.to_string(),
        })?;
        return Ok(Exit::Ok);
    }
    if let Some(row) = &answer.row {
        request(row, &answer, screen)?;
    }
    if let Some(decision) = &decision {
        choice(decision, screen)?;
    }
    if let Some(row) = &answer.row {
        screen.line("")?;
        screen.table(&attempts(row), "no attempt was made")?;
    }
    Ok(Exit::Ok)
}

fn decision(answer: &ExplainResponse, protos: &Protos) -> Result<Option<Decision>, Error> {
    match answer.decision_json.trim() {
        "" | "{}" | "null" => Ok(None),
        text => protos.read(text).map(Some),
    }
}

fn request(row: &UsageRow, answer: &ExplainResponse, screen: &mut Screen<'_>) -> Result<(), Error> {
    let served = match (row.account.as_str(), row.upstream_model.as_str()) {
        ("", _) => "nobody".to_owned(),
        (account, model) => format!("{account}/{model}"),
    };
    let ending = match (row.provisional, row.error_code.as_str()) {
        (true, _) => format!("{} {} (provisional)", row.status, row.ending),
        (false, "") => format!("{} {}", row.status, row.ending),
        (false, code) => format!("{} {}, {code}", row.status, row.ending),
    };
    let tokens = [
        ("input", row.input_tokens),
        ("cached input", row.cached_input_tokens),
        ("cache write 5m", row.cache_write_5m_tokens),
        ("cache write 1h", row.cache_write_1h_tokens),
        ("output", row.output_tokens),
        ("reasoning", row.reasoning_tokens),
        ("audio input", row.audio_input_tokens),
        ("audio output", row.audio_output_tokens),
        ("images", row.images),
        ("ms of audio", row.audio_millis),
    ];
    let tokens: Vec<String> = tokens
        .iter()
        .filter_map(|(kind, count)| Some(format!("{} {kind}", (*count)?)))
        .collect();
    let timing = row.timing.unwrap_or_default();
    let facts = [
        ("request", row.request_id.clone()),
        ("caller's id", row.client_request_id.clone()),
        ("created", row.created_at.clone()),
        ("tenant", row.tenant.clone()),
        ("user", row.user.clone()),
        ("key", row.key.clone()),
        ("group", row.group.clone()),
        ("model", row.public_model.clone()),
        ("dialect", row.dialect.clone()),
        ("stream", yes(row.stream)),
        ("served by", served),
        ("status", ending),
        (
            "tokens",
            format!("{} ({})", tokens.join(", "), row.usage_source),
        ),
        ("usage as it was", answer.usage_raw.clone()),
        (
            "charge",
            format!(
                "{} USD (price version {})",
                usd(row.charge_nanos),
                row.price_version
            ),
        ),
        ("cost", format!("{} USD", usd(row.cost_nanos))),
        (
            "output cap",
            known((row.output_cap > 0).then_some(row.output_cap)),
        ),
        (
            "time",
            format!(
                "{} whole, {} gateway, {} queue, {} to the first token, {} writing to the caller",
                millis(timing.total_us),
                millis(timing.gateway_us),
                millis(timing.queue_us),
                millis(timing.first_token_us),
                millis(timing.caller_write_us)
            ),
        ),
        ("cost center", row.cost_center.clone()),
        ("tags", row.tags.clone()),
        ("trace", row.trace_id.clone()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        screen.line(format_args!("{name:<16} {}", plain(value)))?;
    }
    Ok(())
}

fn choice(decision: &Decision, screen: &mut Screen<'_>) -> Result<(), Error> {
    screen.line("")?;
    screen.line(format_args!(
        "choice: {} by {}, catalogue version {}, {} ms in the queue",
        plain(&decision.layer),
        plain(&decision.policy),
        decision.catalogue_version,
        decision.queued_ms
    ))?;
    if decision.targets.is_empty() {
        return screen.line("no targets were considered");
    }
    let mut targets: Vec<&ConsideredTarget> = decision.targets.iter().collect();
    targets.sort_by_key(|target| target.drawn.unwrap_or(u32::MAX));
    for one in targets {
        target(one, screen)?;
    }
    Ok(())
}

fn target(target: &ConsideredTarget, screen: &mut Screen<'_>) -> Result<(), Error> {
    let place = target.drawn.map_or_else(
        || " -".to_owned(),
        |drawn| format!("{:>2}", drawn.saturating_add(1)),
    );
    let score = target
        .score
        .map(|score| format!(", score {score:.4}"))
        .unwrap_or_default();
    screen.line(format_args!(
        "{place}. {}/{}  tier {}, weight {}{score}{}",
        plain(&target.account),
        plain(&target.upstream_model),
        target.tier,
        target.weight,
        if target.full { ", full" } else { "" }
    ))?;
    if !target.factors.is_empty() {
        let mut factors: Vec<_> = target.factors.iter().collect();
        factors.sort_by_key(|(name, _)| name.as_str());
        let factors: Vec<_> = factors
            .iter()
            .map(|(name, factor)| format!("{} {factor:.4}", plain(name)))
            .collect();
        screen.line(format_args!("    factors: {}", factors.join(", ")))?;
    }
    let filters: Vec<_> = target
        .filters
        .iter()
        .map(|outcome| {
            let filter = plain(&outcome.filter);
            match (outcome.pass, outcome.detail.as_str()) {
                (true, _) => format!("{filter} pass"),
                (false, "") => format!("{filter} FAIL"),
                (false, detail) => format!("{filter} FAIL ({})", plain(detail)),
            }
        })
        .collect();
    screen.line(format_args!("    filters: {}", filters.join(", ")))
}

fn attempts(row: &UsageRow) -> Table {
    let mut table = Table::new(&[
        "ATTEMPT",
        "ACCOUNT",
        "MODEL",
        "SENT",
        "STATUS",
        "ERROR",
        "IN",
        "OUT",
        "COST USD",
        "CONNECT",
        "FIRST BYTE",
        "TOTAL",
    ]);
    for attempt in &row.attempts {
        table.row([
            attempt.number.to_string(),
            attempt.account.clone(),
            attempt.upstream_model.clone(),
            yes(attempt.sent),
            known((attempt.status > 0).then_some(u64::from(attempt.status))),
            attempt.error.clone(),
            known(attempt.input_tokens),
            known(attempt.output_tokens),
            usd(attempt.cost_nanos),
            millis(attempt.connect_us),
            millis(attempt.first_byte_us),
            millis(attempt.total_us),
        ]);
    }
    table
}
