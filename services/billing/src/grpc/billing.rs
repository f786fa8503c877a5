//! `billing.v1.Billing`: for forwarders.

use std::sync::Arc;

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use switchboard_common::{feed::Feed, grpc::Answers, lifecycle::Lifecycle};
use switchboard_proto::{
    billing::v1::{
        RecordRequest, RecordResponse, ReserveRequest, ReserveResponse, VoidRequest, VoidResponse,
        billing_server::Billing,
    },
    common::v1::{WatchChangesRequest, WatchChangesResponse},
};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    reservation::Reservations,
    settlement::{Ack, Acked, Settler},
};

/// Acknowledgements in one message at most.
const ACKS: usize = 1_024;

/// What the service needs.
pub(crate) struct Service {
    pub(crate) reservations: Reservations,
    pub(crate) settler: Settler,
    pub(crate) feed: Feed,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) unacknowledged: usize,
}

/// Reserve, Void, Record, WatchChanges.
#[derive(Clone)]
pub struct BillingService(pub(crate) Arc<Service>);

impl BillingService {
    /// Reserve, for whoever hands the message over as it is.
    pub(crate) async fn hold(self, request: ReserveRequest) -> Result<ReserveResponse, Status> {
        Ok(self.0.reservations.reserve(&request).await?)
    }

    /// Record, from any source of messages.
    pub(crate) fn take(
        &self,
        messages: impl Stream<Item = Result<RecordRequest, Status>> + Send + Unpin + 'static,
    ) -> Answers<RecordResponse> {
        let (acks, acked) = mpsc::channel(self.0.unacknowledged);
        let service = Arc::clone(&self.0);
        self.0.lifecycle.spawn(
            "record",
            async move { read(&service, messages, acks).await },
        );
        answers(acked).boxed()
    }
}

#[tonic::async_trait]
impl Billing for BillingService {
    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let held = self.clone().hold(request.into_inner()).await?;
        Ok(Response::new(held))
    }

    async fn void(&self, request: Request<VoidRequest>) -> Result<Response<VoidResponse>, Status> {
        let request = request.get_ref();
        self.0
            .reservations
            .void(&request.tenant, &request.request_id)
            .await?;
        Ok(Response::new(VoidResponse {}))
    }

    type RecordStream = Answers<RecordResponse>;

    async fn record(
        &self,
        request: Request<Streaming<RecordRequest>>,
    ) -> Result<Response<Self::RecordStream>, Status> {
        Ok(Response::new(self.take(request.into_inner())))
    }

    type WatchChangesStream = BoxStream<'static, Result<WatchChangesResponse, Status>>;

    async fn watch_changes(
        &self,
        request: Request<WatchChangesRequest>,
    ) -> Result<Response<Self::WatchChangesStream>, Status> {
        Ok(Response::new(self.0.feed.watch(request.get_ref().since)))
    }
}

/// Until the sender ends, breaks, or does not take its answers; or until the service stops. What was queued is still
/// committed, and acknowledged if anyone listens.
async fn read(
    service: &Service,
    mut messages: impl Stream<Item = Result<RecordRequest, Status>> + Unpin,
    acks: mpsc::Sender<Acked>,
) {
    let stopping = service.lifecycle.stopping();
    loop {
        let message = tokio::select! {
            () = stopping.cancelled() => return,
            () = acks.closed() => return,
            message = messages.next() => message,
        };
        let Some(Ok(RecordRequest {
            settlements,
            touches,
        })) = message
        else {
            return;
        };
        for settlement in settlements {
            // A place for the answer first, so that committing never waits for a reader.
            let Ok(permit) = acks.clone().reserve_owned().await else {
                return;
            };
            if service
                .settler
                .submit(settlement, Ack::Stream(permit))
                .await
                .is_err()
            {
                return;
            }
        }
        if touches.is_empty() {
            continue;
        }
        let touched = service.reservations.touch(touches).await;
        if acks.send(Acked::Touched(touched)).await.is_err() {
            return;
        }
    }
}

/// Ends when the reader has ended and everything it queued is acknowledged.
fn answers(
    acked: mpsc::Receiver<Acked>,
) -> impl futures_util::Stream<Item = Result<RecordResponse, Status>> {
    stream::unfold(acked, |mut acked| async move {
        let mut some = Vec::new();
        if acked.recv_many(&mut some, ACKS).await == 0 {
            return None;
        }
        let mut response = RecordResponse::default();
        for ack in some {
            match ack {
                Acked::Settled(id) => response.settled.push(id),
                Acked::Touched(ids) => response.touched.extend(ids),
            }
        }
        Some((Ok(response), acked))
    })
}
