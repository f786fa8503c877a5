//! The waiting room (FLOW-4): who waits, in which order, and for what.
//!
//! There is a line for each model and group that waits for supply, one more for each tenant with its own choice of accounts for
//! the model or account that alone can serve, and one for each limit of a tenant that is full, so that who waits for what others do not need stands in nobody's
//! way. Lines are served by age. Only the first of a line tries; when it is
//! served the next one is woken. A waiter holds its place and nothing else; dropping its ticket leaves at once.
//!
//! Bounded: so many per model, so many in all.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use switchboard_common::ids::{AccountName, GroupName, ModelName, TenantName};
use tokio::{sync::Notify, time::Instant};

use crate::{
    domain::{limits::Level, supply::Account},
    metrics::Counted,
};

/// What a line waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A slot at one of the accounts that serve the model to the group.
    Supply {
        /// The model.
        model: ModelName,
        /// The caller's group.
        group: GroupName,
        /// The tenant, where it has its own choice of accounts.
        tenant: Option<TenantName>,
        /// The account, where no other one can serve.
        account: Option<AccountName>,
    },
    /// A slot of a limit of the tenant's own.
    Limit {
        /// The tenant.
        tenant: TenantName,
        /// Whose of it.
        level: Level,
        /// Which one.
        id: Arc<str>,
    },
}

/// Why nobody more may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// The model's own queue is full.
    Model,
    /// All queues together are.
    Total,
}

/// Older first; of the same age, in the order of coming.
type Place = (i64, u64);

#[derive(Default)]
struct Queue {
    waiters: BTreeMap<Place, Arc<Notify>>,
    accounts: HashSet<AccountName>,
}

#[derive(Default)]
struct Lines {
    lines: HashMap<Line, Queue>,
    of_account: HashMap<AccountName, HashSet<Line>>,
    of_tenant: HashMap<TenantName, HashSet<Line>>,
    of_model: HashMap<ModelName, u32>,
    came: u64,
}

/// The waiting room of this process.
pub struct Room {
    lines: Mutex<Lines>,
    waiting: AtomicUsize,
    total: usize,
    counted: Counted,
}

/// Who asks to wait.
pub struct Waiter {
    /// For which model.
    pub model: ModelName,
    /// How many may wait for it.
    pub depth: u32,
    /// Its age: when the caller's request arrived, Unix milliseconds.
    pub arrived_ms: i64,
}

/// A place in a line.
pub struct Ticket {
    room: Arc<Room>,
    model: ModelName,
    line: Line,
    place: Place,
    notify: Arc<Notify>,
    accounts: Arc<[Arc<Account>]>,
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the first of its line and there may be something for it.
    Try,
    /// It waited as long as it may.
    TimeUp,
}

impl Room {
    /// An empty room for at most `total`.
    #[must_use]
    pub fn new(total: usize, counted: Counted) -> Self {
        Self {
            lines: Mutex::default(),
            waiting: AtomicUsize::new(0),
            total,
            counted,
        }
    }

    /// Whether nobody waits at all; costs a load.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// The first of these lines in which someone waits: a newcomer has to stand behind.
    #[must_use]
    pub fn busy<'a>(&self, lines: impl IntoIterator<Item = &'a Line>) -> Option<&'a Line> {
        let present = self.lines.lock();
        lines
            .into_iter()
            .find(|line| present.lines.contains_key(line))
    }

    /// Joins a line. `accounts` are those that may serve it; of a limit's line they are not used.
    ///
    /// # Errors
    /// It is crowded.
    pub fn enter(
        self: &Arc<Self>,
        waiter: &Waiter,
        line: Line,
        accounts: Arc<[Arc<Account>]>,
    ) -> Result<Ticket, Crowded> {
        let mut lines = self.lines.lock();
        if self.waiting.load(Ordering::Acquire) >= self.total {
            return Err(Crowded::Total);
        }
        let of_model = lines.of_model.entry(waiter.model.clone()).or_default();
        if *of_model >= waiter.depth {
            if *of_model == 0 {
                lines.of_model.remove(&waiter.model);
            }
            return Err(Crowded::Model);
        }
        *of_model += 1;
        lines.came += 1;
        let ticket = Ticket {
            room: Arc::clone(self),
            model: waiter.model.clone(),
            line,
            place: (waiter.arrived_ms, lines.came),
            notify: Arc::default(),
            accounts,
        };
        lines.join(&ticket);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.counted.queue_waiters.inc();
        Ok(ticket)
    }

    /// A slot of this account may be free.
    pub fn wake_account(&self, account: &AccountName) {
        if !self.is_empty() {
            let lines = self.lines.lock();
            lines.wake(lines.of_account.get(account.as_str()));
        }
    }

    /// A slot of this tenant may be free.
    pub fn wake_tenant(&self, tenant: &TenantName) {
        if !self.is_empty() {
            let lines = self.lines.lock();
            lines.wake(lines.of_tenant.get(tenant.as_str()));
        }
    }

    /// Anything may be free.
    pub fn wake_all(&self) {
        let lines = self.lines.lock();
        for queue in lines.lines.values() {
            queue.wake_first();
        }
    }
}

