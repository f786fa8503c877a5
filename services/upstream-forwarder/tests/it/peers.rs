//! Fakes of the four peers: they do what a test told them and remember what they were told.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
};

use futures_util::{Stream, StreamExt as _, stream};
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    auth::v1::{AuthenticateRequest, AuthenticateResponse, Principal, auth_server::Auth},
    billing::v1::{
        RecordRequest, RecordResponse, ReserveRequest, ReserveResponse, Settlement, Touch,
        VoidRequest, VoidResponse, billing_server::Billing,
    },
    common::v1::{Change, WatchChangesRequest, WatchChangesResponse},
    credentials::v1::{GetRequest, GetResponse, credentials_server::Credentials},
    scheduler::v1::{
        AcquireRequest, AcquireResponse, AdvanceRequest, AdvanceResponse, BindResponseRequest,
        BindResponseResponse, Candidate, CatalogueSnapshot, FindResponseRequest,
        FindResponseResponse, GetRateLimitsRequest, GetRateLimitsResponse, GetSheetsRequest,
        GetSheetsResponse, LeaseAcks, LeaseUpdates, ModelSheets, RateLimitState, Release, Renewal,
        ResponseBinding, WatchCatalogueRequest, lease_update::Update, scheduler_server::Scheduler,
    },
};
use tokio::sync::{Notify, watch};
use tonic::{Request, Response, Status, Streaming};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the fakes do and what they saw.
#[derive(Default)]
pub struct State {
    pub principals: HashMap<String, Principal>,
    pub auth_down: bool,
    pub lookups: usize,
    pub candidates: Vec<Candidate>,
    pub rate_limits: Vec<RateLimitState>,
    /// `acquire` waits as long as this is set.
    pub queue: bool,
    pub waiting: usize,
    pub left_queue: usize,
    pub acquire_error: Option<Failure>,
    pub acquired: Vec<AcquireRequest>,
    pub looked: Vec<GetRateLimitsRequest>,
    /// By account and upstream model.
    pub sheets: HashMap<(String, String), ModelSheets>,
    pub advanced: Vec<AdvanceRequest>,
    pub released: Vec<(String, Release)>,
    /// Who keeps which response, by tenant and id.
    pub kept: HashMap<(String, String), ResponseBinding>,
    /// It cannot be written down.
    pub forgetful: bool,
    pub bound: Vec<BindResponseRequest>,
    pub renewed: Vec<String>,
    pub secrets: HashMap<String, Vec<String>>,
    pub asked_secrets: usize,
    pub billing_down: bool,
    pub reserve_error: Option<Failure>,
    pub hold: ReserveResponse,
    pub reserved: Vec<ReserveRequest>,
    pub voided: Vec<String>,
    pub settled: Vec<Settlement>,
    pub touched: Vec<Touch>,
}

pub struct World {
    state: Mutex<State>,
    pub bell: Notify,
    pub catalogue: watch::Sender<CatalogueSnapshot>,
    pub changes: watch::Sender<Vec<Change>>,
}

impl World {
    pub fn new(catalogue: CatalogueSnapshot, state: State) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            bell: Notify::new(),
            catalogue: watch::Sender::new(catalogue),
            changes: watch::Sender::new(Vec::new()),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state());
        self.bell.notify_waiters();
        done
    }

    /// Publishes a change of auth.
    pub fn announce(&self, seq: u64, scope: &str, id: &str) {
        let change = Change {
            seq,
            scope: scope.to_owned(),
            id: id.to_owned(),
        };
        self.changes.send_modify(|changes| changes.push(change));
    }

    /// Waits until the state fulfils the condition.
    pub async fn until(&self, what: &str, mut condition: impl FnMut(&State) -> bool) {
        let wait = async {
            loop {
                let bell = self.bell.notified();
                let mut bell = std::pin::pin!(bell);
                bell.as_mut().enable();
                if condition(&self.state()) {
                    return;
                }
                bell.await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), wait).await;
        assert!(waited.is_ok(), "never: {what}");
    }
}

#[derive(Clone)]
pub struct Fake(pub Arc<World>);

fn feed(changes: watch::Receiver<Vec<Change>>, since: u64) -> Answers<WatchChangesResponse> {
    let state = (changes, since, true);
    stream::unfold(state, |(mut changes, since, first)| async move {
        loop {
            let all = changes.borrow_and_update().clone();
            let head = all.last().map_or(0, |last| last.seq);
            let since = if first && since == 0 { head } else { since };
            let new: Vec<_> = all.into_iter().filter(|c| c.seq > since).collect();
            if first || !new.is_empty() {
                let answer = WatchChangesResponse { changes: new, head };
                return Some((Ok(answer), (changes, head, false)));
            }
            changes.changed().await.ok()?;
        }
    })
    .boxed()
}

