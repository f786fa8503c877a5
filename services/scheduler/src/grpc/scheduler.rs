//! `scheduler.v1.Scheduler`.

use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use switchboard_common::{error::Failure, grpc::Answers};
use switchboard_proto::scheduler::v1::{
    AcquireRequest, AcquireResponse, AdvanceRequest, AdvanceResponse, BindResponseRequest,
    BindResponseResponse, CatalogueSnapshot, FindResponseRequest, FindResponseResponse,
    GetRateLimitsRequest, GetRateLimitsResponse, GetSheetsRequest, GetSheetsResponse, LeaseAcks,
    LeaseUpdates, ResponseBinding, WatchCatalogueRequest, scheduler_server::Scheduler,
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    flow::Core,
    store::{Binding, Bound},
};

/// The service. Clones share it.
#[derive(Clone)]
pub struct SchedulerService {
    core: Arc<Core>,
    stopping: CancellationToken,
}

impl SchedulerService {
    pub(crate) fn new(core: Arc<Core>, stopping: CancellationToken) -> Self {
        Self { core, stopping }
    }

    /// One batch after the other; what comes meanwhile waits in the stream's window.
    pub(crate) fn acknowledge(
        core: &Arc<Core>,
        batches: impl Stream<Item = Result<LeaseUpdates, Status>> + Send + 'static,
    ) -> Answers<LeaseAcks> {
        let core = Arc::clone(core);
        batches
            .then(move |updates| {
                let core = Arc::clone(&core);
                async move { Ok(core.updates(updates?).await) }
            })
            .boxed()
    }
}

#[tonic::async_trait]
impl Scheduler for SchedulerService {
    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        Ok(Response::new(self.core.acquire(request.get_ref()).await?))
    }

    async fn advance(
        &self,
        request: Request<AdvanceRequest>,
    ) -> Result<Response<AdvanceResponse>, Status> {
        Ok(Response::new(self.core.advance(request.get_ref()).await?))
    }

    async fn get_rate_limits(
        &self,
        request: Request<GetRateLimitsRequest>,
    ) -> Result<Response<GetRateLimitsResponse>, Status> {
        let limits = self.core.rate_limits(request.get_ref()).await?;
        Ok(Response::new(limits))
    }

    async fn get_sheets(
        &self,
        request: Request<GetSheetsRequest>,
    ) -> Result<Response<GetSheetsResponse>, Status> {
        let asked = request.get_ref();
        let supply = self.core.catalogue.pinned(asked.catalogue_version).await;
        let supply = supply.map_err(Failure::from)?;
        let models = asked.upstream_models.iter();
        let models = models.map(|model| supply.sheets(&asked.account, model, &asked.public_model));
        Ok(Response::new(GetSheetsResponse {
            models: models.collect(),
        }))
    }

    async fn bind_response(
        &self,
        request: Request<BindResponseRequest>,
    ) -> Result<Response<BindResponseResponse>, Status> {
        let asked = request.into_inner();
        let binding = asked.binding.unwrap_or_default();
        let bound = Bound {
            tenant: asked.tenant,
            response_id: asked.response_id,
            binding: Binding {
                account: binding.account,
                public_model: binding.public_model,
                unsettled: binding.unsettled.into(),
            },
        };
        self.core.responses.bind(bound).await?;
        Ok(Response::new(BindResponseResponse {}))
    }

    async fn find_response(
        &self,
        request: Request<FindResponseRequest>,
    ) -> Result<Response<FindResponseResponse>, Status> {
        let asked = request.get_ref();
        let found = self.core.responses.find(&asked.tenant, &asked.response_id);
        let found = found.await.map_err(Failure::from)?;
        Ok(Response::new(FindResponseResponse {
            binding: found.map(|binding| ResponseBinding {
                account: binding.account,
                public_model: binding.public_model,
                unsettled: binding.unsettled.into(),
            }),
        }))
    }

    type LeasesStream = Answers<LeaseAcks>;

    async fn leases(
        &self,
        request: Request<Streaming<LeaseUpdates>>,
    ) -> Result<Response<Self::LeasesStream>, Status> {
        let acks = Self::acknowledge(&self.core, request.into_inner());
        Ok(Response::new(acks))
    }

    type WatchCatalogueStream = Answers<CatalogueSnapshot>;

    async fn watch_catalogue(
        &self,
        request: Request<WatchCatalogueRequest>,
    ) -> Result<Response<Self::WatchCatalogueStream>, Status> {
        let core = Arc::clone(&self.core);
        let versions = core.catalogue.announced();
        let since = request.get_ref().since;
        let snapshots = futures_util::stream::unfold(
            // An empty installation has version 0: a watcher that knows nothing is told that too.
            (core, versions, Some(since).filter(|since| *since > 0)),
            |(core, mut versions, known)| async move {
                loop {
                    let version = *versions.borrow_and_update();
                    if core.catalogue.is_loaded() && Some(version) != known {
                        let supply = core.catalogue.current();
                        let next = Some(supply.version);
                        return Some((Ok(supply.announced.clone()), (core, versions, next)));
                    }
                    versions.changed().await.ok()?;
                }
            },
        );
        // A watch never ends by itself; the server's end must not wait for it.
        let stopping = self.stopping.clone().cancelled_owned();
        Ok(Response::new(Box::pin(snapshots.take_until(stopping))))
    }
}
