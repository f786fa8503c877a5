//! Callers in a closed loop, on threads of their own: a thread runs its callers and their connections, so that the load
//! generator wakes no other thread in the middle of a measurement.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use crate::caller::{Caller, Record, Seen};
use crate::workload::{Expected, Question};

/// How long the last answers may take beyond the time of the load itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long callers go on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Nobody asks again after this time.
    Elapsed(Duration),
    /// So many requests each; the first `unrecorded` of them are not measured, and each caller begins `stagger` after
    /// the one before.
    Each {
        requests: usize,
        unrecorded: usize,
        stagger: Duration,
    },
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Load {
    pub question: Question,
    pub expected: Expected,
    pub callers: usize,
    pub until: Until,
    pub record: Record,
    /// How long all this should take.
    pub duration: Duration,
}

/// Callers that are connected and wait for the start.
pub struct Prepared {
    go: Arc<Barrier>,
    opened: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<anyhow::Result<Seen>>>,
}

/// Callers at work.
pub struct Running {
    begin: Instant,
    opened: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<anyhow::Result<Seen>>>,
}

impl Load {
    /// Connects all callers.
    pub fn prepare(&self) -> anyhow::Result<Prepared> {
        let threads = self.callers.clamp(1, 2);
        let connected = Arc::new(Barrier::new(threads + 1));
        let go = Arc::new(Barrier::new(threads + 1));
        let opened = Arc::new(AtomicUsize::new(0));
        let start = |thread: usize| {
            let (load, opened) = (self.clone(), Arc::clone(&opened));
            let (connected, go) = (Arc::clone(&connected), Arc::clone(&go));
            let numbers = (thread..self.callers).step_by(threads).collect();
            std::thread::Builder::new()
                .name(format!("load-{thread}"))
                .spawn(move || load.work(numbers, &opened, &connected, &go))
        };
        let threads = (0..threads).map(start).collect::<Result<_, _>>()?;
        connected.wait();
        Ok(Prepared {
            go,
            opened,
            threads,
        })
    }

    /// One thread's part. It comes to both barriers whatever happens.
    fn work(
        self,
        numbers: Vec<usize>,
        opened: &Arc<AtomicUsize>,
        connected: &Barrier,
        go: &Barrier,
    ) -> anyhow::Result<Seen> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let callers = runtime.as_ref().ok().map(|runtime| {
            runtime.block_on(async {
                let mut callers = Vec::with_capacity(numbers.len());
                for number in numbers {
                    callers.push((number, Caller::connect(self.question.addr).await?));
                }
                anyhow::Ok(callers)
            })
        });
        connected.wait();
        go.wait();
        let (runtime, callers) = (runtime?, callers.context("no runtime")??);
        let load = Arc::new(self);
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (number, caller) in callers {
                tasks.spawn(Arc::clone(&load).call(number, caller, Arc::clone(opened)));
            }
            let mut seen = Seen::default();
            while let Some(one) = tasks.join_next().await {
                seen.add(one?);
            }
            Ok(seen)
        })
    }

    /// One caller's part; it stops at the first wrong answer.
    async fn call(
        self: Arc<Self>,
        number: usize,
        mut caller: Caller,
        opened: Arc<AtomicUsize>,
    ) -> Seen {
        let mut seen = Seen::default();
        let work = async {
            let begin = Instant::now();
            let (requests, unrecorded) = match self.until {
                Until::Elapsed(_) => (usize::MAX, 0),
                Until::Each {
                    requests,
                    unrecorded,
                    stagger,
                } => {
                    let before = u32::try_from(number).unwrap_or(u32::MAX);
                    tokio::time::sleep(stagger * before).await;
                    (requests, unrecorded)
                }
            };
            for request in 0..requests {
                if matches!(self.until, Until::Elapsed(time) if begin.elapsed() >= time) {
                    break;
                }
                let record = if request < unrecorded {
                    Record::Nothing
                } else {
                    self.record
                };
                caller
                    .ask(&self.question, &self.expected, record, &mut seen, &opened)
                    .await?;
            }
            anyhow::Ok(())
        };
        let problem = match tokio::time::timeout(self.duration + PATIENCE, work).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some(format!(
                "no end {PATIENCE:?} after the load should have ended"
            )),
        };
        seen.problems.extend(problem);
        seen
    }
}

impl Prepared {
    pub fn go(self) -> Running {
        self.go.wait();
        Running {
            begin: Instant::now(),
            opened: self.opened,
            threads: self.threads,
        }
    }
}

impl Running {
    /// Answers of which at least one token has arrived.
    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all callers; also tells how long it took. A wrong answer is an error.
    pub fn finish(self) -> anyhow::Result<(Seen, Duration)> {
        let mut seen = Seen::default();
        for thread in self.threads {
            let one = thread.join();
            seen.add(one.map_err(|_| anyhow::anyhow!("a load thread panicked"))??);
        }
        let took = self.begin.elapsed();
        if let Some(first) = seen.problems.first() {
            anyhow::bail!(
                "{} callers got no right answer (after {} right ones); one of them: {first}",
                seen.problems.len(),
                seen.right
            );
        }
        Ok((seen, took))
    }
}
