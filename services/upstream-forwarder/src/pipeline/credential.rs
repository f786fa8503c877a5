//! credential: the account's secret, from memory; once more with its generation after the upstream refused it (CRED-4).

use std::sync::Arc;

use switchboard_common::error::Reason;

use super::{Conductor, Course, Ended};
use crate::{
    caller::Caller,
    domain::outcome::{Fault, Kind},
    vault::Secret,
};

/// The secret for the current candidate; `None`: it needs none. `refused` is what the upstream did not accept: when there
/// is no newer one that failure stands.
pub(super) async fn credential(
    conductor: &Conductor,
    course: &Course,
    caller: &mut Caller,
    refused: Option<(Arc<Secret>, Fault)>,
) -> Result<Result<Option<Arc<Secret>>, Fault>, Ended> {
    let candidate = &course.candidate;
    if candidate.credential.is_none() {
        return Ok(Ok(None));
    }
    let stale = refused.as_ref().map_or(0, |(secret, _)| secret.generation);
    let asked = conductor
        .vault
        .secret(&candidate.account, stale, &conductor.clock);
    let found = caller.attend(asked).await?;
    Ok(match (found, refused) {
        (Ok(secret), Some((_, fault))) if secret.generation <= stale => Err(fault),
        (Ok(secret), _) => Ok(Some(secret)),
        (Err(_), Some((_, fault))) => Err(fault),
        (Err(failure), None) => Err(Fault::of(match failure.reason {
            Reason::Unavailable | Reason::UpstreamTimeout | Reason::Internal => Kind::VaultAway,
            _ => Kind::NoCredential,
        })),
    })
}
