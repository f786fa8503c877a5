//! The run: start everything, compare first answers, measure memory, then short slices of every target in rotation, round
//! after round, so that whatever disturbs the machine disturbs all of them; at last the books are compared.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;

use crate::answer;
use crate::arguments::{Kind, Run};
use crate::bounds;
use crate::caller::{Caller, Record};
use crate::carrying;
use crate::child::Child;
use crate::figures::{Times, spread};
use crate::load::{Load, Until};
use crate::measured::{Measured, Noise, ProcessTaken, Slice, Taken};
use crate::memory;
use crate::process::Used;
use crate::profile;
use crate::report::{self, Report};
use crate::start::Ground;
use crate::target::Target;
use crate::verify::{self, Counts};
use crate::workload::{Expected, Question, Workload};

/// Settlements go on for a moment after the last answer; their CPU belongs to the slice.
const AFTERMATH: Duration = Duration::from_millis(150);
/// Length of a slice that is profiled.
const PROFILED: Duration = Duration::from_secs(3);
/// Requests before anything is measured.
const WARM_UP: usize = 100;

struct Bench<'a> {
    options: &'a Run,
    slice: Duration,
    rounds: usize,
    runtime: Runtime,
    upstream: Child,
    upstream_addr: std::net::SocketAddr,
    targets: Vec<Target>,
    key: String,
    slow: Workload,
}

/// Measures, verifies, prints.
pub fn run(options: &Run) -> anyhow::Result<()> {
    anyhow::ensure!(
        (1..=9000).contains(&options.streams),
        "--streams is {}, expected 1 to 9000",
        options.streams
    );
    let programs = match &options.programs {
        Some(programs) => programs.clone(),
        None => own_directory()?,
    };
    let base = match &options.directory {
        Some(directory) => directory.clone(),
        None => programs
            .parent()
            .map_or_else(|| programs.clone(), PathBuf::from),
    };
    let directory = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&base)?;
    let slow = Workload::slow(options.streams);
    let ground = Ground {
        programs,
        directory: directory.path().to_owned(),
        key: "bench-caller-key-0123456789abcdefghijklmnop".to_owned(),
        workloads: Workload::TIMED.into_iter().chain([slow]).collect(),
    };
    let (mut bench, ready_seconds) = Bench::start(options, &ground, slow)?;
    let mut measured = Measured {
        ready_seconds,
        ..Measured::default()
    };
    let done = bench.measure(&mut measured);
    let misses = done.map(|()| bounds::check(&measured));
    let report = misses.and_then(|bounds| {
        let profiles = bench.profiles(&bounds)?;
        let verified = bench.verify()?;
        Ok(Report {
            measured: &measured,
            carrying: carrying::measure()?,
            bounds,
            profiles,
            verified,
            rounds: bench.rounds,
            slice: bench.slice,
            quick: options.quick,
        })
    });
    let report = report.inspect_err(|_| {
        // The programs' own words say more than a broken connection.
        let logs: String = bench.targets.iter().map(Target::tails).collect();
        report::progress(&logs);
    })?;
    let json = options
        .json
        .clone()
        .unwrap_or_else(|| base.join("bench.json"));
    report.write(&json)?;
    drop(bench);
    Ok(())
}

fn own_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("no directory")?.to_owned())
}

