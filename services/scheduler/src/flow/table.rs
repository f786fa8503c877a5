//! Who holds a lease that this process granted, and who is asking for one: makes asking twice one lease, and remembers what a
//! release does not tell.
//!
//! Bounded by the leases alive: a lease that is not renewed leaves at its end.

use std::sync::Arc;

use dashmap::{DashMap, Entry};
use switchboard_common::ids::RequestId;
use switchboard_proto::scheduler::v1::Renewal;
use tokio::sync::Notify;

use crate::domain::known::AccountKnown;

/// What a request holds.
#[derive(Clone, Debug)]
pub struct Held {
    /// As it goes to the forwarder and comes back.
    pub lease: Renewal,
    /// The model's name at the account.
    pub upstream_model: String,
    /// What it was expected to use.
    pub tokens: u64,
    /// The account's cell.
    pub known: Option<Arc<AccountKnown>>,
    /// Unix milliseconds at which it ends.
    pub ends_ms: i64,
}

enum State {
    /// Someone asks; others wait for the answer.
    Asked(Option<Arc<Notify>>),
    Holds(Box<Held>),
}

/// All of them.
#[derive(Default)]
pub struct Table(DashMap<RequestId, State>);

/// How a request stands when it asks.
pub enum Claim<'a> {
    /// It is the only one that asks; dropping the claim lets others ask.
    Mine(Asking<'a>),
    /// It holds already.
    Held(Box<Held>),
}

/// The right to ask for a request.
pub struct Asking<'a> {
    table: &'a Table,
    request: RequestId,
    settled: bool,
}

impl Table {
    /// Claims a request; waits while another call asks for the same.
    pub async fn claim(&self, request: RequestId) -> Claim<'_> {
        loop {
            let wait = match self.0.entry(request) {
                Entry::Vacant(vacant) => {
                    vacant.insert(State::Asked(None));
                    return Claim::Mine(Asking {
                        table: self,
                        request,
                        settled: false,
                    });
                }
                Entry::Occupied(mut occupied) => match occupied.get_mut() {
                    State::Holds(held) => return Claim::Held(held.clone()),
                    State::Asked(others) => {
                        let notify = others.get_or_insert_with(Arc::default);
                        // Enabled before the entry is let go: no answer is missed.
                        Arc::clone(notify).notified_owned()
                    }
                },
            };
            wait.await;
        }
    }

    /// What a request holds.
    #[must_use]
    pub fn get(&self, request: RequestId) -> Option<Held> {
        match self.0.get(&request)?.value() {
            State::Holds(held) => Some(held.as_ref().clone()),
            State::Asked(_) => None,
        }
    }

    /// Stores what a request holds from now on; tells whether it is new here.
    pub fn hold(&self, request: RequestId, held: Held) -> bool {
        let before = self.0.insert(request, State::Holds(Box::new(held)));
        let held_before = matches!(before, Some(State::Holds(_)));
        wake(before);
        !held_before
    }

    /// Moves a lease's end; `None`: it is not known here.
    pub fn renewed(&self, request: RequestId, ends_ms: i64) -> Option<Renewal> {
        match self.0.get_mut(&request)?.value_mut() {
            State::Holds(held) => {
                held.ends_ms = ends_ms;
                Some(held.lease.clone())
            }
            State::Asked(_) => None,
        }
    }

    /// Forgets a lease.
    pub fn release(&self, request: RequestId) -> Option<Held> {
        let (_, state) = self
            .0
            .remove_if(&request, |_, state| matches!(state, State::Holds(_)))?;
        match state {
            State::Holds(held) => Some(*held),
            State::Asked(_) => None,
        }
    }

    /// Forgets leases that ended by themselves.
    pub fn expire(&self, now_ms: i64, mut ended: impl FnMut(&Held)) {
        self.0.retain(|_, state| match state {
            State::Holds(held) if held.ends_ms <= now_ms => {
                ended(held);
                false
            }
            State::Holds(_) | State::Asked(_) => true,
        });
    }
}

impl Asking<'_> {
    /// It holds from now on.
    pub fn hold(mut self, held: Held) {
        self.settled = true;
        self.table.hold(self.request, held);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let asked = self
            .table
            .0
            .remove_if(&self.request, |_, state| matches!(state, State::Asked(_)));
        wake(asked.map(|(_, state)| state));
    }
}

fn wake(state: Option<State>) {
    if let Some(State::Asked(Some(others))) = state {
        others.notify_waiters();
    }
}
