//! `ledger verify`: whether the books balance.

use switchboard_common::grpc::Rpc;
use switchboard_proto::billing::v1::{
    VerifyLedgerRequest, billing_admin_client::BillingAdminClient,
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