#[tonic::async_trait]
impl Auth for Fake {
    type WatchChangesStream = Answers<WatchChangesResponse>;

    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        self.0.change(|state| {
            state.lookups += 1;
            if state.auth_down {
                return Err(Status::unavailable("down"));
            }
            let found = state.principals.get(&request.get_ref().credential).cloned();
            let principal = found.ok_or_else(|| Failure::new(Reason::InvalidApiKey, "nobody's"))?;
            Ok(Response::new(AuthenticateResponse {
                principal: Some(principal),
            }))
        })
    }

    async fn watch_changes(
        &self,
        request: Request<WatchChangesRequest>,
    ) -> Result<Response<Self::WatchChangesStream>, Status> {
        let since = request.get_ref().since;
        Ok(Response::new(feed(self.0.changes.subscribe(), since)))
    }
}

#[tonic::async_trait]
impl Credentials for Fake {
    type WatchChangesStream = Answers<WatchChangesResponse>;

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let asked = request.into_inner();
        self.0.change(|state| {
            state.asked_secrets += 1;
            let secrets = state
                .secrets
                .get(&asked.account)
                .cloned()
                .unwrap_or_default();
            // Each refused generation brings the next secret, if there is one.
            let last = secrets.len().saturating_sub(1);
            let at = usize::try_from(asked.stale_generation).unwrap().min(last);
            let secret = secrets.get(at).cloned().unwrap_or_default();
            Ok(Response::new(GetResponse {
                secret,
                generation: at as u64 + 1,
                expires_at_ms: None,
            }))
        })
    }

    async fn watch_changes(
        &self,
        _: Request<WatchChangesRequest>,
    ) -> Result<Response<Self::WatchChangesStream>, Status> {
        Ok(Response::new(stream::pending().boxed()))
    }
}

/// Counts a caller that leaves the queue.
struct Waiter<'a>(&'a World, bool);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.change(|state| state.left_queue += 1);
        }
    }
}

fn lease(account: &str, attempt: u32) -> Option<Renewal> {
    Some(Renewal {
        account: account.to_owned(),
        attempt,
        account_slot: true,
        ..Renewal::default()
    })
}

