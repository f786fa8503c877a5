//! `ledger verify`: whether the books balance. `ledger resolve`: what was put aside and stays unsettled on purpose.

use switchboard_common::grpc::Rpc;
use switchboard_proto::{
    billing::v1::{
        ResolveDeadLetterRequest, VerifyLedgerRequest, billing_admin_client::BillingAdminClient,
    },
    common::v1::Actor,
};

use super::{
    exit::{Error, Exit},
    screen::Screen,
    table::plain,
};

/// Exit 1 and what is wrong when they do not.
pub(super) async fn verify(
    mut billing: BillingAdminClient<Rpc>,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let answer = billing
        .verify_ledger(VerifyLedgerRequest {})
        .await?
        .into_inner();
    if screen.is_json() {
        screen.answer(&answer)?;
    } else {
        for problem in &answer.problems {
            screen.line(plain(problem))?;
        }
        for resolved in &answer.resolved {
            screen.line(format_args!("for information: {}", plain(resolved)))?;
        }
        screen.line(format_args!(
            "{}: {} settlements, {} entries, {} open holds, {} dead letters",
            if answer.balanced {
                "balanced"
            } else {
                "not balanced"
            },
            answer.settlements,
            answer.entries,
            answer.open_holds,
            answer.dead_letters,
        ))?;
    }
    Ok(if answer.balanced {
        Exit::Ok
    } else {
        Exit::Wrong
    })
}

/// Takes a request's dead letters off the list of what is wrong.
pub(super) async fn resolve(
    mut billing: BillingAdminClient<Rpc>,
    actor: Actor,
    request_id: String,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    if actor.reason.trim().is_empty() {
        return Err(Error::Usage(
            "why may it stay unsettled? Give --reason TEXT; it goes into the audit log".to_owned(),
        ));
    }
    let request = ResolveDeadLetterRequest {
        actor: Some(actor),
        request_id: request_id.clone(),
    };
    let answer = billing.resolve_dead_letter(request).await?.into_inner();
    if screen.is_json() {
        screen.answer(&answer)?;
    } else if answer.resolved == 0 {
        screen.line(format_args!("request {request_id} was resolved before"))?;
    } else {
        screen.line(format_args!("request {request_id} stays unsettled"))?;
    }
    Ok(Exit::Ok)
}
