//! The requests that run now: for signs of life, for shutdown, and for the harness's question what is left over.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use switchboard_common::{clock::SharedClock, lifecycle::Lifecycle};
use switchboard_proto::{
    billing::v1::{Settlement, Touch},
    scheduler::v1::{LeaseUpdate, Renewal, lease_update::Update},
};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::{
    asked::Question,
    config::Config,
    courier::Courier,
    domain::settlement::Story,
    journal::{Draft, Journal, Written},
    pipe::{Stop, Stopper},
    routes::{Lease, Money},
    tokens::{Prompt, Tokens},
};

/// A request that runs. Written by its task, read by signs of life.
pub(crate) struct Live {
    arrived_us: i64,
    clock: SharedClock,
    stopper: Stopper,
    story: Mutex<Story>,
    lease: Mutex<Option<Renewal>>,
    /// It is being settled. Written under the story's lock.
    closed: AtomicBool,
    content_bytes: AtomicU64,
    /// What it asks, until that is counted or the request is settled.
    prompt: Mutex<Option<Prompt>>,
    /// When an attempt was first sent, microseconds since arrival plus one; 0: not yet.
    sent_us: AtomicU64,
    /// The line of the attempt that was sent, while nobody has waited for it.
    written: Mutex<Option<Written>>,
}

impl Live {
    /// Microseconds since the request's arrival.
    pub(crate) fn elapsed_us(&self) -> u64 {
        u64::try_from(self.clock.now_us() - self.arrived_us).unwrap_or(0)
    }

    /// Now, Unix milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Reads or changes what is known of the request. Never across an await.
    pub(crate) fn story<T>(&self, change: impl FnOnce(&mut Story) -> T) -> T {
        change(&mut self.story.lock())
    }

