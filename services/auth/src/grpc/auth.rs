//! `switchboard.auth.v1.Auth`, for forwarders.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::stream::BoxStream;
use secrecy::SecretString;
use switchboard_common::{
    error::{Failure, Reason},
    feed::Feed,
};
use switchboard_proto::{
    auth::v1::{AuthenticateRequest, AuthenticateResponse, auth_server::Auth},
    common::v1::{WatchChangesRequest, WatchChangesResponse},
};
use tonic::{Request, Response, Status};

use crate::{
    config::Config,
    lookup::{Authenticator, Miss},
};

/// The service.
#[derive(Clone)]
pub(crate) struct AuthService {
    pub(crate) authenticator: Authenticator,
    pub(crate) feed: Feed,
    pub(crate) ready: Arc<AtomicBool>,
    pub(crate) config: Config,
}

#[tonic::async_trait]
impl Auth for AuthService {
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let credential = SecretString::from(request.into_inner().credential);
        // Before the latest changes are known, a cached entry cannot be judged.
        if !self.ready.load(Ordering::Acquire) {
            return Err(unavailable(self.config.retry_after));
        }
        match self.authenticator.authenticate(&credential).await {
            Ok(principal) => Ok(Response::new(AuthenticateResponse {
                principal: Some(principal),
            })),
            Err(Miss::Unknown) => Err(Failure::new(
                Reason::InvalidApiKey,
                "incorrect API key; check that it is whole and that it was issued for this gateway",
            )
            .into()),
            Err(Miss::Unavailable(after)) => Err(unavailable(after)),
        }
    }

    type WatchChangesStream = BoxStream<'static, Result<WatchChangesResponse, Status>>;

    async fn watch_changes(
        &self,
        request: Request<WatchChangesRequest>,
    ) -> Result<Response<Self::WatchChangesStream>, Status> {
        Ok(Response::new(self.feed.watch(request.into_inner().since)))
    }
}

fn unavailable(after: std::time::Duration) -> Status {
    Failure::new(
        Reason::Unavailable,
        "the API key cannot be checked right now; try again shortly",
    )
    .retry_after(after)
    .into()
}
