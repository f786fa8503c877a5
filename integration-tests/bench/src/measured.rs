//! What is measured, and what it came to: slices of time, their figures by target, and the noise between rounds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::arguments::Kind;
use crate::figures::{Times, median};
use crate::memory::Memory;
use crate::workload::Workload;

/// Callers where callers compete.
const MANY: usize = 16;
/// Streams at once where tokens come at a pace.
const PACED: usize = 200;

/// One kind of slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Slice {
    pub workload: Workload,
    pub callers: usize,
}

impl Slice {
    pub const ALONE: Self = Self::new(Workload::Whole, 1);
    pub const WHOLE: Self = Self::new(Workload::Whole, MANY);
    pub const LARGE: Self = Self::new(Workload::Large, 1);
    pub const CHUNKS: Self = Self::new(Workload::Chunks, MANY);
    pub const BURST: Self = Self::new(Workload::Burst, MANY);
    pub const TRANSLATED: Self = Self::new(Workload::Translated, MANY);
    pub const PACED: Self = Self::new(Workload::Paced, PACED);
    pub const ALL: [Self; 7] = [
        Self::ALONE,
        Self::WHOLE,
        Self::LARGE,
        Self::CHUNKS,
        Self::BURST,
        Self::TRANSLATED,
        Self::PACED,
    ];

    const fn new(workload: Workload, callers: usize) -> Self {
        Self { workload, callers }
    }

    /// By its name on the command line.
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "alone" => Self::ALONE,
            "whole" => Self::WHOLE,
            "large" => Self::LARGE,
            "chunks" => Self::CHUNKS,
            "burst" => Self::BURST,
            "translated" => Self::TRANSLATED,
            "paced" => Self::PACED,
            _ => {
                let names = "expected alone, whole, large, chunks, burst, translated or paced";
                return Err(names.to_owned());
            }
        })
    }

    pub fn name(self) -> &'static str {
        match self.workload {
            Workload::Whole if self.callers == 1 => "whole answers, 1 caller",
            Workload::Whole => "whole answers, 16 callers",
            Workload::Large => "whole answers to 1 MiB, 1 caller",
            Workload::Chunks => "streams of 100 tokens, a write each, 16 callers",
            Workload::Burst => "streams of 100 tokens in one write, 16 callers",
            Workload::Translated => "streams of 101 tokens, translated, 16 callers",
            Workload::Paced => "200 streams of a token each 20 ms",
            Workload::Slow { .. } => "slow streams",
        }
    }
}

/// What one slice of one target, or many of them, came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Taken {
    pub answers: u64,
    pub answers_per_second: f64,
    pub latency: Times,
    pub first_token: Times,
    pub gap: Times,
    /// CPU of all gateway processes, µs an answer.
    pub cpu_us: f64,
    /// CPU of the stores, µs an answer.
    pub stores_cpu_us: f64,
    /// By process, stores last.
    pub processes: Vec<ProcessTaken>,
}

/// One process's part, by answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessTaken {
    pub name: String,
    pub user_us: f64,
    pub system_us: f64,
    /// How often its threads went to sleep.
    pub sleeps: f64,
}

impl Taken {
    /// The median of each figure, and the least disturbed tails. `rounds` have the same processes in the same order.
    pub fn over(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        let times = |figure: fn(&Self) -> Times| {
            Times::over(&rounds.iter().map(figure).collect::<Vec<_>>())
        };
        let names = rounds.first().map_or(&[][..], |first| &first.processes);
        let process = |(index, process): (usize, &ProcessTaken)| {
            let of = |figure: fn(&ProcessTaken) -> f64| {
                median(
                    rounds
                        .iter()
                        .filter_map(|round| round.processes.get(index))
                        .map(figure),
                )
            };
            ProcessTaken {
                name: process.name.clone(),
                user_us: of(|process| process.user_us),
                system_us: of(|process| process.system_us),
                sleeps: of(|process| process.sleeps),
            }
        };
        Self {
            answers: rounds.iter().map(|round| round.answers).sum(),
            answers_per_second: of(|round| round.answers_per_second),
            latency: times(|round| round.latency),
            first_token: times(|round| round.first_token),
            gap: times(|round| round.gap),
            cpu_us: of(|round| round.cpu_us),
            stores_cpu_us: of(|round| round.stores_cpu_us),
            processes: names.iter().enumerate().map(process).collect(),
        }
    }
}

/// How much the bare proxy differs from itself: what a difference below this is worth.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Noise {
    pub cpu: f64,
    pub latency_p50: f64,
    pub first_token_p99: f64,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Measured {
    pub slices: BTreeMap<Slice, BTreeMap<Kind, Taken>>,
    pub noise: BTreeMap<Slice, Noise>,
    pub memory: BTreeMap<Kind, Memory>,
    /// Start to ready, seconds: on an empty directory, on an existing one.
    pub ready_seconds: Option<(f64, f64)>,
}
