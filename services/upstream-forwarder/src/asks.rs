//! What each request asks of its peers: straight where they run in this process, over their clients elsewhere.

use futures_util::StreamExt as _;
use switchboard_common::grpc::{Answers, Method, Rpc, within};
use switchboard_proto::{
    billing::v1::{
        RecordRequest, RecordResponse, ReserveRequest, ReserveResponse,
        billing_client::BillingClient,
    },
    scheduler::v1::{
        AcquireRequest, AcquireResponse, LeaseAcks, LeaseUpdates, scheduler_client::SchedulerClient,
    },
};

use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::component::Peers;

/// Messages in batches, as long as there is a stream.
pub(crate) type Batches<T> = ReceiverStream<T>;

/// See the module's page.
#[derive(Clone, Debug)]
pub(crate) struct Asks {
    /// Limits and a slot.
    pub(crate) acquire: Method<AcquireRequest, AcquireResponse>,
    /// Renewals and releases of slots.
    pub(crate) leases: Method<Batches<LeaseUpdates>, Answers<LeaseAcks>>,
    /// Money set aside.
    pub(crate) reserve: Method<ReserveRequest, ReserveResponse>,
    /// Settlements and signs of life.
    pub(crate) record: Method<Batches<RecordRequest>, Answers<RecordResponse>>,
}

impl Asks {
    pub(crate) fn new(
        peers: &Peers,
        scheduler: &SchedulerClient<Rpc>,
        billing: &BillingClient<Rpc>,
    ) -> Self {
        let client = scheduler.clone();
        let acquire = move |message, time| {
            let mut client = client.clone();
            async move { Ok(client.acquire(within(message, time)).await?.into_inner()) }
        };
        let client = scheduler.clone();
        let leases = move |batches, _| lease(client.clone(), batches);
        let client = billing.clone();
        let reserve = move |message, time| {
            let mut client = client.clone();
            async move { Ok(client.reserve(within(message, time)).await?.into_inner()) }
        };
        let client = billing.clone();
        let record = move |batches, _| record(client.clone(), batches);
        Self {
            acquire: Method::of(&peers.scheduler, acquire),
            leases: Method::of(&peers.scheduler, leases),
            reserve: Method::of(&peers.billing, reserve),
            record: Method::of(&peers.billing, record),
        }
    }
}

async fn lease(
    mut client: SchedulerClient<Rpc>,
    batches: Batches<LeaseUpdates>,
) -> Result<Answers<LeaseAcks>, Status> {
    Ok(client.leases(batches).await?.into_inner().boxed())
}

async fn record(
    mut client: BillingClient<Rpc>,
    batches: Batches<RecordRequest>,
) -> Result<Answers<RecordResponse>, Status> {
    Ok(client.record(batches).await?.into_inner().boxed())
}
