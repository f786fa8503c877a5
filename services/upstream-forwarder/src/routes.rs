//! The two long-lived streams: settlements and touches to billing, renewals and releases to the scheduler.

use std::sync::Arc;

use switchboard_common::grpc::{Answers, Method};
use switchboard_proto::{
    billing::v1::{RecordRequest, RecordResponse, Settlement, Touch},
    scheduler::v1::{LeaseAcks, LeaseUpdate, LeaseUpdates},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{asks::Batches, courier::Route, journal::Journal};

/// What billing is told.
#[derive(Clone, Debug)]
pub(crate) enum Money {
    Settlement(Arc<Settlement>),
    Touch(Box<Touch>),
}

/// To billing.
#[derive(Debug)]
pub(crate) struct ToBilling {
    pub(crate) record: Method<Batches<RecordRequest>, Answers<RecordResponse>>,
    pub(crate) journal: Journal,
}

impl Route for ToBilling {
    type Item = Money;
    type Batch = RecordRequest;
    type Answer = RecordResponse;

    const NAME: &'static str = "billing";

    fn batch(items: Vec<Money>) -> RecordRequest {
        let mut request = RecordRequest::default();
        for item in items {
            match item {
                Money::Settlement(settlement) => {
                    request.settlements.push(Arc::unwrap_or_clone(settlement))
                }
                Money::Touch(touch) => request.touches.push(*touch),
            }
        }
        request
    }

    fn acknowledged(answer: RecordResponse) -> Vec<String> {
        answer.settled
    }

    async fn open(
        &mut self,
        batches: ReceiverStream<RecordRequest>,
    ) -> Result<Answers<RecordResponse>, Status> {
        self.record.ask(batches, None).await
    }

    async fn arrived(&mut self, ids: Vec<String>) {
        self.journal.acknowledged(ids).await;
    }

    async fn more(&mut self, limit: usize) -> Vec<(String, Money)> {
        let loaded = self.journal.load(limit).await.into_iter();
        loaded
            .map(|settlement| {
                let id = settlement.request_id.clone();
                (id, Money::Settlement(Arc::new(settlement)))
            })
            .collect()
    }
}

/// What the scheduler is told.
#[derive(Clone, Debug)]
pub(crate) struct Lease(pub(crate) LeaseUpdate);

/// To the scheduler.
#[derive(Debug)]
pub(crate) struct ToScheduler {
    pub(crate) leases: Method<Batches<LeaseUpdates>, Answers<LeaseAcks>>,
}

impl Route for ToScheduler {
    type Item = Lease;
    type Batch = LeaseUpdates;
    type Answer = LeaseAcks;

    const NAME: &'static str = "scheduler";

    fn batch(items: Vec<Lease>) -> LeaseUpdates {
        LeaseUpdates {
            updates: items.into_iter().map(|Lease(update)| update).collect(),
        }
    }

    fn acknowledged(answer: LeaseAcks) -> Vec<String> {
        answer.request_ids
    }

    async fn open(
        &mut self,
        batches: ReceiverStream<LeaseUpdates>,
    ) -> Result<Answers<LeaseAcks>, Status> {
        self.leases.ask(batches, None).await
    }

    async fn arrived(&mut self, _: Vec<String>) {}

    /// What did not fit ends by itself: a lease that is not renewed.
    async fn more(&mut self, _: usize) -> Vec<(String, Lease)> {
        Vec::new()
    }
}
