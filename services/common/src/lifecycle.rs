//! Start and end of a process's parts: two-phase shutdown and tracked tasks.
//!
//! `stopping` says "take nothing new, finish what runs"; `killed` says "stop now, settle what can be settled". Every task
//! is tracked, so that shutdown knows when all have ended; a bare `tokio::spawn` is banned.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A part's life. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    stopping: CancellationToken,
    killed: CancellationToken,
    tasks: TaskTracker,
    running: Running,
}

/// How many tasks of each name run.
#[derive(Clone, Debug, Default)]
struct Running(Arc<Mutex<BTreeMap<&'static str, usize>>>);

/// One running task's part in the count.
struct Counted(Running, &'static str);

impl Running {
    fn enter(&self, name: &'static str) -> Counted {
        *self.0.lock().entry(name).or_default() += 1;
        Counted(self.clone(), name)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(count) = self.0.0.lock().get_mut(self.1) {
            *count -= 1;
        }
    }
}

impl Lifecycle {
    /// A life of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A life that ends with this one, or earlier, and has its own tasks.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            stopping: self.stopping.child_token(),
            killed: self.killed.child_token(),
            tasks: TaskTracker::new(),
            running: Running::default(),
        }
    }

    /// Runs a task that shutdown waits for. An end that has to wait names it. A large future is boxed by who spawns it: it is
    /// moved several times on its way.
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let counted = self.running.enter(name);
        self.tasks.spawn(task.map(move |output| {
            drop(counted);
            output
        }))
    }

    /// Runs blocking work for as long as it takes, on a thread of its own; shutdown waits for it as for a task.
    pub fn spawn_blocking<F>(&self, name: &'static str, work: F)
    where
        F: FnOnce() + Send + 'static,
    {
        let counted = self.running.enter(name);
        self.tasks.spawn_blocking(move || {
            work();
            drop(counted);
        });
    }

    /// Cancelled when nothing new is to be taken.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Cancelled when the grace period is over.
    #[must_use]
    pub fn killed(&self) -> CancellationToken {
        self.killed.clone()
    }

    /// Names of the tasks that run.
    #[must_use]
    pub fn running(&self) -> Vec<&'static str> {
        let running = self.running.0.lock();
        running
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(name, _)| *name)
            .collect()
    }

    /// How many tasks run.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// First phase: take nothing new.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Second phase: stop now.
    pub fn kill(&self) {
        self.stopping.cancel();
        self.killed.cancel();
    }

    /// Both phases: tasks get `grace` to finish, then `last` to stop. Tells whether all ended.
    pub async fn shutdown(&self, grace: Duration, last: Duration) -> bool {
        self.stop();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_ok() {
            self.killed.cancel();
            return true;
        }
        tracing::warn!(tasks = ?self.running(), "the grace period is over; stopping what still runs");
        self.kill();
        if tokio::time::timeout(last, self.tasks.wait()).await.is_ok() {
            return true;
        }
        tracing::warn!(tasks = ?self.running(), "tasks did not end in time");
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_gets_its_grace_and_is_then_told_to_stop() {
        let life = Lifecycle::new();
        let killed = life.killed();
        life.spawn("stubborn", async move { killed.cancelled().await });
        assert!(
            life.shutdown(Duration::from_secs(5), Duration::from_secs(1))
                .await
        );
        assert!(life.stopping().is_cancelled());
        assert_eq!(life.tasks(), 0);
    }

    #[test]
    fn a_child_ends_with_its_parent_but_not_the_other_way() {
        let parent = Lifecycle::new();
        let child = parent.child();
        child.stop();
        assert!(!parent.stopping().is_cancelled());
        parent.kill();
        assert!(child.killed().is_cancelled());
    }
}