#[tonic::async_trait]
impl Scheduler for Fake {
    type LeasesStream = Answers<LeaseAcks>;
    type WatchCatalogueStream = Answers<CatalogueSnapshot>;

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        self.0.change(|state| {
            state.acquired.push(request.into_inner());
            state.waiting += 1;
        });
        let mut waiter = Waiter(&self.0, false);
        self.0.until_queue_opens().await;
        waiter.1 = true;
        let state = self.0.state();
        if let Some(failure) = &state.acquire_error {
            return Err(failure.clone().into());
        }
        let first = state.candidates.first();
        Ok(Response::new(AcquireResponse {
            granted: 0,
            candidates: state.candidates.clone(),
            rate_limits: state.rate_limits.clone(),
            decision_json: r#"{"policy":"fake"}"#.to_owned(),
            lease: first.and_then(|first| lease(&first.account, 0)),
            lease_ttl_ms: 30_000,
            ..AcquireResponse::default()
        }))
    }

    async fn advance(
        &self,
        request: Request<AdvanceRequest>,
    ) -> Result<Response<AdvanceResponse>, Status> {
        let asked = request.into_inner();
        let next = asked.left.first().map(|key| key.account.clone());
        let attempt = asked.attempt;
        self.0.change(|state| state.advanced.push(asked));
        Ok(Response::new(AdvanceResponse {
            granted: next.as_ref().map(|_| 0),
            retry_after_ms: None,
            lease: next.and_then(|account| lease(&account, attempt)),
        }))
    }

    async fn bind_response(
        &self,
        request: Request<BindResponseRequest>,
    ) -> Result<Response<BindResponseResponse>, Status> {
        let asked = request.into_inner();
        self.0.change(|state| {
            state.bound.push(asked.clone());
            if state.forgetful {
                return Err(Status::unavailable("down"));
            }
            let key = (asked.tenant, asked.response_id);
            state.kept.insert(key, asked.binding.unwrap_or_default());
            Ok(Response::new(BindResponseResponse {}))
        })
    }

    async fn find_response(
        &self,
        request: Request<FindResponseRequest>,
    ) -> Result<Response<FindResponseResponse>, Status> {
        let asked = request.into_inner();
        let key = (asked.tenant, asked.response_id);
        let binding = self.0.state().kept.get(&key).cloned();
        Ok(Response::new(FindResponseResponse { binding }))
    }

    async fn get_rate_limits(
        &self,
        request: Request<GetRateLimitsRequest>,
    ) -> Result<Response<GetRateLimitsResponse>, Status> {
        self.0.change(|state| {
            state.looked.push(request.into_inner());
            let rate_limits = state.rate_limits.clone();
            Ok(Response::new(GetRateLimitsResponse { rate_limits }))
        })
    }

    async fn get_sheets(
        &self,
        request: Request<GetSheetsRequest>,
    ) -> Result<Response<GetSheetsResponse>, Status> {
        let asked = request.into_inner();
        let sheets = |model| {
            let key = (asked.account.clone(), model);
            self.0.state().sheets.get(&key).copied().unwrap_or_default()
        };
        let models = asked.upstream_models.into_iter().map(sheets);
        Ok(Response::new(GetSheetsResponse {
            models: models.collect(),
        }))
    }

    async fn leases(
        &self,
        request: Request<Streaming<LeaseUpdates>>,
    ) -> Result<Response<Self::LeasesStream>, Status> {
        let world = Arc::clone(&self.0);
        let answer = move |updates: LeaseUpdates| {
            world.change(|state| {
                let mut request_ids = Vec::new();
                for update in updates.updates {
                    request_ids.push(update.request_id.clone());
                    match update.update {
                        Some(Update::Release(release)) => {
                            state.released.push((update.request_id, release));
                        }
                        _ => state.renewed.push(update.request_id),
                    }
                }
                LeaseAcks { request_ids }
            })
        };
        let updates = request.into_inner();
        Ok(Response::new(updates.map(move |u| u.map(&answer)).boxed()))
    }

    async fn watch_catalogue(
        &self,
        _: Request<WatchCatalogueRequest>,
    ) -> Result<Response<Self::WatchCatalogueStream>, Status> {
        let catalogue = self.0.catalogue.subscribe();
        let versions = tokio_stream::wrappers::WatchStream::new(catalogue);
        Ok(Response::new(versions.map(Ok).boxed()))
    }
}

impl World {
    async fn until_queue_opens(&self) {
        loop {
            let bell = self.bell.notified();
            let mut bell = std::pin::pin!(bell);
            bell.as_mut().enable();
            if !self.state().queue {
                return;
            }
            bell.await;
        }
    }
}

#[tonic::async_trait]
impl Billing for Fake {
    type RecordStream = Answers<RecordResponse>;
    type WatchChangesStream = Answers<WatchChangesResponse>;

    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        self.0.change(|state| {
            if state.billing_down {
                return Err(Status::unavailable("down"));
            }
            state.reserved.push(request.into_inner());
            match &state.reserve_error {
                Some(failure) => Err(failure.clone().into()),
                None => Ok(Response::new(state.hold)),
            }
        })
    }

    async fn void(&self, request: Request<VoidRequest>) -> Result<Response<VoidResponse>, Status> {
        self.0
            .change(|state| state.voided.push(request.into_inner().request_id));
        Ok(Response::new(VoidResponse {}))
    }

    async fn record(
        &self,
        request: Request<Streaming<RecordRequest>>,
    ) -> Result<Response<Self::RecordStream>, Status> {
        if self.0.state().billing_down {
            return Err(Status::unavailable("down"));
        }
        let world = Arc::clone(&self.0);
        let answer = move |request: Result<RecordRequest, Status>| {
            let request = request?;
            world.change(|state| {
                if state.billing_down {
                    return Err(Status::unavailable("down"));
                }
                let settled = request
                    .settlements
                    .iter()
                    .map(|s| s.request_id.clone())
                    .collect();
                let touched = request
                    .touches
                    .iter()
                    .map(|t| t.request_id.clone())
                    .collect();
                state.settled.extend(request.settlements);
                state.touched.extend(request.touches);
                Ok(RecordResponse { settled, touched })
            })
        };
        Ok(Response::new(request.into_inner().map(answer).boxed()))
    }

    async fn watch_changes(
        &self,
        _: Request<WatchChangesRequest>,
    ) -> Result<Response<Self::WatchChangesStream>, Status> {
        Ok(Response::new(stream::pending().boxed()))
    }
}