impl Queue {
    fn wake_first(&self) {
        if let Some((_, first)) = self.waiters.first_key_value() {
            first.notify_one();
        }
    }
}

impl Lines {
    /// Wakes the first of each line, the oldest first.
    fn wake(&self, lines: Option<&HashSet<Line>>) {
        let mut firsts: Vec<_> = lines
            .into_iter()
            .flatten()
            .filter_map(|line| self.lines.get(line)?.waiters.first_key_value())
            .collect();
        firsts.sort_unstable_by_key(|(place, _)| **place);
        for (_, first) in firsts {
            first.notify_one();
        }
    }

    fn join(&mut self, ticket: &Ticket) {
        let queue = self.lines.entry(ticket.line.clone()).or_default();
        queue
            .waiters
            .insert(ticket.place, Arc::clone(&ticket.notify));
        match &ticket.line {
            Line::Supply { .. } => {
                for account in &*ticket.accounts {
                    account.known.add_waiters(1);
                    if queue.accounts.insert(account.name.clone()) {
                        self.of_account
                            .entry(account.name.clone())
                            .or_default()
                            .insert(ticket.line.clone());
                    }
                }
            }
            Line::Limit { tenant, .. } => {
                self.of_tenant
                    .entry(tenant.clone())
                    .or_default()
                    .insert(ticket.line.clone());
            }
        }
        // Who comes first tries at once: what was given back meanwhile woke nobody.
        if queue.waiters.first_key_value().map(|(place, _)| *place) == Some(ticket.place) {
            ticket.notify.notify_one();
        }
    }

    fn part(&mut self, ticket: &Ticket) {
        if matches!(ticket.line, Line::Supply { .. }) {
            for account in &*ticket.accounts {
                account.known.add_waiters(-1);
            }
        }
        let Some(queue) = self.lines.get_mut(&ticket.line) else {
            return;
        };
        queue.waiters.remove(&ticket.place);
        if !queue.waiters.is_empty() {
            queue.wake_first();
            return;
        }
        let Some(queue) = self.lines.remove(&ticket.line) else {
            return;
        };
        for account in queue.accounts {
            forget(&mut self.of_account, &account, &ticket.line);
        }
        if let Line::Limit { tenant, .. } = &ticket.line {
            forget(&mut self.of_tenant, tenant, &ticket.line);
        }
    }
}

fn forget<K: std::hash::Hash + Eq>(index: &mut HashMap<K, HashSet<Line>>, key: &K, line: &Line) {
    if let Some(lines) = index.get_mut(key) {
        lines.remove(line);
        if lines.is_empty() {
            index.remove(key);
        }
    }
}

impl Ticket {
    /// The accounts that it waits for.
    #[must_use]
    pub fn accounts(&self) -> &[Arc<Account>] {
        &self.accounts
    }

    /// Goes over to another line with the age it has.
    pub fn go_to(&mut self, line: Line, accounts: Arc<[Arc<Account>]>) {
        if self.line == line {
            return;
        }
        let room = Arc::clone(&self.room);
        let mut lines = room.lines.lock();
        lines.part(self);
        self.line = line;
        self.accounts = accounts;
        lines.join(self);
    }

    /// Whether nobody stands before it.
    #[must_use]
    pub fn is_first(&self) -> bool {
        let lines = self.room.lines.lock();
        lines
            .lines
            .get(&self.line)
            .and_then(|queue| queue.waiters.first_key_value())
            .is_some_and(|(place, _)| *place == self.place)
    }

    /// Waits for its turn: woken as the first of its line, or, as the first, `poll` after the last try.
    pub async fn turn(&self, poll: Duration, until: Instant) -> Turn {
        loop {
            let first = self.is_first();
            tokio::select! {
                biased;
                () = self.notify.notified() => {
                    if self.is_first() {
                        return Turn::Try;
                    }
                }
                () = tokio::time::sleep_until(until) => return Turn::TimeUp,
                () = tokio::time::sleep(poll), if first => return Turn::Try,
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let room = Arc::clone(&self.room);
        let mut lines = room.lines.lock();
        lines.part(self);
        if let Some(waiting) = lines.of_model.get_mut(&self.model) {
            *waiting -= 1;
            if *waiting == 0 {
                lines.of_model.remove(&self.model);
            }
        }
        room.waiting.fetch_sub(1, Ordering::AcqRel);
        room.counted.queue_waiters.dec();
    }
}
