//! `catalogue`, `cooldowns`, `credentials`: the supply side as the scheduler and the vault have it.

use switchboard_common::grpc::Rpc;
use switchboard_proto::{
    common::v1::Actor,
    credentials::v1::{ListCredentialsRequest, credentials_admin_client::CredentialsAdminClient},
    scheduler::v1::{
        ListVersionsRequest, ResetCooldownsRequest, RollbackRequest,
        scheduler_admin_client::SchedulerAdminClient,
    },
};

use super::{
    args::Catalogue,
    exit::{Error, Exit},
    screen::Screen,
    table::{Table, moment, yes},
};

pub(super) async fn catalogue(
    mut scheduler: SchedulerAdminClient<Rpc>,
    actor: Actor,
    command: Catalogue,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    match command {
        Catalogue::Versions { limit } => {
            let answer = scheduler
                .list_versions(ListVersionsRequest { limit })
                .await?
                .into_inner();
            if screen.is_json() {
                screen.answer(&answer)?;
                return Ok(Exit::Ok);
            }
            let mut table = Table::new(&[
                "VERSION", "CURRENT", "CREATED", "ACTOR", "REASON", "CHANGES",
            ]);
            for version in &answer.versions {
                // Lines of a difference stand side by side: a table's row is one line.
                let diff: Vec<&str> = version.diff.lines().collect();
                table.row([
                    version.version.to_string(),
                    yes(version.current),
                    moment(version.created_at_ms),
                    version.actor.clone(),
                    version.reason.clone(),
                    diff.join("; "),
                ]);
            }
            screen.table(&table, "no versions")?;
        }
        Catalogue::Rollback { version } => {
            let request = RollbackRequest {
                actor: Some(actor),
                version,
            };
            let answer = scheduler.rollback(request).await?.into_inner();
            if screen.is_json() {
                screen.answer(&answer)?;
            } else {
                screen.line(format_args!(
                    "catalogue version {} has what version {version} had; {} changed",
                    answer.version,
                    answer.changes.len()
                ))?;
            }
        }
    }
    Ok(Exit::Ok)
}

pub(super) async fn reset_cooldowns(
    mut scheduler: SchedulerAdminClient<Rpc>,
    actor: Actor,
    account: String,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let request = ResetCooldownsRequest {
        actor: Some(actor),
        account,
    };
    let answer = scheduler.reset_cooldowns(request).await?.into_inner();
    if screen.is_json() {
        screen.answer(&answer)?;
    } else {
        screen.line(format_args!("{} lifted", answer.lifted))?;
    }
    Ok(Exit::Ok)
}

pub(super) async fn credentials(
    mut vault: CredentialsAdminClient<Rpc>,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let answer = vault
        .list_credentials(ListCredentialsRequest {})
        .await?
        .into_inner();
    if screen.is_json() {
        screen.answer(&answer)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["ACCOUNT", "STATUS", "GENERATION", "UPDATED"]);
    for credential in &answer.credentials {
        table.row([
            credential.account.clone(),
            credential.status.clone(),
            credential.generation.to_string(),
            moment(credential.updated_at_ms),
        ]);
    }
    screen.table(&table, "no credentials")?;
    Ok(Exit::Ok)
}
