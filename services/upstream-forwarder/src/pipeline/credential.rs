//! credential: the account's secret, from memory; once more with its generation after the upstream refused it (CRED-4).
//! And the way to the account, where that is a secret, too.

use std::sync::Arc;

use secrecy::ExposeSecret as _;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::scheduler::v1::proxy::Place;

use super::{Conductor, Course, Ended};
use crate::{
    caller::Caller,
    domain::outcome::{Fault, Kind},
    upstream::Proxy,
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
        (Err(failure), None) => Err(missing(&failure)),
    })
}

/// The proxy of the current candidate; `None`: it is reached directly.
pub(super) async fn proxy(
    conductor: &Conductor,
    course: &Course,
    caller: &mut Caller,
) -> Result<Result<Option<Arc<Proxy>>, Fault>, Ended> {
    let Some(proxy) = &course.candidate.proxy else {
        return Ok(Ok(None));
    };
    let known = match &proxy.place {
        Some(Place::Url(url)) => conductor.upstreams.proxy(url),
        Some(Place::Credential(name)) => {
            let asked = conductor.vault.secret(name, 0, &conductor.clock);
            match caller.attend(asked).await? {
                Ok(secret) => conductor.upstreams.proxy(secret.secret().expose_secret()),
                Err(failure) => return Ok(Err(missing(&failure))),
            }
        }
        None => None,
    };
    // Never past a proxy that cannot be read.
    Ok(known.map(Some).ok_or_else(|| Fault::of(Kind::Proxy)))
}

fn missing(failure: &Failure) -> Fault {
    Fault::of(match failure.reason {
        Reason::Unavailable | Reason::UpstreamTimeout | Reason::Internal => Kind::VaultAway,
        _ => Kind::NoCredential,
    })
}
