//! `ListModels`: what the key may call, with what the catalogue says of it.

use std::sync::Arc;

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::inference::v1::{ListModelsResponse, ModelCard};

use super::intake::Intake;
use crate::pipeline::Conductor;

/// The models of this caller.
pub(super) async fn list(
    conductor: &Arc<Conductor>,
    intake: &Intake,
) -> Result<ListModelsResponse, Failure> {
    let who = conductor.principals.find(&intake.call.credential).await?;
    who.admit(intake.call.peer, conductor.clock.now_ms())?;
    let Some(catalogue) = conductor.supply.current() else {
        let text = "the catalogue is not loaded yet";
        return Err(Failure::new(Reason::Unavailable, text));
    };
    let listed = catalogue.list(&who.principal.group, &who.principal.models);
    let card =
        |(id, model): (String, Arc<switchboard_proto::scheduler::v1::PublicModel>)| ModelCard {
            id,
            created: model.created,
            capabilities: model.capabilities.clone(),
            context_window: model.context_window,
            max_output: model.max_output,
        };
    Ok(ListModelsResponse {
        models: listed.into_iter().map(card).collect(),
    })
}