    /// Text that the caller has by now, bytes.
    pub(crate) fn set_content(&self, bytes: u64) {
        self.content_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What the lease holds from now on.
    pub(crate) fn set_lease(&self, lease: Option<Renewal>) {
        *self.lease.lock() = lease;
    }

    /// What the lease holds.
    pub(crate) fn lease(&self) -> Option<Renewal> {
        self.lease.lock().clone()
    }

    /// What it asks of a model.
    pub(crate) fn asks(&self, prompt: Prompt) {
        *self.prompt.lock() = Some(prompt);
    }

    /// What it asks, once, when it runs for `after` since it was sent and nobody has told its input.
    fn to_count(&self, after: Duration) -> Option<Prompt> {
        let sent_us = self.sent_us.load(Ordering::Relaxed).checked_sub(1)?;
        let running = Duration::from_micros(self.elapsed_us().saturating_sub(sent_us));
        if running < after || self.story(|story| story.knows_input()) {
            return None;
        }
        self.prompt.lock().take()
    }

    /// The settlement comes next: no draft of this request will follow it.
    pub(crate) fn close(&self) {
        *self.prompt.lock() = None;
        let _story = self.story.lock();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Writes down how far the request is, after `change`: what to settle if nothing more is heard of it. `None` when it
    /// is being settled already. In the journal only when something was sent: before that nothing is owed.
    pub(crate) fn note(
        &self,
        journal: &Journal,
        change: impl FnOnce(&mut Story),
    ) -> Option<Settlement> {
        // Under the lock, so that it comes before the settlement. It never waits.
        self.draft(change, |draft, sent| {
            if sent {
                journal.draft(draft.clone());
            }
            draft.settlement
        })
    }

    /// Writes down that an attempt was sent, and what it asks. Before anything of its answer goes to the caller,
    /// [`Live::written`].
    pub(crate) fn note_sent(
        &self,
        journal: &Journal,
        question: Option<Question>,
        change: impl FnOnce(&mut Story),
    ) {
        let now = self.elapsed_us().saturating_add(1);
        let _ = self
            .sent_us
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.draft(change, |draft, sent| {
            if sent {
                *self.written.lock() = Some(journal.sent(Draft { question, ..draft }));
            }
        });
    }

    /// Waits until the line of the attempt that was sent is out of this process, so that a process that is killed leaves
    /// no answer unbilled (BILL-5). Mostly it is, long before the upstream answers.
    pub(crate) async fn written(
        &self,
        journal: &Journal,
        question: impl FnOnce() -> Option<Question>,
    ) {
        let line = self.written.lock().take();
        let Some(line) = line else {
            return;
        };
        if line.wait().await || journal.refuses() {
            return;
        }
        // It was left out under a flood.
        if let Some(draft) = self.draft(|_| (), |draft, _| draft) {
            let draft = Draft {
                question: question(),
                ..draft
            };
            Box::pin(journal.write_down(draft)).await;
        }
    }

    /// A sign of life for billing, with a draft after `change`; `None` when there is nothing for it to keep. A request that still
    /// waits for an account keeps its hold by it and has no draft: it has no row if nothing more is heard of it.
    fn touch(&self, journal: &Journal, change: impl FnOnce(&mut Story)) -> Option<Money> {
        let (mut held_nanos, mut held_tokens, mut tenant) = (0, 0, String::new());
        let (mut held, mut admitted) = (false, false);
        let draft = self.note(journal, |story| {
            change(story);
            (held, admitted) = (story.held, story.admitted);
            (held_nanos, held_tokens) = (story.held_nanos, story.held_tokens);
            tenant.clone_from(&story.party.tenant);
        })?;
        // A hold of nothing counts, too (a postpaid tenant without budgets): billing settles from its draft.
        held.then(|| {
            Money::Touch(Box::new(Touch {
                request_id: draft.request_id.clone(),
                tenant,
                held_nanos,
                held_tokens,
                draft: admitted.then_some(draft),
            }))
        })
    }

    /// Gives a draft away, and whether anything was sent, while the story cannot change.
    fn draft<T>(
        &self,
        change: impl FnOnce(&mut Story),
        give: impl FnOnce(Draft, bool) -> T,
    ) -> Option<T> {
        let mut story = self.story.lock();
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        change(&mut story);
        if story.free {
            return None;
        }
        story.content_bytes = self.content_bytes.load(Ordering::Relaxed);
        let draft = Draft {
            settlement: story.draft(self.elapsed_us()),
            input_known: story.knows_input(),
            question: None,
        };
        let sent = story.attempts.iter().any(|attempt| attempt.sent);
        Some(give(draft, sent))
    }
}

/// All of them.
pub(crate) struct Roster {
    live: Mutex<HashMap<String, Arc<Live>>>,
    clock: SharedClock,
    stopping: CancellationToken,
    drained: CancellationToken,
}

/// A place in the roster, given back when dropped.
pub(crate) struct Place {
    roster: Arc<Roster>,
    id: String,
    live: Arc<Live>,
}

impl std::ops::Deref for Place {
    type Target = Arc<Live>;

    fn deref(&self) -> &Arc<Live> {
        &self.live
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut live = self.roster.live.lock();
        // The id may be a caller's who repeats it: only the own entry goes.
        if live
            .get(&self.id)
            .is_some_and(|entry| Arc::ptr_eq(entry, &self.live))
        {
            live.remove(&self.id);
        }
        let empty = live.is_empty();
        drop(live);
        self.roster.check(empty);
    }
}

impl Roster {
    pub(crate) fn new(clock: SharedClock, lifecycle: &Lifecycle) -> Arc<Self> {
        let roster = Arc::new(Self {
            live: Mutex::default(),
            clock,
            stopping: lifecycle.stopping(),
            drained: CancellationToken::new(),
        });
        let (watched, killed) = (Arc::clone(&roster), lifecycle.killed());
        lifecycle.spawn("roster", async move {
            watched.stopping.cancelled().await;
            watched.check(watched.len() == 0);
            tokio::select! {
                () = killed.cancelled() => watched.stop_all(),
                () = watched.drained.cancelled() => {}
            }
        });
        roster
    }

    /// Enters a request; `None` when one with this id runs already, or nothing new is taken.
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: &str,
        arrived_us: i64,
        stopper: Stopper,
    ) -> Option<Place> {
        let entry = Arc::new(Live {
            arrived_us,
            clock: Arc::clone(&self.clock),
            stopper,
            story: Mutex::default(),
            lease: Mutex::default(),
            closed: AtomicBool::new(false),
            content_bytes: AtomicU64::new(0),
            prompt: Mutex::default(),
            sent_us: AtomicU64::new(0),
            written: Mutex::default(),
        });
        let mut live = self.live.lock();
        if self.stopping.is_cancelled() || live.contains_key(id) {
            return None;
        }
        live.insert(id.to_owned(), Arc::clone(&entry));
        drop(live);
        Some(Place {
            roster: Arc::clone(self),
            id: id.to_owned(),
            live: entry,
        })
    }

    /// How many run.
    pub(crate) fn len(&self) -> usize {
        self.live.lock().len()
    }

    /// Cancelled when nothing runs and nothing new is taken.
    pub(crate) fn drained(&self) -> CancellationToken {
        self.drained.clone()
    }

    /// Whether nothing new is taken.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    fn check(&self, empty: bool) {
        if empty && self.stopping.is_cancelled() {
            self.drained.cancel();
        }
    }