impl<'a> Bench<'a> {
    fn start(
        options: &'a Run,
        ground: &Ground,
        slow: Workload,
    ) -> anyhow::Result<(Self, Option<(f64, f64)>)> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (upstream, upstream_addr) = ground.upstream()?;
        let mut ready_seconds = None;
        let mut targets = Vec::new();
        for kind in Kind::ALL {
            if !options.targets.contains(&kind) && kind != Kind::Direct {
                continue;
            }
            report::progress(&format!("starting {kind}"));
            targets.push(match kind {
                Kind::Direct => Target::new(kind, upstream_addr, Vec::new()),
                Kind::Proxy => ground.proxy(upstream_addr)?,
                Kind::One => {
                    let (target, readiness) = ground.one(upstream_addr)?;
                    let (empty, existing) = (readiness.empty, readiness.existing);
                    ready_seconds = Some((empty.as_secs_f64(), existing.as_secs_f64()));
                    target
                }
                Kind::Split => ground.split(upstream_addr, &runtime)?,
            });
        }
        let (slice_ms, rounds) = if options.quick { (500, 2) } else { (2000, 5) };
        let bench = Self {
            options,
            slice: Duration::from_millis(options.slice_ms.unwrap_or(slice_ms).max(100)),
            rounds: options.rounds.unwrap_or(rounds).max(1),
            runtime,
            upstream,
            upstream_addr,
            targets,
            key: ground.key.clone(),
            slow,
        };
        Ok((bench, ready_seconds))
    }

    fn measure(&mut self, measured: &mut Measured) -> anyhow::Result<()> {
        for target in &self.targets {
            if !target.processes.is_empty() {
                measured.memory.insert(target.kind, memory::idle(target)?);
            }
        }
        report::progress("comparing first answers");
        self.first_answers()?;
        self.memory(measured)?;
        self.rounds(measured)
    }

    /// Reads one answer of each target to each workload, and compares it with the upstream's own.
    fn first_answers(&mut self) -> anyhow::Result<()> {
        let workloads: Vec<_> = Workload::TIMED.into_iter().chain([self.slow]).collect();
        for workload in workloads {
            let before = self.counts()?;
            let questions = self
                .targets
                .iter()
                .map(|target| Question::new(workload, target.kind, target.addr, &self.key))
                .collect::<Result<Vec<_>, _>>()?;
            // All at once: the slow one takes its time.
            let answers = self.runtime.block_on(async {
                let mut reading = tokio::task::JoinSet::new();
                for (index, question) in questions.iter().cloned().enumerate() {
                    reading.spawn(async move {
                        let mut caller = Caller::connect(question.addr).await?;
                        anyhow::Ok((index, caller.read(&question).await?))
                    });
                }
                let mut answers = BTreeMap::new();
                while let Some(answer) = reading.join_next().await {
                    let (index, answer) =
                        answer?.with_context(|| format!("first answer, {}", workload.name()))?;
                    answers.insert(index, answer);
                }
                anyhow::Ok(answers)
            })?;
            let served = self.counts()?.since(before);
            anyhow::ensure!(
                served.completed == self.targets.len() as u64 && served.total == served.completed,
                "{} targets were asked once each, the upstream served {served:?}",
                self.targets.len()
            );
            let direct = answers.get(&0).context("no direct answer")?;
            for (index, question) in questions.into_iter().enumerate() {
                let (target, answer) = (&mut self.targets[index], &answers[&index]);
                answer::check(target.kind, workload, direct, answer)?;
                let expected = Expected::new(answer.clone());
                target.known.insert(workload, (question, expected));
                *target.answers.entry(workload).or_default() += 1;
                target.served.add(Counts {
                    total: 1,
                    completed: 1,
                    prompt_tokens: workload.input_tokens(),
                    completion_tokens: workload.output_tokens(),
                });
            }
        }
        Ok(())
    }

    fn memory(&mut self, measured: &mut Measured) -> anyhow::Result<()> {
        for index in 0..self.targets.len() {
            let kind = self.targets[index].kind;
            let Some(memory) = measured.memory.get_mut(&kind) else {
                continue;
            };
            report::progress(&format!("{kind}: {} slow streams", self.options.streams));
            let warm_up = Until::Each {
                requests: WARM_UP,
                unrecorded: WARM_UP,
                stagger: Duration::ZERO,
            };
            self.load(index, Slice::ALONE, warm_up)?;
            let before = self.counts()?;
            let target = &self.targets[index];
            let right = memory::with_streams(target, self.slow, self.options.streams, memory)?;
            self.account(index, self.slow, right, before)?;
        }
        Ok(())
    }

    fn rounds(&mut self, measured: &mut Measured) -> anyhow::Result<()> {
        let mut all: BTreeMap<(Slice, Kind), Vec<Taken>> = BTreeMap::new();
        for round in 0..=self.rounds {
            let what = if round == 0 { "warm-up" } else { "round" };
            report::progress(&format!("{what} {round}/{}", self.rounds));
            for slice in self.slices() {
                for index in 0..self.targets.len() {
                    let taken = self.slice(index, slice)?;
                    if round > 0 {
                        let kind = self.targets[index].kind;
                        all.entry((slice, kind)).or_default().push(taken);
                    }
                }
            }
            self.upstream.check()?;
            self.targets.iter_mut().try_for_each(Target::check)?;
        }
        for ((slice, kind), rounds) in all {
            if kind == Kind::Proxy {
                let of = |figure: fn(&Taken) -> f64| {
                    spread(&rounds.iter().map(figure).collect::<Vec<_>>())
                };
                let noise = Noise {
                    cpu: of(|taken| taken.cpu_us),
                    latency_p50: of(|taken| taken.latency.p50_us),
                    first_token_p99: of(|taken| taken.first_token.p99_us),
                };
                measured.noise.insert(slice, noise);
            }
            let of_slice = measured.slices.entry(slice).or_default();
            of_slice.insert(kind, Taken::over(&rounds));
        }
        Ok(())
    }

    fn slices(&self) -> Vec<Slice> {
        let asked = &self.options.slices;
        let all = Slice::ALL.into_iter();
        all.filter(|slice| asked.is_empty() || asked.contains(slice))
            .collect()
    }

    fn slice(&mut self, index: usize, slice: Slice) -> anyhow::Result<Taken> {
        let until = if slice == Slice::PACED {
            // A stream takes a second; the first of each caller is not measured, as not all of them are there yet. Callers who
            // know nothing of each other begin at any time: their streams' tokens are spread over the time between two of one.
            let apart = slice.workload.duration() + Workload::PACE;
            let recorded = usize::try_from(self.slice.as_secs())?.max(1);
            Until::Each {
                requests: recorded + 1,
                unrecorded: 1,
                stagger: apart / u32::try_from(slice.callers)?,
            }
        } else {
            Until::Elapsed(self.slice)
        };
        self.load(index, slice, until)
    }

    /// One load on one target, checked and measured.
    fn load(&mut self, index: usize, slice: Slice, until: Until) -> anyhow::Result<Taken> {
        let target = &self.targets[index];
        let (question, expected) = target
            .known
            .get(&slice.workload)
            .context("the workload was not asked before")?;
        let load = Load {
            question: question.clone(),
            expected: expected.clone(),
            callers: slice.callers,
            until,
            record: if slice == Slice::PACED {
                Record::Tokens
            } else {
                Record::Answers
            },
            duration: self.slice + slice.workload.duration() * 4,
        };
        let before = self.counts()?;
        let prepared = load.prepare()?;
        let (used, stores_used) = (target.used()?, target.stores_used()?);
        let what = || format!("{}, {}", target.kind, slice.name());
        let (mut seen, took) = prepared.go().finish().with_context(what)?;
        std::thread::sleep(AFTERMATH);
        let (used_then, stores_used_then) = (target.used()?, target.stores_used()?);

        let answers = seen.right.max(1) as f64;
        let part = |((name, before), (_, then)): (&(String, Used), &(String, Used))| {
            let used = *then - *before;
            ProcessTaken {
                name: name.clone(),
                user_us: used.user_seconds * 1e6 / answers,
                system_us: used.system_seconds * 1e6 / answers,
                sleeps: used.sleeps as f64 / answers,
            }
        };
        let gateway: Vec<_> = used.iter().zip(&used_then).map(part).collect();
        let stores: Vec<_> = stores_used
            .iter()
            .zip(&stores_used_then)
            .map(part)
            .collect();
        let cpu = |parts: &[ProcessTaken]| {
            // Not `sum`: that of nothing is -0.
            let of = parts.iter().map(|part| part.user_us + part.system_us);
            of.fold(0.0, std::ops::Add::add)
        };
        let taken = Taken {
            answers: seen.right,
            answers_per_second: seen.right as f64 / took.as_secs_f64(),
            latency: Times::of(&mut seen.answers),
            first_token: Times::of(&mut seen.first_tokens),
            gap: Times::of(&mut seen.gaps),
            cpu_us: cpu(&gateway),
            stores_cpu_us: cpu(&stores),
            processes: gateway.into_iter().chain(stores).collect(),
        };
        self.account(index, slice.workload, seen.right, before)?;
        Ok(taken)
    }

    /// Writes down what was answered through a target, and what the upstream says it served in that time.
    fn account(
        &mut self,
        index: usize,
        workload: Workload,
        right: u64,
        before: Counts,
    ) -> anyhow::Result<()> {
        let served = self.counts()?.since(before);
        let target = &mut self.targets[index];
        *target.answers.entry(workload).or_default() += right;
        target.served.add(served);
        Ok(())
    }

    fn counts(&self) -> anyhow::Result<Counts> {
        let addr = self.upstream_addr;
        let body = self.runtime.block_on(async {
            let mut caller = Caller::connect(addr).await?;
            caller.get(verify::STATS_PATH, &addr.to_string()).await
        })?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Where the time goes, for each bound on CPU that was missed.
    fn profiles(&mut self, bounds: &[bounds::Bound]) -> anyhow::Result<Vec<profile::Profile>> {
        let mut profiles = Vec::new();
        if !self.options.profile {
            return Ok(profiles);
        }
        for (kind, slice) in bounds::to_be_profiled(bounds) {
            let Some(index) = self.targets.iter().position(|target| target.kind == kind) else {
                continue;
            };
            report::progress(&format!("profiling {kind}, {}", slice.name()));
            let directory = tempfile::tempdir()?;
            let pids: Vec<_> = self.targets[index]
                .processes
                .iter()
                .map(Child::pid)
                .collect();
            let recording = profile::Recording::start(directory.path(), &pids);
            self.load(index, slice, Until::Elapsed(PROFILED))?;
            profiles.push(profile::Profile {
                kind,
                slice,
                lines: recording.and_then(profile::Recording::lines),
            });
        }
        Ok(profiles)
    }

    fn verify(&self) -> anyhow::Result<BTreeMap<Kind, verify::Verified>> {
        report::progress("comparing the books");
        let mut all = BTreeMap::new();
        let mut problems = Vec::new();
        for target in &self.targets {
            match verify::verify(target, &self.runtime) {
                Ok(verified) => all.extend(verified.map(|verified| (target.kind, verified))),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
        Ok(all)
    }
}
