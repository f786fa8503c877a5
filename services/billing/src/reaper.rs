//! Holds of which nothing was heard for long: settled provisionally from their last draft, or given back (BILL-5).
//!
//! Any number of replicas may do it at the same time: the dedup row lets one of them book. Nothing is reaped within the grace
//! after our own start, the database's recovery or the state store's loss: then silence is ours, not the forwarders'.

use std::time::Duration;

use prost::Message as _;
use switchboard_common::lifecycle::Lifecycle;
use switchboard_proto::billing::v1::{Ending, Party, Settlement};
use switchboard_state::{State, purses::StaleHold};
use tokio::sync::oneshot;

use crate::{
    config::Config,
    observation::OutcomeLabel,
    reservation::Reservations,
    settlement::{Ack, Settler},
};

/// Holds of one round at most.
const AT_ONCE: usize = 256;

/// Looks for silent holds.
pub(crate) struct Reaper {
    reservations: Reservations,
    settler: Settler,
    state: State,
    silence: Duration,
    grace_ms: i64,
    started_ms: i64,
}

impl Reaper {
    /// Starts the task.
    pub(crate) fn start(
        config: &Config,
        reservations: Reservations,
        settler: Settler,
        state: State,
        lifecycle: &Lifecycle,
    ) {
        let started_ms = reservations.clock.now_ms();
        let reaper = Self {
            reservations,
            settler,
            state,
            silence: config.silence,
            grace_ms: i64::try_from(config.reaper_grace.as_millis()).unwrap_or(i64::MAX),
            started_ms,
        };
        let (interval, stopping) = (config.reaper_interval, lifecycle.stopping());
        lifecycle.spawn("reaper", async move {
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(interval) => {}
                }
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = Box::pin(reaper.round()) => {}
                }
            }
        });
    }

    async fn round(&self) {
        match self.reservations.purses.open_holds().await {
            Ok(open) => {
                self.reservations
                    .observation
                    .holds_open
                    .set(i64::try_from(open).unwrap_or(i64::MAX));
            }
            // The state store's own breaker tells.
            Err(_) => return,
        }
        if self.in_grace() {
            return;
        }
        let silence = u64::try_from(self.silence.as_millis()).unwrap_or(u64::MAX);
        match self.reservations.purses.stale(silence, AT_ONCE).await {
            Ok(stale) => self.reap(stale).await,
            Err(error) => tracing::warn!(%error, "silent holds cannot be looked for"),
        }
    }

    fn in_grace(&self) -> bool {
        let last = self
            .started_ms
            .max(self.settler.recovered_ms())
            .max(self.state.status().recovered_ms);
        self.reservations.clock.now_ms().saturating_sub(last) < self.grace_ms
    }

    async fn reap(&self, stale: Vec<StaleHold>) {
        let mut waiting = Vec::new();
        for hold in stale {
            match draft(&hold) {
                Some(draft) => {
                    tracing::warn!(
                        request_id = %hold.request,
                        silent_ms = hold.silent_ms,
                        "nothing was heard of a request; it is settled provisionally"
                    );
                    let (sender, settled) = oneshot::channel();
                    if self
                        .settler
                        .submit(draft, Ack::Waiter(sender))
                        .await
                        .is_err()
                    {
                        return;
                    }
                    self.count("settled");
                    waiting.push(settled);
                }
                None => self.end(&hold).await,
            }
        }
        for settled in waiting {
            // The settler is gone when the service stops.
            let _ = settled.await;
        }
    }

    /// Nothing was sent, as far as we know. A hold that outlived its settlement (a crash between commit and script) ends with
    /// the settlement's values.
    async fn end(&self, hold: &StaleHold) {
        let ended = match self.reservations.store.settled_party(hold.request).await {
            Ok(None) => {
                tracing::warn!(request_id = %hold.request, silent_ms = hold.silent_ms, "nothing was heard of a hold; it is given back");
                self.count("voided");
                let voided = self
                    .reservations
                    .purses
                    .void(&hold.tenant, hold.request)
                    .await;
                voided.map_err(|error| error.to_string())
            }
            Ok(Some(party)) => {
                self.count("ended");
                self.end_settled(&party, hold).await
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = ended {
            tracing::warn!(request_id = %hold.request, error, "a silent hold cannot be ended yet");
        }
    }

    async fn end_settled(&self, party: &Party, hold: &StaleHold) -> Result<(), String> {
        let purses = self.reservations.purses(party, hold.request, true).await;
        let purses = purses.map_err(|failure| failure.to_string())?;
        let purses: Vec<_> = purses.iter().collect();
        let values = self.reservations.values(&party.tenant, &purses).await;
        let values = values.map_err(|error| error.to_string())?;
        self.reservations
            .purses
            .settle(&hold.tenant, &[hold.request], &values)
            .await
            .map_err(|error| error.to_string())
    }

    fn count(&self, outcome: &'static str) {
        self.reservations
            .observation
            .reaped
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
    }
}

/// What is to be settled, if the hold knows.
fn draft(hold: &StaleHold) -> Option<Settlement> {
    let bytes = hold.draft.as_ref().filter(|draft| !draft.is_empty())?;
    let mut draft = match Settlement::decode(bytes.clone()) {
        Ok(draft) => draft,
        Err(error) => {
            tracing::error!(request_id = %hold.request, %error, "a hold's draft cannot be read");
            return None;
        }
    };
    // Another request's draft must not be settled for this hold.
    if draft.request_id != hold.request.to_string() {
        tracing::error!(request_id = %hold.request, "a hold's draft is another request's");
        return None;
    }
    draft.provisional = true;
    draft.set_ending(Ending::GatewayLost);
    Some(draft)
}