    fn stop_all(&self) {
        for live in self.all() {
            live.stopper.stop(Stop::Shutdown);
        }
    }

    fn all(&self) -> Vec<Arc<Live>> {
        self.live.lock().values().cloned().collect()
    }

    /// Shows signs of life until nothing runs any more.
    pub(crate) async fn show_life(
        self: Arc<Self>,
        config: Config,
        leases: Courier<Lease>,
        money: Courier<Money>,
        journal: Journal,
    ) {
        let mut renew = every(config.lease_renew);
        let mut progress = every(config.progress);
        loop {
            tokio::select! {
                _ = renew.tick() => leases.pass(self.renewals()),
                _ = progress.tick() => money.pass(self.touches(&journal)),
                () = self.drained.cancelled() => return,
            }
        }
    }

    fn renewals(&self) -> Vec<Lease> {
        let renewal = |live: Arc<Live>| {
            let lease = live.lease()?;
            let (request_id, tenant) =
                live.story(|story| (story.request_id.clone(), story.party.tenant.clone()));
            Some(Lease(LeaseUpdate {
                request_id,
                tenant,
                update: Some(Update::Renewal(lease)),
            }))
        };
        self.all().into_iter().filter_map(renewal).collect()
    }

    fn touches(&self, journal: &Journal) -> Vec<Money> {
        let touch = |live: Arc<Live>| live.touch(journal, |_| ());
        self.all().into_iter().filter_map(touch).collect()
    }

    /// Counts the input of what runs for long, one by one: so much counting never holds up a settlement's.
    pub(crate) async fn count_prompts(
        self: Arc<Self>,
        config: Config,
        tokens: Tokens,
        money: Courier<Money>,
        journal: Journal,
        done: Counter,
    ) {
        let mut ticks = every(config.count_after / 2);
        let bound = config.count_input;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.drained.cancelled() => return,
            }
            for live in self.all() {
                let Some(prompt) = live.to_count(config.count_after) else {
                    continue;
                };
                let counted = tokens.run(move || prompt.tokens(bound)).await;
                if counted.is_some() {
                    let touch = live.touch(&journal, |story| story.counted_input = counted);
                    money.pass_too(touch);
                    done.inc();
                }
            }
        }
    }
}

/// Ticks that do not catch up.
fn every(period: Duration) -> tokio::time::Interval {
    let period = period.max(Duration::from_millis(1));
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
