//! Memory: idle, and of an open slow stream.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use crate::caller::Record;
use crate::load::{Load, Until};
use crate::target::Target;
use crate::workload::Workload;

/// How long memory may settle before it is read.
const SETTLE: Duration = Duration::from_secs(1);

/// In which time the streams are opened. A connection without a request is closed after 10 s.
const OPENING: Duration = Duration::from_secs(3);

/// A target's memory, bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// Of each process, before any load.
    pub idle: Vec<(String, u64)>,
    /// Of each store, before any load.
    pub stores_idle: Vec<(String, u64)>,
    /// Of each process before the streams are opened, after a few requests.
    pub before_streams: Vec<(String, u64)>,
    /// Of each process while the streams are open.
    pub with_streams: Vec<(String, u64)>,
    /// Streams that were open.
    pub streams: usize,
}

impl Memory {
    pub fn idle_bytes(&self) -> u64 {
        total(&self.idle)
    }

    /// What an open stream adds, all processes together.
    pub fn bytes_per_stream(&self) -> f64 {
        let added = total(&self.with_streams).saturating_sub(total(&self.before_streams));
        added as f64 / self.streams.max(1) as f64
    }
}

fn total(of: &[(String, u64)]) -> u64 {
    of.iter().map(|(_, bytes)| bytes).sum()
}

/// Of a target that nobody has asked yet.
pub fn idle(target: &Target) -> anyhow::Result<Memory> {
    std::thread::sleep(SETTLE);
    Ok(Memory {
        idle: target.resident()?,
        stores_idle: target.stores_resident()?,
        ..Memory::default()
    })
}

/// Opens the streams, reads memory while all of them are open, and reads them to their ends. Returns the right answers.
pub fn with_streams(
    target: &Target,
    workload: Workload,
    streams: usize,
    memory: &mut Memory,
) -> anyhow::Result<u64> {
    let (question, expected) = target
        .known
        .get(&workload)
        .context("the workload was not asked before")?;
    let load = Load {
        question: question.clone(),
        expected: expected.clone(),
        callers: streams,
        until: Until::Each {
            requests: 1,
            unrecorded: 1,
            stagger: OPENING / u32::try_from(streams.max(1))?,
        },
        record: Record::Nothing,
        duration: workload.duration() * 2,
    };
    memory.before_streams = target.resident()?;
    let running = load.prepare()?.go();
    let begin = Instant::now();
    while running.opened() < streams && !running.is_finished() && begin.elapsed() < load.duration {
        std::thread::sleep(Duration::from_millis(20));
    }
    if running.opened() == streams {
        std::thread::sleep(SETTLE);
        memory.with_streams = target.resident()?;
        memory.streams = streams;
    }
    let all_open = !running.is_finished();
    let (seen, _) = running.finish()?;
    anyhow::ensure!(
        memory.streams == streams && all_open,
        "{}: {streams} streams were never open at once",
        target.kind
    );
    Ok(seen.right)
}
