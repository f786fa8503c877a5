//! What waits for the journal's writer.
//!
//! The writer sleeps on a thread of its own and is woken seldom: by the first command after a silence, and by one that
//! someone waits for. What comes meanwhile is written along with it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Semaphore;

use super::Command;

/// Most records that are written together.
const BATCH: usize = 4_096;
/// Batches that follow each other this fast are those of a load under which one write for many counts more than when it is.
const CROWDED: Duration = Duration::from_micros(200);

/// The queue. Bounded in commands.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    room: Semaphore,
    /// Bytes that those who wait bring to be sealed, at most.
    most_asked: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    commands: VecDeque<Command>,
    /// Bytes that they bring to be sealed.
    asked: usize,
    /// Someone waits for one of them.
    hurry: bool,
    /// Nothing more will come.
    closed: bool,
    /// When the last batch was taken.
    taken: Option<Instant>,
}

impl Queue {
    /// At most `most` commands wait, with `most_asked` bytes to be sealed.
    pub(super) fn new(most: usize, most_asked: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            wake: Condvar::new(),
            room: Semaphore::new(most),
            most_asked,
        }
    }

    /// Adds a command if there is room.
    pub(super) fn try_push(&self, command: Command) {
        if let Ok(place) = self.room.try_acquire() {
            place.forget();
            self.add(command);
        }
    }

    /// Adds a command as soon as there is room. Without a writer it goes nowhere.
    pub(super) async fn push(&self, command: Command) {
        if let Ok(place) = self.room.acquire().await {
            place.forget();
            self.add(command);
        }
    }

    fn add(&self, mut command: Command) {
        let mut waiting = self.waiting.lock();
        if self.room.is_closed() {
            return;
        }
        waiting.asked += command.asked();
        if waiting.asked > self.most_asked {
            waiting.asked -= command.leave_out_asked();
        }
        let hurry = command.is_waited_for();
        let wake = waiting.commands.is_empty() || (hurry && !waiting.hurry);
        waiting.hurry |= hurry;
        waiting.commands.push_back(command);
        drop(waiting);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_one();
    }

    /// No writer is left: who waits for one waits no longer.
    pub(super) fn abandon(&self) {
        let mut waiting = self.waiting.lock();
        self.room.close();
        waiting.commands.clear();
    }

    /// The next commands: none when `patience` is over before any came; `None` when nothing more will come. Those that
    /// nobody waits for gather for a while.
    pub(super) fn take(
        &self,
        patience: Option<Duration>,
        gather: Duration,
    ) -> Option<VecDeque<Command>> {
        let mut waiting = self.waiting.lock();
        let nothing = |waiting: &mut Waiting| waiting.commands.is_empty() && !waiting.closed;
        match patience {
            None => self.wake.wait_while(&mut waiting, nothing),
            Some(patience) => {
                self.wake.wait_while_for(&mut waiting, nothing, patience);
            }
        }
        if waiting.commands.is_empty() {
            return (!waiting.closed).then(VecDeque::new);
        }
        let gathering = |waiting: &mut Waiting| {
            !waiting.hurry && !waiting.closed && waiting.commands.len() < BATCH
        };
        self.wake.wait_while_for(&mut waiting, gathering, gather);
        // Under load, whoever is about to run may have more to write. Else a yield could last as long as the others' time
        // slices, and a first token wait as long (PERF-2).
        if waiting.taken.is_some_and(|at| at.elapsed() < CROWDED) {
            MutexGuard::unlocked(&mut waiting, std::thread::yield_now);
        }
        waiting.taken = Some(Instant::now());
        waiting.hurry = false;
        waiting.asked = 0;
        let taken = std::mem::take(&mut waiting.commands);
        self.room.add_permits(taken.len());
        Some(taken)
    }
}
